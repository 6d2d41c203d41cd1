"""The life of an instance: its states, the moves between them, and what the reconciler does next.

`next_step` is the whole decision. It gets what is wanted, what the database says, and what was seen on the host, and
answers with one thing to do. It can be asked again at any time: the same values give the same answer.

The rules it keeps (hard rules of the fleet):
- A host that does not answer says nothing. "Not seen" is a sighting of its own and never reads as "not there".
- Whatever ended without being told to has crashed, with exit code 0 too.
- Stopped means: every process of the launch is gone. Until then the instance is draining, and what is left is named.
- Ready means that a one-token request was answered, not that /health says so.
- A launch that takes too long is killed as a whole tree.
- After some failed starts in a row the instance is failed and stays down until a person changes something.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class State(StrEnum):
    """An instance's state, as shown."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


ALLOWED: dict[State, frozenset[State]] = {
    # pending -> draining: a start was sent and its answer was lost, so a stop must still be verified
    State.PENDING: frozenset({State.STARTING, State.DRAINING, State.STOPPED, State.FAILED}),
    # starting -> pending: the attempt failed and another one follows
    State.STARTING: frozenset({State.READY, State.PENDING, State.DRAINING, State.STOPPED, State.FAILED}),
    # ready -> starting: it stopped answering and is watched as if it started anew; ready -> pending: crashed, restart
    State.READY: frozenset({State.STARTING, State.PENDING, State.DRAINING, State.STOPPED, State.FAILED}),
    State.DRAINING: frozenset({State.STOPPED, State.FAILED}),
    State.STOPPED: frozenset({State.PENDING}),
    # failed -> draining: leftovers found later; failed -> pending: a person says "try again"
    State.FAILED: frozenset({State.PENDING, State.DRAINING, State.STOPPED}),
}


def may(old: State, new: State) -> bool:
    """May an instance go from `old` to `new`? Staying is no move."""
    return new in ALLOWED[old]


def sources_of(new: State) -> frozenset[State]:
    """The states from which `new` may be reached: the filter of a compare-and-set UPDATE."""
    return frozenset(old for old, targets in ALLOWED.items() if new in targets)


class Desired(StrEnum):
    """What the deployment wants of the instance."""

    RUNNING = "running"
    STOPPED = "stopped"


class Outcome(StrEnum):
    """How an attempt ended. `refused`: nothing was started (preflight, port, rights)."""

    RUNNING = "running"
    STOPPED = "stopped"
    CRASHED = "crashed"
    START_FAILED = "start_failed"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    LOST = "lost"


class Seen(StrEnum):
    """What a look at the host gave. `silent`: no answer, so nothing is known. `absent`: a complete listing without it.

    `replaced`: the pid lives but is another process (boot id, start time or nonce differ), which is absence, too.
    `ending`: the first process has ended and the launch's keeper is still clearing away what outlived it.
    """

    RUNNING = "running"
    ENDING = "ending"
    EXITED = "exited"
    ABSENT = "absent"
    REPLACED = "replaced"
    SILENT = "silent"


@dataclass(frozen=True)
class Observation:
    """One look at the instance. None means that this was not looked at.

    `leftovers` are pids of the launch that still live after its first process ended; `held` is what else of it is not
    given back yet, in words (a port, GPU memory). `answers` is the one-token request. `is_progressing` is False when
    requests run and no token came for the watch time.
    """

    seen: Seen
    exit_code: int | None = None
    leftovers: tuple[int, ...] = ()
    held: tuple[str, ...] = ()
    is_healthy: bool | None = None
    answers: bool | None = None
    is_progressing: bool | None = None


@dataclass(frozen=True)
class Limits:
    """The times and counts a decision uses.

    `recover_timeout_s`: how long a server that has served may fail to answer before it counts as hung.
    `start_grace_s`: how long a start that was decided may stay without a process (the order is still on its way).
    `restarts`: whether whatever ended unasked is started again by itself; else the first end is the last.
    `proven_after_s`: a server that ended sooner after its first answer counts as one more failed start, so that one
    that always dies of its first real request is not started for ever.
    """

    launch_timeout_s: float = 1800
    recover_timeout_s: float = 120
    start_grace_s: float = 30
    drain_timeout_s: float = 60
    kill_after_s: float = 30
    failed_starts: int = 3
    restarts: bool = True
    proven_after_s: float = 300
    unanswered_probes: int = 3
    restart_delay_s: float = 10


@dataclass(frozen=True)
class Record:
    """What the database says.

    `since` is when the state was entered; for `draining` that is when the stop was asked. `attempt_started_at` is None
    until the host confirmed the start, `served_since` when it first answered. `failed_starts` counts attempts in a row
    that never served, or not for long. `is_given_up` is set by a step that `gives_up`: the attempt's outcome is
    decided, its processes are on their way out.
    """

    state: State
    since: datetime
    attempt_started_at: datetime | None = None
    has_served: bool = False
    served_since: datetime | None = None
    failed_starts: int = 0
    unanswered_probes: int = 0
    is_kill_sent: bool = False
    is_given_up: bool = False


DEFAULT_LIMITS = Limits()


class Act(StrEnum):
    """What to do. All but `wait` and `note` touch the host; each is safe to repeat."""

    WAIT = "wait"
    START = "start"
    PROBE = "probe"
    NOTE = "note"
    STOP = "stop"
    KILL = "kill"


@dataclass(frozen=True)
class Step:
    """One thing to do, the state that follows (None: stays) and how the attempt ended, when it did.

    `reason` is a short code for the event. `is_alarm` marks what a person should see. `pids` are what is still there.
    """

    act: Act
    reason: str
    state: State | None = None
    outcome: Outcome | None = None
    counts_as_failed_start: bool = False
    gives_up: bool = False
    is_alarm: bool = False
    pids: tuple[int, ...] = ()


def next_step(
    *,
    desired: Desired,
    record: Record,
    observation: Observation,
    now: datetime,
    limits: Limits = DEFAULT_LIMITS,
) -> Step:
    """Decide the one next thing to do for an instance."""
    if observation.seen is Seen.SILENT:
        # Not even the launch timeout acts on a guess: the engine may be serving on a host we cannot reach.
        return Step(Act.WAIT, "host_silent", is_alarm=True)
    if observation.seen is Seen.ENDING and record.state is not State.DRAINING:
        # How it ended, and what it left behind, is written down in a moment.
        return Step(Act.WAIT, "being_cleared_away", is_alarm=True, pids=observation.leftovers)
    moment = _Moment(desired, record, observation, now, limits)
    return _DECIDE[record.state](moment)


@dataclass(frozen=True)
class _Moment:
    desired: Desired
    record: Record
    seen: Observation
    now: datetime
    limits: Limits

    @property
    def is_wanted(self) -> bool:
        return self.desired is Desired.RUNNING

    @property
    def is_alive(self) -> bool:
        return self.seen.seen is Seen.RUNNING

    @property
    def lives_on(self) -> bool:
        """Is any process of the launch still there?"""
        return self.is_alive or bool(self.seen.leftovers or self.seen.held)

    def waited(self, seconds: float, since: datetime | None = None) -> bool:
        return self.now - (since or self.record.since) >= timedelta(seconds=seconds)


def _pending(moment: _Moment) -> Step:
    if moment.is_alive:
        # The start was sent and its answer lost, or the control plane restarted in between: take it as it is.
        return Step(Act.NOTE, "found_running", State.STARTING) if moment.is_wanted else _drain("not_wanted")
    if moment.seen.leftovers:
        return _kill(moment, "leftovers")
    if not moment.is_wanted:
        return Step(Act.NOTE, "not_wanted", State.STOPPED)
    if moment.record.failed_starts >= moment.limits.failed_starts:
        return Step(Act.NOTE, "too_many_failed_starts", State.FAILED, is_alarm=True)
    if moment.record.failed_starts and not moment.waited(
        moment.limits.restart_delay_s * 2 ** (moment.record.failed_starts - 1)
    ):
        return Step(Act.WAIT, "before_next_attempt")
    return Step(Act.START, "wanted", State.STARTING)


def _starting(moment: _Moment) -> Step:
    record = moment.record
    if not moment.is_alive:
        is_on_its_way = record.attempt_started_at is None and not moment.waited(moment.limits.start_grace_s)
        return Step(Act.WAIT, "start_on_its_way") if is_on_its_way else _ended(moment)
    if not moment.is_wanted:
        return _drain("not_wanted")
    if record.is_given_up:
        return Step(Act.KILL, "will_not_die", is_alarm=True, pids=moment.seen.leftovers)
    if moment.seen.answers:
        return Step(Act.NOTE, "answered", State.READY, Outcome.RUNNING)
    return _given_up(moment) or _look_again(moment, "not_ready_yet")


def _given_up(moment: _Moment) -> Step | None:
    """Kill the whole tree when a launch takes too long, or when a server that has served stays silent."""
    record, limits = moment.record, moment.limits
    if record.has_served and moment.waited(limits.recover_timeout_s):
        return Step(Act.KILL, "hung", gives_up=True, is_alarm=True)
    if not record.has_served and moment.waited(limits.launch_timeout_s, record.attempt_started_at):
        return Step(Act.KILL, "launch_timeout", gives_up=True, is_alarm=True)
    return None


def _look_again(moment: _Moment, reason: str) -> Step:
    """Send the one-token request unless this look already did."""
    return Step(Act.PROBE if moment.seen.answers is None else Act.WAIT, reason)


def _ready(moment: _Moment) -> Step:
    if not moment.is_alive:
        return _ended(moment)
    if not moment.is_wanted:
        return _drain("not_wanted")
    if moment.seen.is_progressing is False:
        return Step(Act.NOTE, "no_progress", State.STARTING, is_alarm=True)
    if moment.seen.answers is False and moment.record.unanswered_probes + 1 >= moment.limits.unanswered_probes:
        return Step(Act.NOTE, "does_not_answer", State.STARTING, is_alarm=True)
    return _look_again(moment, "serving")


def _draining(moment: _Moment) -> Step:
    if not moment.lives_on:
        return Step(Act.NOTE, "all_gone", State.STOPPED, Outcome.STOPPED)
    if moment.record.is_kill_sent and moment.waited(moment.limits.drain_timeout_s + moment.limits.kill_after_s):
        return Step(Act.KILL, "will_not_die", State.FAILED, is_alarm=True, pids=moment.seen.leftovers)
    if moment.waited(moment.limits.drain_timeout_s) or not moment.is_alive:
        # The first process is gone and others live on: nothing is left that could drain.
        return Step(Act.KILL, "leftovers" if not moment.is_alive else "drain_timeout", pids=moment.seen.leftovers)
    return Step(Act.STOP, "draining")


def _stopped(moment: _Moment) -> Step:
    if moment.is_alive and moment.is_wanted:
        return Step(Act.NOTE, "found_running", State.PENDING)
    if moment.lives_on:
        # A stop is verified before it is written down, so this one came back with its host: it is ours, by its nonce.
        return _kill(moment, "alive_after_stop")
    return Step(Act.NOTE, "wanted", State.PENDING) if moment.is_wanted else Step(Act.WAIT, "as_wanted")


def _failed(moment: _Moment) -> Step:
    """Only a person leads out of failed; what still runs is stopped, so that it holds no memory."""
    if moment.lives_on:
        return Step(Act.KILL, "leftovers", is_alarm=True, pids=moment.seen.leftovers)
    return Step(Act.NOTE, "not_wanted", State.STOPPED) if not moment.is_wanted else Step(Act.WAIT, "needs_a_person")


def _ended(moment: _Moment) -> Step:
    """The first process is gone, from starting or ready. Whatever was told to stop is draining, so this is a crash."""
    if moment.seen.leftovers:
        return _kill(moment, "leftovers")
    record = moment.record
    is_failed_start = not record.has_served or _served_briefly(moment)
    outcome = _outcome(moment)
    if not moment.is_wanted:
        return Step(Act.NOTE, outcome.value, State.STOPPED, outcome)
    is_last = not moment.limits.restarts or (
        is_failed_start and record.failed_starts + 1 >= moment.limits.failed_starts
    )
    return Step(
        Act.NOTE,
        outcome.value,
        State.FAILED if is_last else State.PENDING,
        outcome,
        counts_as_failed_start=is_failed_start,
        is_alarm=True,
    )


def _served_briefly(moment: _Moment) -> bool:
    since = moment.record.served_since
    return since is not None and not moment.waited(moment.limits.proven_after_s, since)


def _outcome(moment: _Moment) -> Outcome:
    if moment.record.is_given_up:
        return Outcome.CRASHED if moment.record.has_served else Outcome.TIMED_OUT
    if moment.seen.seen is not Seen.EXITED:
        return Outcome.LOST
    return Outcome.CRASHED if moment.record.has_served else Outcome.START_FAILED


def _drain(reason: str) -> Step:
    return Step(Act.STOP, reason, State.DRAINING)


def _kill(moment: _Moment, reason: str) -> Step:
    """Remove what is left; the state changes once nothing is."""
    return Step(Act.KILL, reason, is_alarm=True, pids=moment.seen.leftovers)


_DECIDE = {
    State.PENDING: _pending,
    State.STARTING: _starting,
    State.READY: _ready,
    State.DRAINING: _draining,
    State.STOPPED: _stopped,
    State.FAILED: _failed,
}
