"""`manage.py harvest_engine_args VERSION…`: add vLLM releases to the flag catalogue."""

import json
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.configs.domain import harvest
from controlplane.configs.domain.catalogue import DATA
from controlplane.configs.domain.flags import Flag
from controlplane.configs.management.engine_source import HarvestError, arguments_of


class Command(BaseCommand):
    """Fetches one release after the other and rewrites the catalogue after each, so that a failure loses nothing."""

    help = "Read every `vllm serve` argument of vLLM releases from their source distributions into the flag catalogue."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to add, for example 0.33.0")
        parser.add_argument("--all", action="store_true", help="read every release of the catalogue again")
        parser.add_argument("--catalogue", type=Path, default=DATA, help="the file to rewrite")

    def handle(self, *_args: Any, **options: Any) -> None:
        path: Path = options["catalogue"]
        releases = harvest.unfold(json.loads(path.read_text())) if path.exists() else {}
        wanted = list(dict.fromkeys([*(releases if options["all"] else ()), *options["versions"]]))
        if not wanted:
            raise CommandError("Name at least one release, or give --all.")
        failed = [version for version in wanted if not self._add(version, releases, path)]
        if failed:
            raise CommandError(f"Not harvested: {', '.join(failed)}. The others are in {path.name}.")

    def _add(self, version: str, releases: dict[str, dict[str, Flag]], path: Path) -> bool:
        try:
            with tempfile.TemporaryDirectory(prefix="harvest-") as workspace:
                found = harvest.options_of(arguments_of(version, Path(workspace)))
        except HarvestError as error:
            self.stderr.write(self.style.ERROR(str(error)))
            return False
        releases[version] = found
        path.write_text(harvest.dumps(harvest.fold(releases)))
        self.stdout.write(f"{version}: {len(found)} arguments")
        return True
