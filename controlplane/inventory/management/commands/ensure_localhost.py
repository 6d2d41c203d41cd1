"""Register this machine as a host; safe to run at every start.

manage.py ensure_localhost [--engine-path '~/venvs/*/bin/vllm']
manage.py ensure_localhost --name localhost-ssh --ssh-port 2222 --ssh-user me --ssh-key-file K --host-key-file K.pub
"""

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core import events
from controlplane.core.errors import Problem
from controlplane.inventory import services
from controlplane.inventory.models import Host
from controlplane.inventory.services import SshAccess


class Command(BaseCommand):
    help = "Register this machine as a host (local, or over its own SSH server); changes only what differs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", default="localhost", help="Name of the host (default: localhost).")
        parser.add_argument("--engine-path", action="append", default=[], help="Where else vllm is; globs, repeatable.")
        parser.add_argument("--root", default=None, help="Where the host program keeps its files.")
        parser.add_argument("--local", action="store_true", help="Reach it directly, also if it was reached over SSH.")
        parser.add_argument("--ssh-port", type=int, help="Reach it over SSH on this port instead of directly.")
        parser.add_argument("--ssh-address", default="127.0.0.1")
        parser.add_argument("--ssh-user", default=getpass.getuser())
        parser.add_argument("--ssh-key-file", type=Path, help="Private key that may log in; stored encrypted.")
        parser.add_argument("--host-key-file", type=Path, help="The server's public key, pinned without asking.")

    def handle(self, *args: Any, **options: Any) -> None:
        host = Host.objects.select_related("ssh_key").filter(name=options["name"]).first()
        try:
            self._ensure(host, options)
        except Problem as problem:
            raise CommandError(f"{problem.sentence} {problem.remedy}".strip()) from None
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None

    def _ensure(self, host: Host | None, options: dict[str, Any]) -> None:
        ssh = _access(host, options) if options["ssh_port"] is not None else None
        paths = options["engine_path"]
        if host is None:
            name, root = options["name"], options["root"] or ""
            host = services.add_host(name=name, ssh=ssh, engine_paths=paths, root=root, actor=events.SYSTEM)
            self.stdout.write(f"{host.name}: added")
        else:
            if options["local"] and services.make_local(host=host, actor=events.SYSTEM):
                self.stdout.write(f"{host.name}: reached directly from now on")
            wanted = [*host.engine_paths, *paths]
            services.update_host(host=host, ssh=ssh, engine_paths=wanted, root=options["root"], actor=events.SYSTEM)
        if ssh and options["host_key_file"]:
            key = options["host_key_file"].read_text()
            if services.pin_known_key(host=host, public_key=key, actor=events.SYSTEM):
                self.stdout.write(f"{host.name}: host key pinned")


def _access(host: Host | None, options: dict[str, Any]) -> SshAccess:
    """A key file whose key is stored already is not stored again."""
    text = options["ssh_key_file"].read_text() if options["ssh_key_file"] else ""
    is_known = bool(text) and host is not None and services.is_same_key(host.ssh_key, text)
    return SshAccess(
        address=options["ssh_address"],
        port=options["ssh_port"],
        username=options["ssh_user"],
        new_key="" if is_known else text,
    )
