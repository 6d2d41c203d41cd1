"""`python -m controlplane.stack.prepare [tables] [admin] [steps]`; without a word: all three.

What must be true before the web process starts: tables as the code wants them, a first administrator, this machine
as a host. Runs as a program of its own (`python -m controlplane.stack.prepare`), so that `up` stays free of Django.

Prints one JSON line: {"admin_password": text or null}.
"""

import json
import os
import sys

import django
from django.core.management import call_command, get_commands

# Commands run after migration, in this order; each can run again without harm.
STEPS = ("ensure_localhost",)


def main(wanted: set[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    password = None
    if "tables" in wanted:
        call_command("migrate", interactive=False, stdout=sys.stderr)
    if "admin" in wanted:
        password = _create_first_admin()
    if "steps" in wanted:
        for step in (step for step in STEPS if step in get_commands()):
            call_command(step, stdout=sys.stderr)
    sys.stdout.write(json.dumps({"admin_password": password}) + "\n")


def _create_first_admin() -> str | None:
    from controlplane.accounts.services import create_first_admin  # noqa: PLC0415  # models need django.setup() first

    return create_first_admin()


if __name__ == "__main__":
    main(set(sys.argv[1:]) or {"tables", "admin", "steps"})
