"""An SSH server for the user who starts it: loopback only, a key and a host key of its own, gone with its owner.

The demonstration and the end-to-end tests reach this machine through it as they would reach another one. It works as
root and as an ordinary user, and does not touch the machine's own SSH server or the user's `~/.ssh`.
"""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.core.errors import Problem
from controlplane.stack import logs
from controlplane.stack.process import Child, Program

HOST = "127.0.0.1"
PORT_TRIES = 5
ACCESS_FILE = "access.json"
READY_WITHIN_S = 10.0
POLL_S = 0.05
# sshd is in a folder for administrators, which an ordinary user's PATH may leave out.
ADMIN_FOLDERS = "/usr/sbin:/usr/local/sbin:/sbin"


class SshdUnavailable(Problem):
    code = "sshd_unavailable"
    remedy = "Install it (Debian and Ubuntu: apt install openssh-server)."


@dataclass(frozen=True, slots=True)
class UserSshd:
    """How to get in. `host_key` is the public key line that the server proves to have."""

    host: str
    port: int
    user: str
    private_key: str  # path of an unencrypted OpenSSH key, mode 0600
    host_key: str


def find_sshd() -> str | None:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{ADMIN_FOLDERS}")


@contextmanager
def user_sshd(folder: Path) -> Iterator[UserSshd]:
    """A running server with its keys and log in `folder` (kept private). Raises `SshdUnavailable`."""
    sshd, user = _make_ready(folder)
    child, port = _start(sshd, folder, user)
    try:
        yield _way_in(folder, port, user)
    finally:
        child.ask_to_stop()
        child.wait(5)
        child.sweep()


def serve_until_input_ends(folder: Path) -> None:
    """Print the way in as one JSON line, then serve until standard input closes: the owner's end ends the server."""
    with user_sshd(folder) as server:
        sys.stdout.write(json.dumps(asdict(server)) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


def kept_program(folder: Path, *, log: Path, stage: int) -> Program:
    """The server as a program that `up` keeps running, on the same port at every start; the way in is written to
    `access.json` in `folder`. Raises `SshdUnavailable`."""
    sshd, user = _make_ready(folder)
    access = folder / ACCESS_FILE
    port = int(json.loads(access.read_text())["port"]) if access.exists() else _free_port()
    config = folder / "sshd_config"
    config.write_text(configuration(folder, port=port, user=user))
    access.write_text(json.dumps(asdict(_way_in(folder, port, user))))
    return Program(
        name="sshd",
        argv=(sshd, "-D", "-e", "-f", str(config)),
        log=log,
        stage=stage,
        is_ready=lambda: _greets(port),
        orphan_signal=signal.SIGTERM,
    )


def _make_ready(folder: Path) -> tuple[str, str]:
    """Keys and folders; answers the sshd executable and the user who may log in."""
    sshd, keygen = find_sshd(), shutil.which("ssh-keygen")
    if sshd is None or keygen is None:
        raise SshdUnavailable(f"{'sshd' if sshd is None else 'ssh-keygen'} is not installed.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("host_key", "client_key"):
        _make_key(keygen, folder / name)
    shutil.copyfile(folder / "client_key.pub", folder / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it for privilege separation
    return sshd, pwd.getpwuid(os.geteuid()).pw_name


def _way_in(folder: Path, port: int, user: str) -> UserSshd:
    host_key = (folder / "host_key.pub").read_text().strip()
    return UserSshd(HOST, port, user, str(folder / "client_key"), host_key)


def configuration(folder: Path, *, port: int, user: str) -> str:
    """The whole of sshd_config: only this user, only by our key, only from this machine."""
    lines = [
        f"Port {port}",
        f"ListenAddress {HOST}",
        f'HostKey "{folder / "host_key"}"',
        f'AuthorizedKeysFile "{folder / "authorized_keys"}"',
        f"AllowUsers {user}",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "StrictModes no",  # folders above ours, such as /tmp, may be writable by others; ours is 0700
        "PidFile none",
        "MaxStartups 100",
        "MaxSessions 100",
        "Subsystem sftp internal-sftp",
        "LogLevel VERBOSE",
    ]
    return "\n".join(lines) + "\n"


def _start(sshd: str, folder: Path, user: str) -> tuple[Child, int]:
    """Start on a free port. sshd cannot say which one it got for port 0, so a lost race is tried again."""
    config, log = folder / "sshd_config", folder / "sshd.log"
    for _ in range(PORT_TRIES):
        port = _free_port()
        config.write_text(configuration(folder, port=port, user=user))
        child = Child(
            Program(
                name="sshd",
                argv=(sshd, "-D", "-e", "-f", str(config)),
                log=log,
                stage=0,
                orphan_signal=signal.SIGTERM,
            )
        )
        if _answers(child, port):
            return child, port
        child.sweep()
    raise SshdUnavailable(f"sshd does not start. The end of {log}:", remedy=logs.tail(log))


def _answers(child: Child, port: int) -> bool:
    """Whether our server sends its greeting before it ends or time is up."""
    end = time.monotonic() + READY_WITHIN_S
    while child.exit_code() is None and time.monotonic() < end:
        if _greets(port):
            return child.exit_code() is None
        child.wait(POLL_S)
    return False


def _greets(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as client:
            return client.recv(4) == b"SSH-"
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])


def _make_key(keygen: str, path: Path) -> None:
    if not path.exists():
        argv = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", "vllm-controlplane", "-f", str(path)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
