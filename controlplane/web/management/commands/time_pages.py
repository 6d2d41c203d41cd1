"""`manage.py time_pages`: every page and every GET of the API with few rows and many, against the aim of 150 ms at p95.

It makes a database of its own beside the present one and drops it afterwards, so nothing real is touched.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone

from controlplane.web.management import seeding, timed, timing

SMALL = seeding.Sizes(hosts=3, instances=30, runs=40, measured_runs=20)
"""Something of every kind and state, and less than a page of each: what asks once a row asks more with many."""


class Command(BaseCommand):
    help = (
        "Times every page and every GET of the API; exit 1 when one misses the aim, fails, or asks more with more rows."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--repetitions", type=int, default=40)
        parser.add_argument("--aim-ms", type=float, default=timing.AIM_MS)
        parser.add_argument("--only", default="", help="only what has this text in its name")
        parser.add_argument(
            "--present", action="store_true", help="the database as it is: no small data to compare with"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["present"]:
            counts: dict[str, int] = {}
            with transaction.atomic():  # the person whose browser this is leaves no trace
                timings = self._time(options)
                transaction.set_rollback(True)
        else:
            with _database_of_its_own():
                seeding.seed(SMALL, now=timezone.now())
                counts = self._count(options["only"])
                seeding.remove()
                self.stdout.write("seeding 200 hosts, 2,000 instances, 20,000 runs …")
                seeding.seed(seeding.Sizes(), now=timezone.now())
                seeding.refresh_statistics()
                timings = self._time(options)
        missed = self._report(timings, counts, options["aim_ms"])
        if missed:
            raise CommandError(f"{len(missed)} of {len(timings)} miss: " + "; ".join(missed))
        self.stdout.write(f"All {len(timings)} within {options['aim_ms']:g} ms at p95.")

    def _targets(self, only: str, *, is_told: bool = False) -> list[timed.Target]:
        found, missing = timed.targets(timing.signed_in())
        for words in missing if is_told else ():
            self.stdout.write(f"skipped {words}")
        return [target for target in found if only in target.label]

    def _count(self, only: str) -> dict[str, int]:
        client = timing.signed_in()
        return {target.label: timing.query_count(client, target) for target in self._targets(only)}

    def _time(self, options: dict[str, Any]) -> list[timing.Timing]:
        client = timing.signed_in()
        wanted = self._targets(options["only"], is_told=True)
        return [timing.timed(client, target, repetitions=options["repetitions"]) for target in wanted]

    def _report(self, timings: list[timing.Timing], small: dict[str, int], aim_ms: float) -> list[str]:
        """Print the table; returns what missed, in words."""
        self.stdout.write(f"{'p50 ms':>8} {'p95 ms':>8} {'SQL few':>8} {'SQL many':>8} {'KiB':>6}  what")
        missed = []
        for one in timings:
            few = small.get(one.target.label)
            wrong = list(_faults(one, few, aim_ms))
            self.stdout.write(
                f"{one.p50_ms:>8.1f} {one.p95_ms:>8.1f} {'' if few is None else few:>8} {one.queries:>8}"
                f" {one.size_bytes / 1024:>6.0f}  {one.target.label}{'  ← ' + ', '.join(wrong) if wrong else ''}"
            )
            missed += [f"{one.target.label} ({', '.join(wrong)})"] if wrong else []
        return missed


def _faults(one: timing.Timing, few: int | None, aim_ms: float) -> Iterator[str]:
    if one.status != 200:
        yield f"status {one.status}"
    if one.p95_ms > aim_ms:
        yield f"p95 {one.p95_ms:.0f} ms"
    if few is not None and one.queries > few:
        yield f"{one.queries} queries, {few} with few rows"


@contextmanager
def _database_of_its_own() -> Iterator[None]:
    """A new, empty, migrated database under another name; dropped at the end, whatever happened."""
    present = connection.settings_dict["NAME"]
    connection.settings_dict["TEST"]["NAME"] = f"{present}_timing_{os.getpid()}"
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(present, verbosity=0)
