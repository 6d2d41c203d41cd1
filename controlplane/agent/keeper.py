"""The keeper: one small process per launch that outlives SSH connection, worker and control plane.

It reserves the ports, starts the main process in a session of its own, waits for its end, clears away what outlives
it and writes down how it ended. Orphans come to it because it is a subreaper. It sleeps until a child ends or
somebody asks who holds a port.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Optional

from controlplane.agent import records
from controlplane.agent.place import boot_id
from controlplane.agent.ports import Reservation
from controlplane.agent.processes import Identity, Process, Processes, members, send
from controlplane.protocol.launches import NONCE_VARIABLE, ExitRecord, Leftover, RunRecord, StartRequest
from controlplane.protocol.redaction import redact
from controlplane.protocol.shapes import from_wire
from controlplane.protocol.wire import VerbError

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_AUTOGROUP = Path("/proc/self/autogroup")
_AUTOGROUP_TRIES, _AUTOGROUP_PAUSE_S = 20, 0.05
_CLEARING_POLL_S = 0.05


def keep(folder: Path) -> None:
    """Run as `agent.pyz keep DIR`: a StartRequest on stdin; {} on stdout once it runs, or the refusal.

    Returns when everything of the launch is gone.
    """
    request = from_wire(StartRequest, json.loads(sys.stdin.buffer.read()))
    if os.fork():
        os._exit(0)  # who asked waits for this process only
    keeper = _Keeper(folder, request)
    try:
        keeper.launch()
    except VerbError as error:
        keeper.release_ports()
        _answer({"code": error.code, "message": error.message, "remedy": error.remedy})
        return
    _answer({})
    keeper.watch()


def _answer(told: dict[str, str]) -> None:
    """Answer who asked, then let go of the pipes: they wait for their end."""
    with contextlib.suppress(BrokenPipeError):  # the connection was cut meanwhile; they will ask for the launch again
        os.write(1, json.dumps(told).encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


class _Keeper:
    def __init__(self, folder: Path, request: StartRequest) -> None:
        self._folder = folder
        self._request = request
        self._processes = Processes()
        self._reservation = Reservation(request.launch_id)
        self._wake_up = _listen_for_children()
        self._main: Optional[subprocess.Popen[bytes]] = None
        self._identity = Identity(pid=0, start_ticks=0, pgid=0, nonce=request.nonce)
        self._leftovers: dict[int, Leftover] = {}

    def launch(self) -> None:
        """Reserve the ports, start the main process and write the run record. Raises VerbError when that cannot be."""
        for port in self._request.ports:
            self._reservation.take(port, self._processes)
        is_subreaper = _become_subreaper()
        self._main = self._spawn()
        main = self._processes.read(self._main.pid)
        own = self._processes.read(os.getpid())
        self._identity = Identity(
            pid=self._main.pid,
            start_ticks=main.start_ticks if main else 0,  # 0: it has ended already, no process has that start
            pgid=self._main.pid,
            nonce=self._request.nonce,
            keeper_pid=os.getpid(),
            keeper_start_ticks=own.start_ticks if own else 0,
        )
        records.save_run(self._folder, self._record(is_subreaper))

    def watch(self) -> None:
        """Wait for the main process, clear away what outlives it, write down the end."""
        while (status := self._reap()) is None:
            self._sleep(None)
        ended = self._end(os.waitstatus_to_exitcode(status))
        records.save_exit(self._folder, ended)
        self._clear_leftovers()
        self.release_ports()  # before "complete" is written: whoever reads that may start the next launch on them
        records.save_exit(
            self._folder,
            replace(ended, leftovers=list(self._leftovers.values()), is_complete=True),
        )

    def release_ports(self) -> None:
        self._reservation.release()

    def _spawn(self) -> subprocess.Popen[bytes]:
        request = self._request
        log = os.open(self._folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                request.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=request.cwd or str(Path.home()),
                env=_environment(request),
                start_new_session=True,
                # Runs in the child, in its new session; this process has one thread, so that is safe.
                preexec_fn=partial(_give_way, request.nice) if request.nice else None,  # noqa: PLW1509
            )
        except OSError as error:
            place = f" in {request.cwd}" if request.cwd and not Path(request.cwd).is_dir() else ""
            raise VerbError(
                "cannot_execute",
                f"{request.argv[0]} cannot be started{place}: {error.strerror}.",
                "Check that the executable and the working directory exist and that this user may use them.",
            ) from error
        finally:
            os.close(log)

    def _record(self, is_subreaper: bool) -> RunRecord:
        request, known = self._request, self._identity
        return RunRecord(
            launch_id=request.launch_id,
            kind=request.kind,
            nonce=request.nonce,
            boot_id=boot_id(self._processes.proc),
            keeper_pid=known.keeper_pid,
            keeper_start_ticks=known.keeper_start_ticks,
            pid=known.pid,
            pgid=known.pgid,
            start_ticks=known.start_ticks,
            started_at=time.time(),
            argv=redact(request.argv),
            env_names=sorted({*request.env, *request.secret_env}),
            cwd=request.cwd,
            ports=request.ports,
            leftover_grace_s=request.leftover_grace_s,
            is_subreaper=is_subreaper,
            nice=request.nice,
        )

    def _reap(self) -> Optional[int]:
        """Collect ended children; the wait status of the main process once it is among them."""
        main_status = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return main_status
            if pid == 0:
                return main_status
            if self._main and pid == self._main.pid:
                main_status = status
                self._main.returncode = os.waitstatus_to_exitcode(status)  # else Popen would wait for it once more

    def _end(self, code: int) -> ExitRecord:
        return ExitRecord(
            at=time.time(),
            rc=code if code >= 0 else None,
            signal=_signal_name(-code) if code < 0 else None,
            stop_requested=records.stop_requested(self._folder),
        )

    def _clear_leftovers(self) -> None:
        """SIGTERM to everything that outlives the main process, SIGKILL after the grace, until nothing is left.

        It stays for as long as something cannot be killed (a process stuck in the driver still holds GPU memory).
        """
        kill_at = time.monotonic() + self._request.leftover_grace_s
        while left := members(self._identity, self._processes.table()):
            number = signal.SIGTERM if time.monotonic() < kill_at else signal.SIGKILL
            for process in left:
                self._send_once(process, number)
            self._sleep(_CLEARING_POLL_S)
            self._reap()

    def _send_once(self, process: Process, number: signal.Signals) -> None:
        known = self._leftovers.get(process.pid)
        if known and (known.signal == number.name or number is signal.SIGTERM):
            return
        command = known.command if known else self._processes.command(process.pid)
        if send(self._processes, process.pid, process.start_ticks, number):
            self._leftovers[process.pid] = Leftover(pid=process.pid, command=command, signal=number.name)

    def _sleep(self, timeout_s: Optional[float]) -> None:
        sources: list[int | socket.socket] = [self._wake_up, *self._reservation.sockets]
        ready, _, _ = select.select(sources, [], [], timeout_s)
        for source in ready:
            if isinstance(source, int):
                os.read(self._wake_up, 4096)
            else:
                self._reservation.answer(source)


def _environment(request: StartRequest) -> dict[str, str]:
    return {
        **os.environ,
        **request.env,
        **request.secret_env,
        NONCE_VARIABLE: request.nonce,
        # vLLM renames its workers with setproctitle, which would overwrite the environment that /proc shows, and the
        # nonce in it.
        "SPT_NOENV": "1",
    }


def _give_way(nice: int) -> None:
    """Be nicer by `nice`: this process, and its session where Linux schedules sessions as groups.

    There nice counts within the group only, so the group needs it too. For users that are not root the kernel takes one
    such change in 100 ms on the whole machine and refuses the others for the moment.
    """
    os.nice(nice)
    tries = _AUTOGROUP_TRIES
    while tries and not _has_group_answered(nice):
        time.sleep(_AUTOGROUP_PAUSE_S)
        tries -= 1


def _has_group_answered(nice: int) -> bool:
    try:
        _AUTOGROUP.write_text(str(nice))
    except BlockingIOError:
        return False
    except OSError:  # a kernel without such groups
        return True
    return True


def _become_subreaper() -> bool:
    """Have orphans of the launch re-parented to this process. False where Python has no ctypes."""
    try:
        import ctypes  # noqa: PLC0415 - some Pythons are built without it; the nonce and the process group remain

        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _listen_for_children() -> int:
    """A descriptor that becomes readable when a child ends.

    Signals that would end the keeper get an empty handler instead of SIG_IGN: ignored signals are inherited by what
    is started.
    """
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _note)
    return reading


def _note(number: int, frame: object) -> None:
    """The wake-up descriptor has told the loop already."""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"
