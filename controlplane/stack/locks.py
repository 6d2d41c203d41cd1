"""One `up` a state directory, and none before the programs of the last one are gone."""

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from controlplane.core.errors import Problem
from controlplane.stack.paths import StatePaths

LEFTOVERS_GONE_WITHIN_S = 40.0
POLL_S = 0.1


class AlreadyRunning(Problem):
    code = "already_running"


@dataclass(frozen=True, slots=True)
class Locks:
    """Open lock files; closing (or dying) lets go. `children` is inherited by every program that is started."""

    supervisor: TextIO
    children: TextIO

    @property
    def inherited(self) -> tuple[int, ...]:
        return (self.children.fileno(),)


def take_locks(paths: StatePaths, *, say: Callable[[str], None]) -> Locks:
    """Raises `AlreadyRunning`, naming the address, when another `up` has this state directory.

    After a killed `up` its programs need a moment to end; they are waited for.
    """
    supervisor = paths.supervisor_lock.open("a")
    if not _try_lock(supervisor):
        raise _already_running(paths)
    children = paths.children_lock.open("a")
    if not _try_lock(children):
        say("Waiting for the programs of an earlier run to end")
        end = time.monotonic() + LEFTOVERS_GONE_WITHIN_S
        while not _try_lock(children):
            if time.monotonic() > end:
                raise AlreadyRunning(
                    f"Programs of an earlier run still hold {paths.children_lock}.",
                    remedy=f"See which with: fuser {paths.children_lock}",
                )
            time.sleep(POLL_S)
    return Locks(supervisor, children)


def note_running(paths: StatePaths, address: str) -> None:
    paths.running.write_text(json.dumps({"pid": os.getpid(), "address": address}))


def read_running(paths: StatePaths) -> tuple[int, str] | None:
    """Process id and address of the `up` that runs or ran last here."""
    try:
        noted = json.loads(paths.running.read_text())
        return int(noted["pid"]), str(noted["address"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def _already_running(paths: StatePaths) -> AlreadyRunning:
    running = read_running(paths)
    if running is None:
        return AlreadyRunning(f"Another `up` is just starting with the state in {paths.root}.", remedy="Wait for it.")
    pid, address = running
    return AlreadyRunning(
        f"Already running at {address} (process {pid}, state in {paths.root}).",
        remedy=f"Stop it with Ctrl-C there, or with: kill {pid}",
    )


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
