"""Start, list and remove launches.

The id directory is the idempotency lock: whoever holds the flock on its `lock` file may start the launch, everybody
else is answered the launch that is there. A start that died half-way leaves the lock free and no `run.json`, so the
next one takes over.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Optional

from controlplane.agent import ports, records
from controlplane.agent.place import Place, boot_id
from controlplane.agent.processes import Identity, Process, members
from controlplane.protocol.launches import (
    EXITED,
    LOST,
    NONCE_PATTERN,
    NONCE_VARIABLE,
    RUNNING,
    STARTING,
    Launch,
    LaunchList,
    LaunchRef,
    ListRequest,
    PortHolder,
    RunRecord,
    StartRequest,
)
from controlplane.protocol.shapes import to_wire
from controlplane.protocol.wire import VerbError

_KEEPER_TIMEOUT_S = 20.0
_POLL_S = 0.02
_MAX_NICE = 19


def start(place: Place, request: StartRequest) -> Launch:
    """Start a launch, or answer the one that has this id already."""
    _check(request)
    folder = records.directory(place.launches, request.launch_id)
    lock = _claim(folder)
    if lock is None:
        return _wait_for_start(place, folder)
    try:
        if records.load_run(folder):
            return _describe(place, folder, place.processes.table())
        _refuse_taken_ports(place, request)
        _spawn_keeper(place, request, folder, lock)
    except VerbError:
        if records.load_run(folder) is None:  # nothing was started: the same id can be tried again
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    return _describe(place, folder, place.processes.table())


def listing(place: Place, request: ListRequest) -> LaunchList:
    """The launches of this root, oldest first: all, or those of the ids asked for."""
    table = place.processes.table()
    wanted = None if request.launch_ids is None else set(request.launch_ids)
    folders = [folder for folder in _folders(place) if wanted is None or folder.name in wanted]
    found = [_describe(place, folder, table) for folder in folders]
    found.sort(key=lambda launch: (launch.run.started_at if launch.run else float("inf"), launch.launch_id))
    return LaunchList(boot_id=boot_id(place.processes.proc), launches=found)


def describe(place: Place, request: LaunchRef) -> Launch:
    """One launch; `unknown_launch` when it is not there."""
    return _describe(place, records.existing(place.launches, request.launch_id), place.processes.table())


def remove(place: Place, request: LaunchRef) -> None:
    """Delete the directory of a finished launch. Refused while anything of it lives."""
    folder = records.directory(place.launches, request.launch_id)
    if not folder.is_dir():
        return
    launch = _describe(place, folder, place.processes.table())
    if launch.processes or launch.is_keeper_alive or launch.state == STARTING:
        raise VerbError("still_running", f"Launch {launch.launch_id} is not finished.", "Stop it first.")
    shutil.rmtree(folder)


def identity(run: RunRecord, current_boot: str) -> Identity:
    """The part of a run record that tells its processes from others."""
    return Identity(
        pid=run.pid,
        start_ticks=run.start_ticks,
        pgid=run.pgid,
        nonce=run.nonce,
        keeper_pid=run.keeper_pid,
        keeper_start_ticks=run.keeper_start_ticks,
        is_same_boot=run.boot_id == current_boot,
    )


def living(place: Place, run: RunRecord, table: Optional[dict[int, Process]] = None) -> list[Process]:
    """The processes of a launch that live now, main first."""
    known = identity(run, boot_id(place.processes.proc))
    return members(known, place.processes.table() if table is None else table, not_ours=[os.getpid()])


def is_keeper_alive(place: Place, run: RunRecord) -> bool:
    """Whether the launch's own keeper, not a later process with its pid, is there."""
    same_boot = run.boot_id == boot_id(place.processes.proc)
    return same_boot and place.processes.is_alive(run.keeper_pid, run.keeper_start_ticks)


def _check(request: StartRequest) -> None:
    if not request.argv or not request.argv[0]:
        raise VerbError("bad_request", "There is no command to start.", "Give argv with at least the executable.")
    if not re.fullmatch(NONCE_PATTERN, request.nonce):
        raise VerbError("bad_request", "The launch nonce is malformed.", f"It must match {NONCE_PATTERN}.")
    if request.kind not in ("engine", "job"):
        raise VerbError("bad_request", f"Unknown kind of launch {request.kind!r}.", "Use 'engine' or 'job'.")
    if not 0 <= request.nice <= _MAX_NICE:
        raise VerbError("bad_request", f"nice {request.nice} is out of range.", f"Give 0 to {_MAX_NICE}.")
    for port in request.ports:
        ports.check(port)


def _claim(folder: Path) -> Optional[int]:
    """Take the right to start this launch: the locked file descriptor, or None when another has it."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # a refused start has just removed the directory
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == (folder / "lock").stat().st_ino:
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        except FileNotFoundError:
            pass  # removed between open and lock: what we hold is no longer the launch's lock file
        os.close(lock)


def _wait_for_start(place: Place, folder: Path) -> Launch:
    """Another start of the same id is under way, or its keeper lives: answer that launch."""
    deadline = time.monotonic() + _KEEPER_TIMEOUT_S
    while time.monotonic() < deadline:
        if records.load_run(folder):
            return _describe(place, folder, place.processes.table())
        if not folder.is_dir():
            raise VerbError("start_refused", "The other start of this launch was refused.", "Start it again.")
        time.sleep(_POLL_S)
    raise VerbError("start_stuck", f"Launch {folder.name} has been starting for too long.", "Read its keeper.log.")


def _refuse_taken_ports(place: Place, request: StartRequest) -> None:
    """Look for launches that lost their keeper and with it their reservation; the new keeper checks the rest."""
    if not request.ports:
        return
    table = place.processes.table()
    for folder in _folders(place):
        run = records.load_run(folder)
        if run is None or run.launch_id == request.launch_id:
            continue
        for port in set(run.ports) & set(request.ports):
            if living(place, run, table):
                raise ports.taken(PortHolder(port=port, pid=run.pid, command=run.argv, launch_id=run.launch_id))


def _spawn_keeper(place: Place, request: StartRequest, folder: Path, lock: int) -> None:
    """Start the keeper in a session of its own and wait until it has launched the process, or says why not.

    The request goes through a pipe: its secrets appear on no command line and in no file.
    """
    environment = {name: value for name, value in os.environ.items() if name != NONCE_VARIABLE}
    errors = os.open(folder / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(place.program), "keep", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=[lock],
            start_new_session=True,
            env=environment,
            cwd="/",
        )
    finally:
        os.close(errors)
    try:
        told, _ = keeper.communicate(json.dumps(to_wire(request)).encode(), timeout=_KEEPER_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        keeper.kill()
        raise VerbError("start_stuck", "The launch's keeper did not answer.", "Read keeper.log.") from error
    try:
        answer = json.loads(told)
    except ValueError as error:
        reason = (folder / "keeper.log").read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise VerbError(
            "keeper_failed", f"The launch's keeper failed: {reason[0]}", "Check this host's Python."
        ) from error
    if answer:
        raise VerbError(answer["code"], answer["message"], answer["remedy"])


def _folders(place: Place) -> list[Path]:
    try:
        return [folder for folder in place.launches.iterdir() if folder.is_dir()]
    except FileNotFoundError:
        return []


def _describe(place: Place, folder: Path, table: dict[int, Process]) -> Launch:
    run = records.load_run(folder)
    if run is None:
        return Launch(launch_id=folder.name, state=STARTING if _is_locked(folder) else LOST)
    alive = living(place, run, table)
    ended = records.load_exit(folder)
    keeper_alive = is_keeper_alive(place, run)
    return Launch(
        launch_id=run.launch_id,
        state=EXITED if ended else RUNNING if keeper_alive else LOST,
        run=run,
        is_main_alive=any(process.pid == run.pid for process in alive),
        is_keeper_alive=keeper_alive,
        is_same_boot=run.boot_id == boot_id(place.processes.proc),
        exit=ended,
        processes=[place.processes.info(process) for process in alive],
        rss_bytes=sum(process.rss_bytes for process in alive),
        log_bytes=records.size_bytes(folder / "log"),
    )


def _is_locked(folder: Path) -> bool:
    try:
        with (folder / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
