"""The life of an instance: every pair of states, and what the reconciler does in every situation."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.fleet.domain.lifecycle import (
    ALLOWED,
    Act,
    Desired,
    Limits,
    Observation,
    Outcome,
    Record,
    Seen,
    State,
    Step,
    may,
    next_step,
    sources_of,
)

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
LIMITS = Limits()
RUNNING = Observation(Seen.RUNNING)

ALLOWED_PAIRS = {
    ("pending", "starting"),
    ("pending", "draining"),
    ("pending", "stopped"),
    ("pending", "failed"),
    ("starting", "ready"),
    ("starting", "pending"),
    ("starting", "draining"),
    ("starting", "stopped"),
    ("starting", "failed"),
    ("ready", "starting"),
    ("ready", "pending"),
    ("ready", "draining"),
    ("ready", "stopped"),
    ("ready", "failed"),
    ("draining", "stopped"),
    ("draining", "failed"),
    ("stopped", "pending"),
    ("failed", "pending"),
    ("failed", "draining"),
    ("failed", "stopped"),
}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def record(state: State, **more: object) -> Record:
    started = None if state in {State.PENDING, State.STOPPED} else ago(5)
    base = Record(state, since=ago(5), attempt_started_at=started, has_served=state in {State.READY, State.DRAINING})
    return replace(base, **more)  # type: ignore[arg-type]


def decide(state: Record, seen: Observation, desired: Desired = Desired.RUNNING) -> Step:
    return next_step(desired=desired, record=state, observation=seen, now=NOW, limits=LIMITS)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(State, State)))
def test_every_pair_of_states_is_decided(old: State, new: State) -> None:
    assert may(old, new) is ((old.value, new.value) in ALLOWED_PAIRS)
    assert (old in sources_of(new)) is may(old, new)


def test_every_state_has_a_way_out_and_none_leads_to_itself() -> None:
    assert set(ALLOWED) == set(State)
    assert all(ALLOWED[state] and state not in ALLOWED[state] for state in State)


RECORDS = [
    record(
        state,
        attempt_started_at=started,
        since=since,
        has_served=served,
        is_kill_sent=killed,
        is_given_up=given_up,
        failed_starts=failed,
    )
    for state, started, since in itertools.product(State, (None, ago(5000)), (ago(5), ago(5000)))
    for served, killed, given_up in itertools.product((False, True), repeat=3)
    for failed in (0, 3)
]
SIGHTS = [
    Observation(seen, leftovers=left, answers=answers, is_progressing=progress, exit_code=0)
    for seen, left, answers, progress in itertools.product(Seen, ((), (7,)), (None, True, False), (None, False))
]
EVERYTHING = list(itertools.product(RECORDS, SIGHTS, Desired))


def test_in_no_situation_is_a_forbidden_move_made() -> None:
    for state, seen, desired in EVERYTHING:
        step = decide(state, seen, desired)
        assert step.state is None or may(state.state, step.state), (state, seen, desired, step)


def test_a_silent_host_is_never_acted_on() -> None:
    for state, seen, desired in EVERYTHING:
        if seen.seen is Seen.SILENT:
            assert decide(state, seen, desired) == Step(Act.WAIT, "host_silent", is_alarm=True)


def test_nothing_is_started_while_anything_of_the_launch_lives() -> None:
    for state, seen, desired in EVERYTHING:
        if decide(state, seen, desired).act is Act.START:
            assert seen.seen is not Seen.RUNNING
            assert not seen.leftovers


def test_stopped_is_only_written_when_nothing_lives() -> None:
    for state, seen, desired in EVERYTHING:
        if decide(state, seen, desired).state is State.STOPPED:
            assert seen.seen is not Seen.RUNNING
            assert not seen.leftovers


def test_ready_is_only_written_after_an_answered_request() -> None:
    for state, seen, desired in EVERYTHING:
        if decide(state, seen, desired).state is State.READY:
            assert seen.answers is True


def test_what_is_not_wanted_is_never_started_and_what_is_killed_is_there() -> None:
    for state, seen, desired in EVERYTHING:
        step = decide(state, seen, desired)
        assert not (step.act is Act.START and desired is Desired.STOPPED)
        if step.act is Act.KILL:
            assert seen.seen is Seen.RUNNING or seen.leftovers


def test_the_story_of_a_good_life() -> None:
    assert decide(record(State.PENDING), Observation(Seen.ABSENT)) == Step(Act.START, "wanted", State.STARTING)
    starting = record(State.STARTING)
    assert decide(starting, RUNNING).act is Act.PROBE
    assert decide(starting, Observation(Seen.RUNNING, is_healthy=True, answers=False)).act is Act.WAIT
    answered = decide(starting, Observation(Seen.RUNNING, answers=True))
    assert (answered.state, answered.outcome) == (State.READY, Outcome.RUNNING)
    assert decide(record(State.READY), Observation(Seen.RUNNING, answers=True)).act is Act.WAIT
    assert decide(record(State.READY), RUNNING, Desired.STOPPED) == Step(Act.STOP, "not_wanted", State.DRAINING)
    gone = decide(record(State.DRAINING), Observation(Seen.EXITED, exit_code=0), Desired.STOPPED)
    assert (gone.state, gone.outcome) == (State.STOPPED, Outcome.STOPPED)


def test_healthy_is_not_ready() -> None:
    step = decide(record(State.STARTING), Observation(Seen.RUNNING, is_healthy=True))
    assert (step.act, step.state) == (Act.PROBE, None)


@pytest.mark.parametrize("exit_code", [0, 1, 2, -9])
def test_an_end_nobody_asked_for_is_a_crash_whatever_the_code(exit_code: int) -> None:
    step = decide(record(State.READY), Observation(Seen.EXITED, exit_code=exit_code))
    assert (step.outcome, step.state, step.is_alarm) == (Outcome.CRASHED, State.PENDING, True)
    assert not step.counts_as_failed_start


def test_after_some_failed_starts_it_stays_down() -> None:
    ended = Observation(Seen.EXITED, exit_code=1)
    states = [decide(record(State.STARTING, failed_starts=count), ended).state for count in range(3)]
    assert states == [State.PENDING, State.PENDING, State.FAILED]
    assert decide(record(State.STARTING), ended).counts_as_failed_start
    assert decide(record(State.FAILED, failed_starts=3), Observation(Seen.ABSENT)).act is Act.WAIT


def test_a_failed_start_is_tried_again_later_each_time() -> None:
    seen = Observation(Seen.ABSENT)
    assert decide(record(State.PENDING, failed_starts=1, since=ago(9)), seen).act is Act.WAIT
    assert decide(record(State.PENDING, failed_starts=1, since=ago(10)), seen).act is Act.START
    assert decide(record(State.PENDING, failed_starts=2, since=ago(19)), seen).act is Act.WAIT
    assert decide(record(State.PENDING, failed_starts=2, since=ago(20)), seen).act is Act.START


def test_a_launch_that_takes_too_long_is_killed_and_recorded_as_timed_out() -> None:
    late = record(State.STARTING, attempt_started_at=ago(LIMITS.launch_timeout_s), since=ago(LIMITS.launch_timeout_s))
    step = decide(late, RUNNING)
    assert (step.act, step.reason, step.gives_up, step.state) == (Act.KILL, "launch_timeout", True, None)
    given_up = replace(late, is_given_up=True)
    assert decide(given_up, Observation(Seen.RUNNING, answers=True)).act is Act.KILL, "an answer now comes too late"
    ended = decide(given_up, Observation(Seen.EXITED, exit_code=-9))
    assert (ended.outcome, ended.counts_as_failed_start) == (Outcome.TIMED_OUT, True)


def test_orphans_are_removed_before_the_attempt_counts_as_ended() -> None:
    """kill -9 of the API process leaves EngineCore and workers on the GPU."""
    orphaned = decide(record(State.READY), Observation(Seen.EXITED, exit_code=-9, leftovers=(71, 72)))
    assert (orphaned.act, orphaned.reason, orphaned.pids, orphaned.state) == (Act.KILL, "leftovers", (71, 72), None)


def test_a_start_on_its_way_is_not_taken_for_lost() -> None:
    on_its_way = record(State.STARTING, attempt_started_at=None)
    assert decide(on_its_way, Observation(Seen.ABSENT)).act is Act.WAIT
    overdue = replace(on_its_way, since=ago(LIMITS.start_grace_s))
    assert decide(overdue, Observation(Seen.ABSENT)).outcome is Outcome.LOST


@pytest.mark.parametrize("seen", [Seen.ABSENT, Seen.REPLACED])
def test_after_a_reboot_the_old_pid_counts_as_gone_and_the_instance_starts_again(seen: Seen) -> None:
    step = decide(record(State.READY), Observation(seen))
    assert (step.outcome, step.state) == (Outcome.LOST, State.PENDING)


def test_a_server_that_stops_answering_leaves_ready_after_some_probes_and_is_killed_when_it_stays_silent() -> None:
    mute = Observation(Seen.RUNNING, is_healthy=True, answers=False)
    assert decide(record(State.READY, unanswered_probes=1), mute).state is None
    assert decide(record(State.READY, unanswered_probes=2), mute).state is State.STARTING
    watched = record(State.STARTING, has_served=True, attempt_started_at=ago(90_000))
    assert decide(watched, mute).act is Act.WAIT, "its old launch time must not count against it"
    assert decide(replace(watched, since=ago(LIMITS.recover_timeout_s)), mute).reason == "hung"
    assert decide(watched, Observation(Seen.RUNNING, answers=True)).state is State.READY


def test_running_requests_without_tokens_are_a_hang_although_health_is_fine() -> None:
    step = decide(record(State.READY), Observation(Seen.RUNNING, is_healthy=True, is_progressing=False))
    assert (step.state, step.reason, step.is_alarm) == (State.STARTING, "no_progress", True)


def test_a_stop_drains_then_kills_then_says_what_will_not_die() -> None:
    def stopping(seconds: float, *, killed: bool = False) -> Step:
        state = record(State.DRAINING, since=ago(seconds), is_kill_sent=killed)
        return decide(state, replace(RUNNING, leftovers=(71,)), Desired.STOPPED)

    assert stopping(10).act is Act.STOP
    assert (stopping(60).act, stopping(60).reason) == (Act.KILL, "drain_timeout")
    stuck = stopping(90, killed=True)
    assert (stuck.reason, stuck.state, stuck.pids, stuck.is_alarm) == ("will_not_die", State.FAILED, (71,), True)


def test_stopped_waits_for_ports_and_gpu_memory_too() -> None:
    held = decide(record(State.DRAINING), Observation(Seen.EXITED, held=("port 8000",)), Desired.STOPPED)
    assert (held.act, held.state) == (Act.KILL, None)


def test_a_keeper_that_is_clearing_away_is_left_to_it() -> None:
    step = decide(record(State.READY), Observation(Seen.ENDING, leftovers=(71,)))
    assert (step.act, step.state, step.pids) == (Act.WAIT, None, (71,))


def test_without_restarts_the_first_end_is_the_last() -> None:
    once = replace(LIMITS, restarts=False)
    for state in (State.STARTING, State.READY):
        step = next_step(
            desired=Desired.RUNNING, record=record(state), observation=Observation(Seen.EXITED), now=NOW, limits=once
        )
        assert step.state is State.FAILED


def test_a_server_that_ends_soon_after_its_first_answer_counts_as_a_failed_start() -> None:
    ended = Observation(Seen.EXITED, exit_code=0)
    brief = decide(record(State.READY, served_since=ago(LIMITS.proven_after_s - 1), failed_starts=2), ended)
    assert (brief.state, brief.outcome, brief.counts_as_failed_start) == (State.FAILED, Outcome.CRASHED, True)
    proven = decide(record(State.READY, served_since=ago(LIMITS.proven_after_s), failed_starts=2), ended)
    assert (proven.state, proven.counts_as_failed_start) == (State.PENDING, False)


def test_a_control_plane_that_comes_back_finds_its_engine_again() -> None:
    assert decide(record(State.PENDING), RUNNING) == Step(Act.NOTE, "found_running", State.STARTING)
    assert decide(record(State.STOPPED), RUNNING).state is State.PENDING


def test_a_stopped_instance_that_came_back_with_its_host_is_removed_when_nobody_wants_it() -> None:
    step = decide(record(State.STOPPED), RUNNING, Desired.STOPPED)
    assert (step.act, step.reason, step.is_alarm) == (Act.KILL, "alive_after_stop", True)


def test_the_same_values_give_the_same_answer() -> None:
    for state, seen, desired in EVERYTHING[::97]:
        assert decide(state, seen, desired) == decide(state, seen, desired)
