"""What to do next with a run that is not over: decided from what is known, so that asking again is harmless.

A run goes queued → running → finished, invalid, failed or cancelled. While it is running, the host says what became of
two processes: the load generator (a job that ends by itself) and the engine that it measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controlplane.bench.domain.outcome import ExitCode


class Act(Enum):
    """WAIT: look again later. START: bring the job to the host and start it (again). FOLLOW: it runs. STOP: ask the
    load generator to end. COLLECT: it ended, read what it left. FAIL: over, for `Step.reason`. CANCEL: over."""

    WAIT = "wait"
    START = "start"
    FOLLOW = "follow"
    STOP = "stop"
    COLLECT = "collect"
    FAIL = "fail"
    CANCEL = "cancel"


@dataclass(frozen=True)
class Step:
    """`reason` is a stable code for FAIL (and for WAIT: what it waits for); texts are made where they are shown."""

    act: Act
    reason: str = ""


@dataclass(frozen=True)
class Target:
    """The instance to measure. `state` None: it is not there any more."""

    state: str | None
    is_wanted: bool = True
    is_busy: bool = False  # another run of it is running


@dataclass(frozen=True)
class Process:
    """One launch as its host told. `is_known` False: a complete listing without it. `ended_at` is the host's clock,
    None while it lives and when nobody saw the end."""

    is_known: bool
    is_alive: bool = False
    ended_at: float | None = None

    @property
    def is_over(self) -> bool:
        return not self.is_alive


def process_of(launch: Mapping[str, Any] | None) -> Process:
    """A launch of the host program (protocol.launches.Launch as JSON); None: not in the listing."""
    if launch is None:
        return Process(is_known=False)
    ended = launch.get("exit") or {}
    is_claimed_only = launch["state"] == "starting"  # its process is about to be there
    return Process(
        is_known=True,
        is_alive=bool(launch["is_main_alive"]) or is_claimed_only,
        ended_at=ended.get("at"),
    )


def queued_step(target: Target) -> Step:
    """A run that waits for its instance: it starts when that is ready and nothing else measures it."""
    if target.state is None:
        return Step(Act.FAIL, "instance_removed")
    if target.state in {"failed", "stopped", "draining"} or not target.is_wanted:
        return Step(Act.FAIL, "instance_not_serving")
    if target.state != "ready":
        return Step(Act.WAIT, "instance_starting")
    return Step(Act.WAIT, "instance_busy") if target.is_busy else Step(Act.START)


def running_step(*, is_started: bool, is_cancel_requested: bool, job: Process, engine: Process) -> Step:
    """A run whose host has answered. `is_started`: the start of its job was confirmed before.

    An engine that ended before the load generator did makes the numbers worthless, whatever it wrote.
    """
    if not job.is_known:
        return _without_job(is_started=is_started, is_cancel_requested=is_cancel_requested, engine=engine)
    if job.is_alive:
        if is_cancel_requested or engine.is_over:
            return Step(Act.STOP, "cancelled" if is_cancel_requested else "engine_ended")
        return Step(Act.FOLLOW)
    if not is_cancel_requested and _ended_under_it(engine, job):
        return Step(Act.FAIL, "engine_ended")
    return Step(Act.COLLECT)


def _without_job(*, is_started: bool, is_cancel_requested: bool, engine: Process) -> Step:
    if is_cancel_requested:
        return Step(Act.CANCEL)
    if is_started:
        return Step(Act.FAIL, "job_vanished")
    return Step(Act.FAIL, "engine_ended") if engine.is_over else Step(Act.START)


def _ended_under_it(engine: Process, job: Process) -> bool:
    """Did the engine end while the load generator still ran? When nobody saw one of the ends, it may have."""
    if engine.is_alive:
        return False
    if engine.ended_at is None or job.ended_at is None:
        return True
    return engine.ended_at < job.ended_at


# How the load generator's own verdict becomes the state of a run.
_STATES = {
    ExitCode.VALID: "finished",
    ExitCode.INVALID: "invalid",
    ExitCode.ERROR_BUDGET_EXCEEDED: "invalid",
    ExitCode.CANCELLED: "cancelled",
}


def state_after(exit_code: int) -> str:
    """finished, invalid, cancelled, or failed when nothing was measured or the run was ended by its watchdog."""
    try:
        return _STATES.get(ExitCode(exit_code), "failed")
    except ValueError:
        return "failed"
