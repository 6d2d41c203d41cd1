"""When a host counts as unreachable, when it refuses us, and when we are the ones who are cut off."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

NEW, REACHABLE, UNREACHABLE, REFUSED = "new", "reachable", "unreachable", "refused"

FAILURES_BEFORE_UNREACHABLE = 3
SILENCE_BEFORE_UNREACHABLE = timedelta(seconds=15)
"""Both must be passed: callers that look every two seconds would otherwise use up three failures in one hiccup."""

BLIND_FROM_HOSTS = 3
BLIND_WINDOW = timedelta(minutes=1)
BLIND_ENDS_AFTER = timedelta(hours=1)
"""After so long we believe that the hosts are really off: a rack without power must not freeze the rest for ever."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What we hold of a host: its state, how many calls failed since the last answer, when it last answered."""

    state: str
    failures_in_a_row: int = 0
    last_seen_at: datetime | None = None


def after_answer(standing: Standing, now: datetime) -> Standing:
    """It answered: reachable, whatever it was before; it needs nobody's help to come back."""
    return Standing(state=REACHABLE, failures_in_a_row=0, last_seen_at=now)


def after_failure(standing: Standing, now: datetime, *, is_refusal: bool) -> Standing:
    """A call failed. A refusal (changed key, our key not accepted) needs a person and counts at once; silence counts
    only when it lasts: one slow SSH handshake says nothing about the machine. A host that never answered has no record
    to protect."""
    failures = standing.failures_in_a_row + 1
    counted = replace(standing, failures_in_a_row=failures)
    if is_refusal:
        return replace(counted, state=REFUSED)
    if standing.state in {REFUSED, UNREACHABLE}:
        return counted
    if standing.last_seen_at is None or _is_lasting(failures, now - standing.last_seen_at):
        return replace(counted, state=UNREACHABLE)
    return counted


def _is_lasting(failures: int, silence: timedelta) -> bool:
    return failures >= FAILURES_BEFORE_UNREACHABLE and silence >= SILENCE_BEFORE_UNREACHABLE


def is_blind(last_seen_of_silent: Sequence[datetime], *, hosts: int, now: datetime) -> bool:
    """Are we cut off, rather than they? True when at least three remote hosts, more than half of `hosts`, fell silent
    within one minute of each other.

    `last_seen_of_silent`: for each host whose latest call failed, when it last answered.
    """
    recent = sorted(at for at in last_seen_of_silent if now - at <= BLIND_ENDS_AFTER)
    most = max((_within(recent[start:], BLIND_WINDOW) for start in range(len(recent))), default=0)
    return most >= BLIND_FROM_HOSTS and most * 2 > hosts


def _within(times: Sequence[datetime], window: timedelta) -> int:
    """How many of the sorted `times` lie within `window` of the first."""
    return sum(1 for at in times if at - times[0] <= window)
