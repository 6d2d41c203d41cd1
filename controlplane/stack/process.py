"""One supervised program: started in a session of its own, bound to our life, stopped with its whole process group."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.stack.account import Account

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Program:
    """What to run and how to treat it. Programs of one `stage` start in their order and are stopped together."""

    name: str
    argv: tuple[str, ...]
    log: Path
    stage: int
    environment: Mapping[str, str] = field(default_factory=dict)
    is_ready: Callable[[], bool] = lambda: True
    stop_signal: signal.Signals = signal.SIGTERM
    # Sent by the kernel when `up` itself is killed. A server that has data to bring home gets its stop signal.
    orphan_signal: signal.Signals = signal.SIGKILL
    grace_s: float = 10
    ready_within_s: float = 60
    account: Account | None = None
    cwd: Path = Path("/")
    inherited_files: tuple[int, ...] = ()


class Child:
    """A started program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        parent = os.getpid()
        identity = program.account.identity if program.account else {}
        with program.log.open("ab") as log:
            self._process = subprocess.Popen(
                program.argv,
                env={**os.environ, "CONTROLPLANE_PROCESS": program.name, **program.environment},
                cwd=program.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=program.inherited_files,
                # Safe: this process has one thread. It runs after the change of user, which would clear the setting.
                preexec_fn=lambda: die_with_parent(parent, program.orphan_signal),  # noqa: PLW1509
                **identity,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(self.program.stop_signal)

    def wait(self, seconds: float) -> bool:
        """Whether it ended within `seconds`."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def sweep(self) -> None:
        """Kill whatever is left of its process group, itself included, and reap it."""
        if self._process.poll() is None or _group_exists(self.pid):
            with suppress(ProcessLookupError):  # it went in between
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def die_with_parent(parent: int, orphan_signal: signal.Signals) -> None:
    """In a new child before exec: have the kernel send `orphan_signal` when the parent dies (Linux only)."""
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0)
    if os.getppid() != parent:  # it died before the call above: nobody will tell us
        os._exit(1)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
