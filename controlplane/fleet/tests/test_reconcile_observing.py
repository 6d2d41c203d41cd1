"""What the tick sees of serving instances, on a pretended host: crashes, silence, hangs, drift, stops with proof."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.core.models import Event, Lease
from controlplane.drivers.errors import StillOpening
from controlplane.fleet import reconcile
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.services import request_stop
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of
from controlplane.inventory.models import Host


def forget_metrics_time(instance: Instance) -> None:
    """As if the figures were old."""
    old = (timezone.now() - timedelta(minutes=1)).isoformat()
    Instance.objects.filter(pk=instance.pk).update(metrics={**instance.metrics, "at": old})


def test_a_crash_is_seen_with_its_signal_and_the_orphans_that_were_cleared_away(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.end(attempt_of(instance).launch_id, signal="SIGKILL", orphans=2)

    world.observe(instance)

    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome, attempt.exit_signal) == (State.FAILED, "crashed", "SIGKILL")
    assert attempt.failure_code == "killed"
    assert [leftover["command"] for leftover in attempt.leftovers] == [["VLLM::EngineCore"]] * 2
    assert Event.objects.filter(name="instance.failed", subject_id=instance.pk).exists()


def test_an_end_with_exit_code_0_that_nobody_asked_for_is_a_crash(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.end(attempt_of(instance).launch_id, rc=0)
    world.observe(instance)
    assert (instance.state, attempt_of(instance).outcome) == (State.FAILED, "crashed")
    assert "without being asked" in instance.reason


def test_a_crash_of_a_deployed_instance_starts_it_again(world: FakeWorld) -> None:
    instance = world.ready(is_deployed=True)
    Attempt.objects.update(ready_at=timezone.now() - timedelta(hours=1))
    world.machine.end(attempt_of(instance).launch_id, signal="SIGSEGV")

    reconcile.observe_host(world.host.pk)
    instance.refresh_from_db()
    assert (instance.state, instance.failed_starts) == (State.PENDING, 0)
    world.step(instance)
    world.step(instance)

    assert instance.state == State.READY
    assert [attempt.outcome for attempt in instance.attempts.order_by("number")] == ["crashed", "running"]


def test_after_a_restart_of_the_host_the_instance_is_lost(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.reboot()
    world.observe(instance)
    assert (instance.state, attempt_of(instance).outcome) == (State.FAILED, "lost")


def test_a_killed_keeper_alone_changes_nothing(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.kill_keeper(attempt_of(instance).launch_id)
    world.observe(instance)
    assert instance.state == State.READY


def test_a_connection_that_is_still_being_opened_marks_nothing(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.go_offline(StillOpening)
    world.observe(instance)
    assert (instance.state, instance.is_host_silent) == (State.READY, False)
    assert reconcile.hosts_to_observe() == [world.host.pk]


def test_a_host_that_is_known_to_be_silent_is_asked_now_and_then_and_not_at_every_tick(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.go_offline()
    world.observe(instance)
    assert reconcile.hosts_to_observe() == [world.host.pk]  # one hiccup says nothing

    Host.objects.filter(pk=world.host.pk).update(state=Host.State.UNREACHABLE)
    world.observe(instance)
    assert reconcile.hosts_to_observe() == []

    world.machine.is_online = True
    Lease.objects.update(expires_at=timezone.now())  # the rest is over
    assert reconcile.hosts_to_observe() == [world.host.pk]
    world.observe(instance)
    assert not instance.is_host_silent
    assert reconcile.hosts_to_observe() == [world.host.pk]


def test_a_silent_host_keeps_its_instances_as_they_were_and_marks_them(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.go_offline()
    world.observe(instance)
    assert (instance.state, instance.is_host_silent) == (State.READY, True)

    world.machine.is_online = True
    world.observe(instance)
    assert (instance.state, instance.is_host_silent) == (State.READY, False)


def test_one_look_asks_a_host_for_the_serving_launches_only(world: FakeWorld) -> None:
    old, serving = world.ready(), world.ready()
    request_stop(old, actor="test")
    world.step(old)
    world.machine.calls.clear()

    reconcile.observe_host(world.host.pk)

    lists = [params for verb, params in world.machine.calls if verb == "list"]
    assert lists == [{"launch_ids": [attempt_of(serving).launch_id]}]


def test_figures_are_read_every_ten_seconds_and_give_a_rate(world: FakeWorld) -> None:
    instance = world.ready()
    world.observe(instance)
    assert (instance.metrics["running"], instance.metrics["generation_tokens"]) == (1, 7)
    asked = len(world.server.asked)
    world.observe(instance)
    assert len(world.server.asked) == asked, "too soon"

    forget_metrics_time(instance)
    world.server.tokens = 607
    world.observe(instance)
    assert instance.metrics["output_throughput"] == pytest.approx(10, rel=0.1)


def test_a_server_that_does_not_answer_three_times_leaves_ready_and_comes_back_with_an_answer(world: FakeWorld) -> None:
    instance = world.ready()
    world.server.is_up = False
    for state in (State.READY, State.READY, State.STARTING):
        assert instance.state == State.READY
        reconcile.observe_host(world.host.pk)
        instance.refresh_from_db()
        assert instance.state == state
        forget_metrics_time(instance)

    world.server.is_up = True
    world.step(instance)
    assert instance.state == State.READY
    assert instance.attempts.count() == 1


def test_a_server_that_stays_mute_is_killed_and_its_attempt_says_why(world: FakeWorld) -> None:
    instance = world.ready()
    world.server.is_up = False
    Instance.objects.filter(pk=instance.pk).update(
        state=State.STARTING, state_since=timezone.now() - timedelta(minutes=3)
    )
    world.step(instance)
    world.step(instance)
    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome, attempt.failure_code) == (State.FAILED, "crashed", "launch_timeout")
    assert attempt.stop_report["is_gone"]


def test_requests_that_run_without_tokens_for_minutes_are_a_hang(world: FakeWorld) -> None:
    instance = world.ready()
    world.observe(instance)
    long_ago = (timezone.now() - timedelta(minutes=6)).isoformat()
    Instance.objects.filter(pk=instance.pk).update(metrics={**instance.metrics, "at": long_ago, "moved_at": long_ago})
    reconcile.observe_host(world.host.pk)
    instance.refresh_from_db()
    assert instance.state == State.STARTING
    assert "no token comes" in instance.reason


def test_a_stop_is_written_down_when_nothing_is_left(world: FakeWorld) -> None:
    instance = world.ready()
    assert request_stop(instance, actor="test", why="not needed")
    assert world.step(instance) is None

    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome) == (State.STOPPED, "stopped")
    assert [one.after for one in instance.transitions.all()][-2:] == ["draining", "stopped"]
    assert "no process, port or GPU memory of it is left" in instance.reason
    assert attempt.ended_at


def test_a_stop_that_left_something_says_what_and_goes_on(world: FakeWorld) -> None:
    instance = world.ready(is_stuck=True)
    request_stop(instance, actor="test")

    wait_s = world.step(instance)

    pid = attempt_of(instance).process["pid"]
    assert (instance.state, wait_s is not None) == (State.DRAINING, True)
    assert f"still there: processes {pid}" in instance.reason


def test_what_will_not_die_ends_as_failed_and_names_what_is_left(world: FakeWorld) -> None:
    instance = world.ready(is_stuck=True)
    request_stop(instance, actor="test")
    world.step(instance)
    Instance.objects.filter(pk=instance.pk).update(state_since=timezone.now() - timedelta(minutes=5))
    world.step(instance)  # kills
    world.step(instance)  # and says that it was no use

    assert instance.state == State.FAILED
    assert str(attempt_of(instance).process["pid"]) in instance.reason
    assert world.step(instance) is not None, "it is tried again"


def test_a_stop_before_the_start_needs_no_host(world: FakeWorld) -> None:
    instance = world.request()
    request_stop(instance, actor="test")
    world.step(instance)
    assert instance.state == State.STOPPED
    assert world.starts() == []


def test_a_stop_during_the_start_ends_the_process(world: FakeWorld) -> None:
    instance = world.request(log="loading\n")
    world.step(instance)
    request_stop(instance, actor="test")
    world.step(instance)
    assert (instance.state, attempt_of(instance).outcome) == (State.STOPPED, "stopped")


def test_a_stop_of_a_silent_host_waits_until_it_can_be_proved(world: FakeWorld) -> None:
    instance = world.ready()
    world.machine.go_offline()
    request_stop(instance, actor="test")
    world.step(instance)
    assert instance.state == State.READY
    world.machine.is_online = True
    world.step(instance)
    assert instance.state == State.STOPPED


def test_stopping_twice_stops_once(world: FakeWorld) -> None:
    instance = world.ready()
    assert request_stop(instance, actor="test")
    assert not request_stop(instance, actor="test")
    world.step(instance)
    assert Event.objects.filter(name="instance.stop_requested").count() == 1
    assert not request_stop(instance, actor="test")


def test_the_smoke_request_keeps_answer_and_tokens(world: FakeWorld) -> None:
    instance = world.ready()
    reconcile.ask_smoke(instance.pk, "Say hello.")
    instance.refresh_from_db()
    assert instance.smoke["answer"] == "Hello."
    assert (instance.smoke["prompt_tokens"], instance.smoke["completion_tokens"]) == (12, 3)


def test_a_smoke_request_whose_message_was_lost_is_found_by_the_tick(
    world: FakeWorld, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    instance = world.ready()
    assert instance.smoke["state"] == "asked"
    with django_capture_on_commit_callbacks() as sent:
        reconcile.send_late_steps()
    assert sent == [], "it was asked just now"
    long_ago = (timezone.now() - timedelta(minutes=3)).isoformat()
    Instance.objects.filter(pk=instance.pk).update(smoke={**instance.smoke, "asked_at": long_ago})
    with django_capture_on_commit_callbacks() as sent:
        reconcile.send_late_steps()
    assert len(sent) == 1
    reconcile.ask_smoke(instance.pk, "Say hello.")
    with django_capture_on_commit_callbacks() as sent:
        reconcile.send_late_steps()
    assert sent == []


def test_drift_between_declared_and_running_is_kept(world: FakeWorld) -> None:
    instance = world.ready()
    attempt = attempt_of(instance)
    Attempt.objects.filter(pk=attempt.pk).update(argv=[*attempt.argv, "--max-num-seqs", "64"])
    world.observe(instance)
    assert instance.drift == [{"name": "max_num_seqs", "declared": "64", "running": None}]


def test_a_pretended_crowd_of_silent_hosts_freezes_restarts(world: FakeWorld, make_silent: Any) -> None:
    instance = world.request(is_deployed=True)
    make_silent(4)
    world.step(instance)
    assert (instance.state, world.starts()) == (State.PENDING, [])
