from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.bench.loadgen.calibrate import NoYardstick, calibrate


class Command(BaseCommand):
    help = "Measure the load generator against the calibration server; fails beyond the documented limits."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--python", default=None, help="the Python to run the load generator with (an engine's)")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = {"python": options["python"]} if options["python"] else {}
        try:
            is_good = calibrate(self.stdout.write, **chosen)
        except NoYardstick as error:
            raise CommandError(str(error)) from None
        if not is_good:
            raise CommandError("a limit was exceeded; on a busy machine try again when it is quiet")
