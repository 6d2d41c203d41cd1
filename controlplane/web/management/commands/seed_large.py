"""`manage.py seed_large`: an installation of invented hosts, instances and runs, to look at and to time."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.web.management import seeding


class Command(BaseCommand):
    help = (
        "Fills the present database with invented rows (200 hosts, 2,000 instances, 20,000 runs unless told otherwise)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        sizes = seeding.Sizes()
        for name in ("hosts", "instances", "runs", "measured_runs"):
            parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(sizes, name))
        parser.add_argument("--seed", type=int, default=1, help="another number gives other figures")
        parser.add_argument("--force", action="store_true", help="also into a database that holds real rows")
        parser.add_argument("--remove", action="store_true", help="take the invented rows away again, and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["remove"]:
            seeding.remove()
            self.stdout.write("Removed.")
            return
        if (real := seeding.existing()) and not options["force"]:
            there = ", ".join(f"{count:,} {kind}" for kind, count in real.items())
            raise CommandError(f"This database holds {there}. Add --force to put invented rows beside them.")
        started = time.monotonic()
        sizes = seeding.Sizes(
            hosts=options["hosts"],
            instances=options["instances"],
            runs=options["runs"],
            measured_runs=options["measured_runs"],
        )
        seeding.remove()
        made = seeding.seed(sizes, now=timezone.now(), number=options["seed"])
        seeding.refresh_statistics()
        for kind, count in made.items():
            self.stdout.write(f"{count:>8,} {kind}")
        self.stdout.write(f"in {time.monotonic() - started:.1f} s. Take them away with: manage.py seed_large --remove")
