"""What must be true before the web process starts: tables as the code wants them, a first administrator, this machine
as a host. Runs as a program of its own (`python -m controlplane.stack.prepare`), so that `up` stays free of Django.

Prints one JSON line: {"admin_password": text or null, "missing": [steps that this version does not have]}.
"""

import json
import os
import sys

import django
from django.core.management import call_command, get_commands

# Commands run after migration, in this order; each can run again without harm.
STEPS = ("ensure_localhost",)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    call_command("migrate", interactive=False, stdout=sys.stderr)
    password = _create_first_admin()
    known = get_commands()
    for step in STEPS:
        if step in known:
            call_command(step, stdout=sys.stderr)
    missing = [step for step in STEPS if step not in known]
    sys.stdout.write(json.dumps({"admin_password": password, "missing": missing}) + "\n")


def _create_first_admin() -> str | None:
    from controlplane.accounts.services import create_first_admin  # noqa: PLC0415  # models need django.setup() first

    return create_first_admin()


if __name__ == "__main__":
    main()
