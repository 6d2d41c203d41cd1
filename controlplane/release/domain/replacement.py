"""Replacing the instance that serves an environment by one of another version: the one next move, from what is known.

Two ways. **Start first**, where there is room for both: the new one has served for a while before the old one is
drained, so no request is dropped. **Stop first**, where there is not: the old one is drained, then the new one started.
Whichever way: when the new one does not come up, or a person gives up, what ran before serves again.

`next_move` can be asked at any time; the same standing gives the same move. A host that does not answer leaves its
instances in their last known state: nothing counts as proven on such a state. But what was asked to stop there, and
whose place another has, is not waited for: the wish is kept, and the fleet stops it when its host is back. So moving
away from a dead machine works while it is dead.
"""

from dataclasses import dataclass
from enum import StrEnum

SOAK_S = 10.0
"""How long the new one has to be ready before anything is taken away for it: a server that dies of its first real
request is common (skypilot#4312: ready for a moment, and the old replica was gone already)."""

LIVE = frozenset({"pending", "starting", "ready", "draining"})


class Strategy(StrEnum):
    UNDECIDED = ""
    START_FIRST = "start_first"
    STOP_FIRST = "stop_first"


class Move(StrEnum):
    """What to do next. The last three end the promotion."""

    CHECK = "check"
    WAIT = "wait"
    LAUNCH_NEW = "launch_new"
    STOP_OLD = "stop_old"
    STOP_NEW = "stop_new"
    RELAUNCH_OLD = "relaunch_old"
    FINISH = "finish"
    REVERT = "revert"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Party:
    """The new instance, or the old one. `state` is an instance's; between the tries of the fleet's own restarts it is
    `pending`, so `failed` is final. `ready_s`: how long it has been ready. `is_silent`: its host does not answer."""

    state: str
    is_wanted: bool = True
    ready_s: float = 0.0
    is_silent: bool = False

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def stays(self) -> bool:
        """It runs, or is being started, and nobody asked it to stop."""
        return self.is_live and self.is_wanted

    @property
    def is_leaving(self) -> bool:
        """It was asked to stop and may still hold what it holds."""
        return self.is_live and not self.is_wanted and not self.is_silent

    @property
    def serves(self) -> bool:
        return self.state == "ready" and self.is_wanted

    @property
    def is_proven(self) -> bool:
        return self.serves and not self.is_silent and self.ready_s >= SOAK_S


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a promotion stands; None: there is no such instance (yet).

    `is_new_borrowed`: a running instance was taken over, so giving up leaves it running. `is_aborting`: a person gave
    up. `is_reverting`: the old one has been launched again.
    """

    strategy: Strategy
    new: Party | None = None
    old: Party | None = None
    is_new_borrowed: bool = False
    is_aborting: bool = False
    is_reverting: bool = False

    @property
    def has_changed_over(self) -> bool:
        """The new one serves in place of the old one: giving up now would drop what it serves. A first version, which
        takes nobody's place, can be given up until the end."""
        if self.is_reverting or self.new is None or self.old is None:
            return False
        return self.new.serves and not self.old.stays

    @property
    def is_given_up(self) -> bool:
        has_failed = self.new is not None and not self.new.is_live
        return self.is_reverting or has_failed or (self.is_aborting and not self.has_changed_over)


def next_move(at: Standing) -> Move:
    """The one next move."""
    if at.is_given_up:
        return _give_up(at)
    if at.new is None:
        return _bring_up(at)
    return _change_over(at, at.new)


def _bring_up(at: Standing) -> Move:
    if at.strategy is Strategy.UNDECIDED:
        return Move.CHECK
    if at.strategy is Strategy.START_FIRST or at.old is None or not at.old.is_live:
        return Move.LAUNCH_NEW
    return Move.STOP_OLD if at.old.is_wanted else Move.WAIT


def _change_over(at: Standing, new: Party) -> Move:
    if not new.is_proven:
        return Move.WAIT
    if at.old is not None and at.old.stays:
        return Move.STOP_OLD
    return Move.WAIT if at.old is not None and at.old.is_leaving else Move.FINISH


def _give_up(at: Standing) -> Move:
    """First the new one goes, because it may hold what the old one needs; then the old one serves, or comes back."""
    new, old = at.new, at.old
    if new is not None and new.is_live and not at.is_new_borrowed:
        if new.is_wanted:
            return Move.STOP_NEW
        if new.is_leaving or (old is not None and not old.stays):
            return Move.WAIT
    if old is None:
        return Move.REVERT if at.is_aborting else Move.FAIL
    if not old.is_live:
        return Move.FAIL if at.is_reverting else Move.RELAUNCH_OLD
    if not old.is_wanted:
        return Move.WAIT
    was_never_touched = at.is_aborting and not at.is_reverting
    return Move.REVERT if old.serves or was_never_touched else Move.WAIT
