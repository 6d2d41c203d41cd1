from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.bench.loadgen.calibrate import calibrate


class Command(BaseCommand):
    help = "Measure the load generator against the calibration server; fails beyond the documented limits."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--python", default=None, help="the Python to run the load generator with (an engine's)")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = {"python": options["python"]} if options["python"] else {}
        if not calibrate(self.stdout.write, **chosen):
            raise CommandError("a limit was exceeded; on a busy machine try again when it is quiet")
