"""A real sshd as an ordinary process, with keys and configuration of its own, on a port that the kernel chooses.

    with running_sshd(tmp_path) as server:
        links.call(server.endpoint(root=...), "hello")

Works as root and as an ordinary user; logs in as the user who runs the tests. Fails, never skips, when sshd is missing.
"""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from controlplane.drivers.endpoint import Endpoint

_START_TIMEOUT_S = 10.0
_ATTEMPTS = 5  # somebody may take the port between choosing and binding


@dataclass
class Sshd:
    """A running server. `restart` brings it back on the same port, with other keys if wanted."""

    folder: Path
    port: int
    client_key: asyncssh.SSHKey = field(repr=False)
    host_key: asyncssh.SSHKey = field(repr=False)
    extra_configuration: str = ""
    process: subprocess.Popen[bytes] | None = None

    def endpoint(self, *, root: str, jump: Endpoint | None = None, python: str = "", username: str = "") -> Endpoint:
        """How to get in, with this server's key pinned."""
        return Endpoint(
            kind="ssh",
            address="127.0.0.1",
            port=self.port,
            username=username or getpass.getuser(),
            private_key=self.client_key.export_private_key("openssh").decode(),
            host_key=public_text(self.host_key),
            jump=jump,
            root=root,
            python=python,
        )

    def cut(self) -> None:
        """Kill the listener and every open connection, as a dead network would."""
        children = subprocess.run(
            ["ps", "-o", "pid=,ppid=", "-e"], capture_output=True, text=True, check=True
        ).stdout.split("\n")
        parents = {int(pid): int(ppid) for pid, ppid in (line.split() for line in children if line.strip())}
        self.stop()
        ours = {self.process.pid} if self.process else set()
        grown = True
        while grown:
            new = {pid for pid, ppid in parents.items() if ppid in ours and _is_sshd(pid)} - ours
            ours |= new
            grown = bool(new)
        for pid in ours - ({self.process.pid} if self.process else set()):
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)

    def stop(self) -> None:
        """End the listener; open connections live on, as with a restarted sshd."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(_START_TIMEOUT_S)

    def start(self) -> None:
        """Start the listener on this server's port. Raises OSError when the port is taken."""
        sshd = _program()
        config = self._write_configuration()
        self.process = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(config)], stderr=(self.folder / "sshd.log").open("ab")
        )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise OSError(
                    f"sshd ended with {self.process.returncode}: {(self.folder / 'sshd.log').read_text()[-500:]}"
                )
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise OSError("sshd does not listen")

    def _write_configuration(self) -> Path:
        key_file = self.folder / "host_key"
        key_file.unlink(missing_ok=True)
        self.host_key.write_private_key(str(key_file))
        key_file.chmod(0o600)
        authorized = self.folder / "authorized_keys"
        authorized.write_text(public_text(self.client_key) + "\n")
        authorized.chmod(0o600)
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {key_file}\nAuthorizedKeysFile {authorized}\n"
            f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nAllowTcpForwarding yes\nMaxStartups 100\nLogLevel VERBOSE\n"
            + self.extra_configuration
        )
        return config


@contextmanager
def running_sshd(folder: Path, extra_configuration: str = "") -> Iterator[Sshd]:
    """A server in `folder` for the length of the block; its connections end with it."""
    folder.mkdir(parents=True, exist_ok=True)
    if Path("/run").stat().st_uid == 0 and getpass.getuser() == "root":
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd as root insists on its separation directory
    key, host_key = new_key(), new_key()
    for attempt in range(_ATTEMPTS):
        server = Sshd(
            folder=folder, port=_free_port(), client_key=key, host_key=host_key, extra_configuration=extra_configuration
        )
        try:
            server.start()
            break
        except OSError:
            if attempt == _ATTEMPTS - 1:
                raise
    try:
        yield server
    finally:
        server.cut()


def new_key(kind: str = "ssh-ed25519") -> asyncssh.SSHKey:
    """A fresh key pair."""
    return asyncssh.generate_private_key(kind)


def public_text(key: asyncssh.SSHKey) -> str:
    """`type base64`"""
    return " ".join(key.export_public_key().decode().split()[:2])


def _program() -> str:
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if not found:
        raise RuntimeError("sshd is missing; install it (Debian: apt-get install openssh-server)")
    return str(Path(found).resolve())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    except OSError:
        return False
