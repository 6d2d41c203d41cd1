"""Commands of the local stack: handed over to `python -m controlplane.stack`, which runs without Django."""

import os
import sys

from django.core.management.base import BaseCommand


class StackCommand(BaseCommand):
    """`manage.py NAME ARGUMENT…` becomes `python -m controlplane.stack NAME ARGUMENT…` in the same process."""

    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        os.execv(sys.executable, [sys.executable, "-m", "controlplane.stack", *argv[1:]])  # noqa: S606
