"""A whole control plane for one test run: `python -m controlplane.tests.stack_keeper VLLM`.

Starts `up` in a state directory of its own with this machine as host `localhost`, prints one JSON line (`Kept`), and
stays until its standard input closes: that happens however the test run ends. Then it stops `up`, every engine that was
launched, and prints a last JSON line: `{"left": [command lines of what would not go]}`.

It is a process apart because engines outlive a control plane on purpose; a killed pytest could not tidy up after them.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint
from controlplane.stack.account import server_account
from controlplane.stack.paths import StatePaths
from controlplane.stack.postgres import EmbeddedPostgres
from controlplane.stack.process import die_with_parent
from controlplane.stack.programs import REPOSITORY
from controlplane.stack.supervisor import StartFailed
from controlplane.stack.valkey import EmbeddedValkey

STARTS_WITHIN_S = 180.0  # seconds on a quiet machine; a busy one gets its time
STOPS_WITHIN_S = 60.0
GONE_WITHIN_S = 20.0
POLL_S = 0.1
ANNOUNCED = re.compile(r"Running at (\S+)")
PASSWORD = re.compile(r"First administrator: admin  Password \(shown this once\): (\S+)")
OURS = ("DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE")


@dataclass(frozen=True)
class Kept:
    """What the test run is told. `manage` are the environment variables that make `manage.py` speak to this stack."""

    address: str
    password: str
    state_dir: str
    manage: dict[str, str]


def main(vllm: str) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    paths = StatePaths(Path(tempfile.mkdtemp(prefix="vcp-keep-")))
    paths.make()
    try:
        with (paths.root / "said").open("w+") as said:
            up = _start(paths, said.fileno())
            try:
                kept = _await(up, Path(said.name), paths)
                if vllm:
                    _register(kept, vllm)
                _tell(asdict(kept))
                sys.stdin.read()
            finally:
                _stop(up)
    except StartFailed as failure:
        _tell({"error": f"{failure.sentence} {failure.remedy}"})
        return 1
    finally:
        _stop_engines(_host_root(paths))
        left = _awaited_leftovers(paths.root)
        shutil.rmtree(paths.root, ignore_errors=bool(left))
        _tell({"left": left})
    return 0


def leftovers(root: Path) -> list[str]:
    """Command lines of living processes, save this one, that know `root`: by argument, environment, folder or file."""
    return [line for pid, line in _processes() if pid != os.getpid() and _knows(pid, os.fsencode(root))]


def _start(paths: StatePaths, output: int) -> "subprocess.Popen[bytes]":
    parent = os.getpid()
    argv = [sys.executable, "-m", "controlplane.stack", "up", "--port", "0", "--no-open"]
    return subprocess.Popen(
        [*argv, "--state-dir", str(paths.root)],
        cwd=REPOSITORY,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),  # noqa: PLW1509  # this process has one thread
    )


def _environment() -> dict[str, str]:
    """Ours, without the servers and settings of the test run that started us."""
    return {name: value for name, value in os.environ.items() if name not in OURS}


def _await(up: "subprocess.Popen[bytes]", said: Path, paths: StatePaths) -> Kept:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not (announced := ANNOUNCED.search(said.read_text())):
        if up.poll() is not None or time.monotonic() > deadline:
            raise StartFailed("`up` did not announce itself. It said:", remedy=said.read_text())
        time.sleep(POLL_S)
    password = PASSWORD.search(said.read_text())
    if password is None:
        raise StartFailed("`up` showed no password. It said:", remedy=said.read_text())
    account = server_account(paths.postgres / "data")
    manage = {
        "CONTROLPLANE_STATE_DIR": str(paths.root),
        "DATABASE_URL": EmbeddedPostgres(paths, account, {}).url(),
        "BROKER_URL": EmbeddedValkey(paths, account).url(),
    }
    return Kept(announced[1].rstrip("/"), password[1], str(paths.root), manage)


def _register(kept: Kept, vllm: str) -> None:
    """The engine, and a root inside the state directory: nothing is left in the user's home."""
    root = _host_root(StatePaths(Path(kept.state_dir)))
    argv = [sys.executable, "manage.py", "ensure_localhost", "--root", str(root), "--engine-path", vllm]
    done = subprocess.run(
        argv, cwd=REPOSITORY, env={**_environment(), **kept.manage}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StartFailed("localhost could not be registered:", remedy=done.stdout + done.stderr)


def _host_root(paths: StatePaths) -> Path:
    return paths.root / "host"


def _stop(up: "subprocess.Popen[bytes]") -> None:
    up.terminate()
    with suppress(subprocess.TimeoutExpired):
        up.wait(STOPS_WITHIN_S)
    up.kill()
    up.wait()


def _stop_engines(root: Path) -> None:
    """After `up`, so that nobody starts one again. Those that have ended are no trouble to stop."""
    if not root.exists():
        return
    endpoint = Endpoint(root=str(root))
    for launch in links.call(endpoint, "list")["launches"]:
        links.call(
            endpoint, "stop", {"launch_id": launch["launch_id"], "term_timeout_s": 0.0}, timeout_s=STOPS_WITHIN_S
        )
    links.close()


def _awaited_leftovers(root: Path) -> list[str]:
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := leftovers(root)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _knows(pid: int, root: bytes) -> bool:
    proc = Path(f"/proc/{pid}")
    reads: tuple[Callable[[], bytes], ...] = (
        (proc / "cmdline").read_bytes,
        (proc / "environ").read_bytes,
        lambda: os.readlink(os.fsencode(proc / "cwd")),
        lambda: os.readlink(os.fsencode(proc / "fd" / "1")),
    )
    for read in reads:
        with suppress(OSError):  # it ended meanwhile, or is somebody else's
            if root in read():
                return True
    return False


def _tell(answer: object) -> None:
    with suppress(BrokenPipeError):  # the test run is gone; there is still everything to stop
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
