"""The rules of a replacement: every standing is walked, and a small world tries every course of events."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from controlplane.release.domain.replacement import SOAK_S, Move, Party, Standing, Strategy, next_move
from controlplane.release.domain.room import Gpus, strategy_of

STATES = ("pending", "starting", "ready", "draining", "stopped", "failed")
ENDS = {Move.FINISH, Move.REVERT, Move.FAIL}
PARTIES = [
    None,
    *(
        Party(state, is_wanted, ready_s if state == "ready" else 0.0, is_silent)
        for state, is_wanted, ready_s, is_silent in product(STATES, (True, False), (0.0, SOAK_S), (True, False))
        if state == "ready" or ready_s == 0.0
    ),
]
STANDINGS = [
    Standing(strategy, new, old, is_borrowed, is_aborting, is_reverting)
    for strategy in Strategy
    for new, old in product(PARTIES, PARTIES)
    for is_borrowed, is_aborting, is_reverting in product((True, False), repeat=3)
]


def made(move: Move) -> Iterator[Standing]:
    found = [at for at in STANDINGS if next_move(at) is move]
    assert found, f"no standing leads to {move}"
    return iter(found)


def test_every_standing_has_a_move() -> None:
    assert {next_move(at) for at in STANDINGS} == set(Move)


def test_the_old_one_is_stopped_for_a_proven_new_one_or_where_there_is_no_room() -> None:
    for at in made(Move.STOP_OLD):
        assert at.old
        assert at.old.stays
        assert (at.new and at.new.is_proven) or (at.new is None and at.strategy is Strategy.STOP_FIRST)
        assert at.new or not at.is_aborting


def test_a_new_one_is_launched_once_and_never_when_it_is_given_up() -> None:
    for at in made(Move.LAUNCH_NEW):
        assert at.new is None
        assert not at.is_aborting
        assert not at.is_reverting
        assert at.strategy is Strategy.START_FIRST or at.old is None or not at.old.is_live


def test_it_ends_well_only_when_the_new_one_serves_alone() -> None:
    for at in made(Move.FINISH):
        assert at.new
        assert at.new.is_proven
        assert at.old is None or not (at.old.stays or at.old.is_leaving)


def test_the_old_one_comes_back_only_when_the_new_one_is_out_of_its_way() -> None:
    for at in made(Move.RELAUNCH_OLD):
        assert at.old
        assert not at.old.is_live
        assert at.new is None or not at.new.is_live or at.is_new_borrowed


def test_it_never_reads_as_reverted_while_the_old_one_is_gone() -> None:
    for at in made(Move.REVERT):
        assert at.old is None or at.old.stays
        assert at.is_aborting or (at.old and at.old.serves)


def test_it_fails_only_when_nothing_is_left_to_try() -> None:
    for at in made(Move.FAIL):
        assert at.new is None or at.is_new_borrowed or not (at.new.stays or at.new.is_leaving)
        assert at.old is None or (at.is_reverting and not at.old.is_live)


def test_a_borrowed_instance_is_never_stopped() -> None:
    assert all(not at.is_new_borrowed for at in made(Move.STOP_NEW))


@pytest.mark.parametrize("state", ["pending", "starting"])
def test_between_the_tries_of_a_restart_it_waits(state: str) -> None:
    at = Standing(Strategy.START_FIRST, new=Party(state), old=Party("ready", ready_s=99))
    assert next_move(at) is Move.WAIT


def test_a_silent_host_makes_it_wait() -> None:
    new, old = Party("ready", ready_s=99, is_silent=True), Party("ready", ready_s=99)
    assert next_move(Standing(Strategy.START_FIRST, new, old)) is Move.WAIT
    assert next_move(Standing(Strategy.STOP_FIRST, new, Party("stopped", is_wanted=False))) is Move.WAIT


def test_a_dead_machine_does_not_hold_up_moving_away_from_it() -> None:
    new, old = Party("ready", ready_s=99), Party("ready", ready_s=99, is_silent=True)
    at = Standing(Strategy.START_FIRST, new, old)
    assert next_move(at) is Move.STOP_OLD
    assert next_move(replace(at, old=replace(old, is_wanted=False))) is Move.FINISH


def test_giving_up_a_new_one_on_a_dead_machine_ends_while_the_old_one_serves() -> None:
    new = Party("starting", is_wanted=False, is_silent=True)
    at = Standing(Strategy.START_FIRST, new, Party("ready", ready_s=99), is_aborting=True)
    assert next_move(at) is Move.REVERT
    assert next_move(replace(at, old=Party("stopped", is_wanted=False))) is Move.WAIT


def test_a_new_one_that_is_ready_for_a_moment_proves_nothing() -> None:
    at = Standing(Strategy.START_FIRST, Party("ready", ready_s=SOAK_S - 0.1), Party("ready"))
    assert next_move(at) is Move.WAIT
    assert next_move(replace(at, new=Party("ready", ready_s=SOAK_S))) is Move.STOP_OLD


def test_after_the_change_over_it_is_too_late_to_give_up() -> None:
    at = Standing(Strategy.START_FIRST, Party("ready", ready_s=99), Party("draining", is_wanted=False))
    assert at.has_changed_over
    assert next_move(replace(at, is_aborting=True)) is Move.WAIT
    gone = replace(at, is_aborting=True, old=Party("stopped", is_wanted=False))
    assert next_move(gone) is Move.FINISH


# -- Every course of events ------------------------------------------------------------------------------------------

AFTER: dict[bool, dict[str, tuple[str, ...]]] = {  # what the fleet makes of an instance, wanted or not, by itself
    True: {"pending": ("starting", "failed"), "starting": ("ready", "pending", "failed"), "ready": ("ready",)},
    False: {"pending": ("stopped",), "starting": ("draining",), "ready": ("draining",), "draining": ("stopped",)},
}


def courses(party: Party | None) -> list[Party | None]:
    """What may become of an instance next; a proven one serves on, so that what a move drops can be told apart."""
    if party is None or not party.is_live:
        return [party]
    later = AFTER[party.is_wanted].get(party.state, ())
    return [Party(state, party.is_wanted, SOAK_S if state == "ready" else 0.0) for state in later]


def carried_out(at: Standing, move: Move) -> Standing:
    if move is Move.LAUNCH_NEW:
        return replace(at, new=Party("pending"))
    if move is Move.STOP_OLD:
        assert at.old
        return replace(at, old=replace(at.old, is_wanted=False))
    if move is Move.STOP_NEW:
        assert at.new
        return replace(at, new=replace(at.new, is_wanted=False))
    if move is Move.RELAUNCH_OLD:
        return replace(at, old=Party("pending"), is_reverting=True)
    return at


def reachable(start: Standing) -> tuple[dict[Standing, list[Standing]], set[Standing]]:
    """All standings that can follow, with what follows each, and those in which the promotion has ended."""
    following: dict[Standing, list[Standing]] = {}
    ended, todo = set(), [start]
    while todo:
        at = todo.pop()
        if at in following:
            continue
        move = next_move(at)
        if move in ENDS:
            ended.add(at)
            following[at] = []
            continue
        done = carried_out(at, move)
        following[at] = [done] if done != at else []
        following[at] += [replace(at, new=new, old=old) for new in courses(at.new) for old in courses(at.old)]
        following[at] += [replace(at, is_aborting=True)]
        todo += following[at]
    return following, ended


STARTS = [
    Standing(strategy, new, old, is_new_borrowed=new is not None)
    for strategy in (Strategy.START_FIRST, Strategy.STOP_FIRST)
    for old in (None, Party("ready", ready_s=SOAK_S), Party("starting"))
    for new in (None, Party("ready", ready_s=SOAK_S))
    if new is None or strategy is Strategy.START_FIRST
]


@pytest.mark.parametrize("start", STARTS)
def test_from_everywhere_an_end_can_be_reached(start: Standing) -> None:
    following, ended = reachable(start)
    can_end = set(ended)
    while grown := {at for at, later in following.items() if at not in can_end and can_end.intersection(later)}:
        can_end |= grown
    assert can_end == set(following)


@pytest.mark.parametrize("is_borrowed", [False, True])
def test_starting_first_always_has_one_that_serves(is_borrowed: bool) -> None:
    """Whatever becomes of the new one before it is proven, and whenever a person gives up."""
    serving = Party("ready", ready_s=SOAK_S)
    following, ended = reachable(
        Standing(Strategy.START_FIRST, serving if is_borrowed else None, serving, is_new_borrowed=is_borrowed)
    )
    assert len(ended) > 1
    for at in following:
        assert any(party is not None and party.serves for party in (at.new, at.old)), at


# -- Room ------------------------------------------------------------------------------------------------------------

FOUR = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")


@pytest.mark.parametrize(
    ("needed", "of_old", "of_others", "wished", "expected"),
    [
        (1, {"GPU-0"}, set(), (), ["GPU-1"]),
        (2, {"GPU-1"}, {"GPU-0"}, (), ["GPU-2", "GPU-3"]),
        (2, {"GPU-1", "GPU-2"}, {"GPU-0"}, (), ["GPU-1", "GPU-2"]),
        (3, {"GPU-1", "GPU-2"}, {"GPU-0"}, (), ["GPU-1", "GPU-2", "GPU-3"]),
        (4, {"GPU-1"}, {"GPU-0"}, (), ["GPU-1", "GPU-2", "GPU-3"]),
        (1, {"GPU-0"}, {"GPU-1"}, ("GPU-1",), ["GPU-1"]),
    ],
)
def test_the_new_one_gets_free_gpus_then_the_old_ones_and_never_those_of_others(
    needed: int, of_old: set[str], of_others: set[str], wished: tuple[str, ...], expected: list[str]
) -> None:
    assert Gpus(FOUR, of_old, of_others).for_new(needed, wished) == expected


def test_stopping_the_old_one_helps_only_where_it_alone_holds_the_gpus() -> None:
    gpus = Gpus(FOUR, {"GPU-1"}, {"GPU-0"})
    assert gpus.are_freed_by_old(["GPU-1", "GPU-2"])
    assert not gpus.are_freed_by_old(["GPU-2"])
    assert not gpus.are_freed_by_old(["GPU-0", "GPU-1"])


@pytest.mark.parametrize(
    ("failed", "is_cpu", "is_freed_by_old", "expected"),
    [
        ([], False, False, Strategy.START_FIRST),
        (["free_memory"], False, True, Strategy.STOP_FIRST),
        (["free_memory"], False, False, Strategy.UNDECIDED),
        (["free_memory", "port"], False, True, Strategy.STOP_FIRST),
        (["memory"], False, True, Strategy.UNDECIDED),
        (["memory"], True, True, Strategy.STOP_FIRST),
        (["flags"], True, True, Strategy.UNDECIDED),
        (["free_memory", "flags"], False, True, Strategy.UNDECIDED),
    ],
)
def test_what_only_the_old_one_holds_is_made_free_by_stopping_it_first(
    failed: list[str], is_cpu: bool, is_freed_by_old: bool, expected: Strategy
) -> None:
    assert strategy_of(failed, is_cpu=is_cpu, is_freed_by_old=is_freed_by_old) is expected
