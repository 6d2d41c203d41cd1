"""Start programs in order, keep them running, stop them in reverse.

The loop sleeps in `select` until a child ends, a signal arrives or something is due, so an idle supervisor uses no CPU.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from types import FrameType
from typing import Self

from controlplane.core.errors import Problem
from controlplane.stack import logs
from controlplane.stack.process import Child, Program

STEADY_AFTER_S = 60.0
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
START_TRIES = 3
READY_POLL_S = 0.05
LOG_CHECK_S = 30.0

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StartFailed(Problem):
    code = "start_failed"


class StopRequested(Exception):  # noqa: N818  # not an error: a person or the system asked for it
    """Raised out of a wait when a stop signal has arrived."""


def restart_delay_s(failures: int) -> float:
    """How long to wait before the next start after this many failures in a row (1 or more): 0.5 s doubling to 30 s."""
    return float(min(FIRST_DELAY_S * 2 ** (failures - 1), LONGEST_DELAY_S))


@dataclass(slots=True)
class Slot:
    """One program's place: its running child, or when to start the next one (monotonic seconds)."""

    program: Program
    child: Child | None = None
    started_at: float = 0.0
    failures: int = 0
    due_at: float = 0.0

    def record_exit(self, now: float) -> float:
        """Note that the child ended; answers the delay before the next start. A long run forgives earlier failures."""
        self.failures = 1 if now - self.started_at >= STEADY_AFTER_S else self.failures + 1
        delay = restart_delay_s(self.failures)
        self.child, self.due_at = None, now + delay
        return delay


class Supervisor:
    """Context manager: leaving it, however, stops everything that was started.

    `say` gets one line for a person at each event. Must live in the main thread (signals; parent-death signal).
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._slots: list[Slot] = []
        self._stops = 0
        self._wake_read = self._wake_write = -1
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            self._previous[number] = signal.signal(number, self._on_stop_signal)
        self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop_all()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in self._previous.items():
                signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal gave us
            os.close(self._wake_read)
            os.close(self._wake_write)

    def start(self, *programs: Program) -> None:
        """Start them side by side and wait until all are ready; one that ends first is tried again twice.

        Raises `StartFailed` with the end of the log, `StopRequested` when a stop signal arrives meanwhile.
        """
        slots = [Slot(program) for program in programs]
        self._slots += slots
        for slot in slots:
            self._launch(slot)
        for slot in slots:
            self._wait_until_ready(slot)

    def run(self, *, until: Callable[[], bool] = lambda: False) -> None:
        """Keep everything running until a stop signal arrives or `until` says so (asked whenever a child ends)."""
        next_log_check = time.monotonic() + LOG_CHECK_S
        while not self._stops and not until():
            now = time.monotonic()
            if now >= next_log_check:
                logs.cap(slot.program.log for slot in self._slots)
                next_log_check = now + LOG_CHECK_S
            due = [self._tend(slot, now) for slot in self._slots]
            self._sleep(min([next_log_check, *(at for at in due if at)]) - now)

    def pause(self, seconds: float) -> None:
        """Wait; `StopRequested` when a stop signal arrives (or has arrived)."""
        end = time.monotonic() + seconds
        while not self._stops and (left := end - time.monotonic()) > 0:
            self._sleep(left)
        if self._stops:
            raise StopRequested

    def _wait_until_ready(self, slot: Slot) -> None:
        for failures in range(1, START_TRIES + 1):
            if self._became_ready(slot):
                return
            if failures < START_TRIES:
                self.pause(restart_delay_s(failures))
                self._launch(slot)
        raise StartFailed(
            f"{slot.program.name} ended {START_TRIES} times while starting. The end of {slot.program.log}:",
            remedy=logs.tail(slot.program.log),
        )

    def _launch(self, slot: Slot) -> None:
        slot.child = Child(slot.program)
        slot.started_at = time.monotonic()

    def _became_ready(self, slot: Slot) -> bool:
        """True once ready, False if the child ended; `StartFailed` when neither happens in time."""
        child = slot.child
        while child is not None and child.exit_code() is None:
            if slot.program.is_ready():
                return True
            if time.monotonic() - slot.started_at > slot.program.ready_within_s:
                raise StartFailed(
                    f"{slot.program.name} was not ready within {slot.program.ready_within_s:.0f} s."
                    f" The end of {slot.program.log}:",
                    remedy=logs.tail(slot.program.log),
                )
            self.pause(READY_POLL_S)
        return False

    def _tend(self, slot: Slot, now: float) -> float | None:
        """Notice an exit, or start again when that is due. Answers when this slot wants attention, if it knows."""
        if slot.child is None:
            if now < slot.due_at:
                return slot.due_at
            self._launch(slot)
            self._say(f"{slot.program.name} started again (process {slot.child.pid if slot.child else '?'})")
            return None
        code = slot.child.exit_code()
        if code is None:
            return None
        slot.child.sweep()
        delay = slot.record_exit(now)
        self._say(
            f"{slot.program.name} ended ({describe_exit(code)}); next start in {delay:.1f} s. Log: {slot.program.log}"
        )
        return slot.due_at

    def _sleep(self, seconds: float) -> None:
        """Until a signal arrives or `seconds` have passed."""
        select.select([self._wake_read], [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _on_stop_signal(self, number: int, _: FrameType | None) -> None:
        self._stops += 1

    def _stop_all(self) -> None:
        """Stage by stage in reverse. A second stop signal cuts every grace short."""
        asked = self._stops
        for _, stage in groupby(reversed(self._slots), key=lambda slot: slot.program.stage):
            children = [slot.child for slot in stage if slot.child is not None]
            self._stop(children, is_hurried=lambda: self._stops > asked)
        self._slots.clear()

    def _stop(self, children: Iterable[Child], is_hurried: Callable[[], bool]) -> None:
        children = list(children)
        for child in children:
            child.ask_to_stop()
        began = time.monotonic()
        for child in children:
            end = began + child.program.grace_s
            while child.exit_code() is None and not is_hurried() and time.monotonic() < end:
                self._sleep(end - time.monotonic())
            if child.exit_code() is None:
                self._say(f"{child.program.name} did not stop within {time.monotonic() - began:.0f} s and was killed")
            child.sweep()


def describe_exit(code: int) -> str:
    """An exit status in words: `exit code 1`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
