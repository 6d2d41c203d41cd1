"""What lies where in the state directory (docs/reference/state-directory.md)."""

import os
from dataclasses import dataclass
from pathlib import Path

from controlplane.core.errors import Problem

# sockaddr_un.sun_path is 108 bytes on Linux and 104 on macOS, with the closing zero byte.
LONGEST_SOCKET_PATH_BYTES = 103


class StateDirectoryUnusable(Problem):
    code = "state_directory_unusable"
    remedy = "Name another folder with --state-dir or CONTROLPLANE_STATE_DIR."


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Names inside one state directory; nothing here touches the disk but `make`."""

    root: Path

    @property
    def secret_key(self) -> Path:
        return self.root / "secret.key"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def run(self) -> Path:
        """Unix sockets of the embedded servers."""
        return self.root / "run"

    @property
    def programs(self) -> Path:
        """Root only: copies of the server programs that the unprivileged account can reach."""
        return self.root / "programs"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def sshd(self) -> Path:
        """Keys of the SSH server through which the demonstration reaches this machine; none where it never ran."""
        return self.root / "sshd"

    @property
    def supervisor_lock(self) -> Path:
        """Held by `up` for as long as it lives."""
        return self.root / "up.lock"

    @property
    def children_lock(self) -> Path:
        """Held by `up` and by every program that it started: free only once all of them are gone."""
        return self.root / "children.lock"

    @property
    def running(self) -> Path:
        """Process id and address of the `up` that holds the lock, for a second one to name."""
        return self.root / "up.json"

    def make(self) -> None:
        """Make the folders. Others may pass through `root` only where root must let the unprivileged account in.

        Raises `StateDirectoryUnusable` when the folder cannot be made, or its path is too long for a unix socket.
        """
        longest = len(os.fsencode(self.run / ".s.PGSQL.5432"))
        if longest > LONGEST_SOCKET_PATH_BYTES:
            raise StateDirectoryUnusable(
                f"The path of the state directory is {longest - LONGEST_SOCKET_PATH_BYTES} bytes too long for a unix"
                f" socket: {self.root}"
            )
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StateDirectoryUnusable(
                f"The state directory {self.root} cannot be used: {error.strerror}."
            ) from error
