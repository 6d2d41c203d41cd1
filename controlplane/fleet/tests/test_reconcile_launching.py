"""From a launch call to ready, on a pretended host: every step can be repeated, none is trusted to have happened."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.core import leases, secrets_store
from controlplane.core.errors import Conflict
from controlplane.core.models import Event
from controlplane.drivers.fake import Program
from controlplane.fleet import reconcile
from controlplane.fleet.models import Attempt, Instance, Preflight, State
from controlplane.fleet.reconcile.advancing import lease_name
from controlplane.fleet.reconcile.attempts import open_attempt
from controlplane.fleet.services import key_of, relaunch, request_preflight
from controlplane.fleet.tests.fake_world import UP, FakeWorld, attempt_of
from controlplane.inventory.models import Accelerator
from controlplane.protocol.launches import PortHolder


def test_a_launch_goes_from_pending_over_starting_to_ready(world: FakeWorld) -> None:
    instance = world.request(log="loading\n")

    assert world.step(instance) is not None
    assert instance.state == State.STARTING
    assert world.step(instance) is not None
    assert instance.state == State.STARTING, "it has not said that it listens"
    world.machine.print_log(attempt_of(instance).launch_id, UP)
    assert world.step(instance) is None

    assert instance.state == State.READY
    assert [(one.before, one.after) for one in instance.transitions.all()] == [
        ("pending", "starting"),
        ("starting", "ready"),
    ]
    assert instance.ready_s is not None
    told = Event.objects.filter(subject_type="instance").order_by("pk")
    assert list(told.values_list("name", flat=True)) == [
        "instance.requested",
        "instance.started",
        "instance.readied",
    ]


def test_the_key_goes_to_the_process_and_to_nobody_else(world: FakeWorld) -> None:
    instance = world.ready()
    (start,) = world.starts()

    key = start["secret_env"]["VLLM_API_KEY"]
    assert key == key_of(instance)
    assert key not in str(start["argv"]) + str(start["env"])
    assert key not in str(list(Attempt.objects.values())) + str(list(Event.objects.values()))
    assert world.server.asked[-1].headers["Authorization"] == f"Bearer {key}"


def test_the_key_is_the_secret_that_the_config_names(world: FakeWorld) -> None:
    secrets_store.store(name="chat-key", kind="api_key", plain="k-of-the-config", actor="test")
    world.ready(server={"api_key": "secret:chat-key"})
    assert world.starts()[0]["secret_env"] == {"VLLM_API_KEY": "k-of-the-config"}


def test_a_config_that_names_a_secret_nobody_stored_is_refused_and_says_so(world: FakeWorld) -> None:
    instance = world.request(server={"api_key": "secret:nowhere"})
    world.step(instance)
    assert (instance.state, attempt_of(instance).failure_code) == (State.FAILED, "not_found")
    assert "secret:nowhere" in instance.reason
    assert world.starts() == []


def test_what_we_add_is_kept_apart_and_engine_processes_stay_on_ports_of_their_own(world: FakeWorld) -> None:
    attempt = attempt_of(world.ready(port=8003))
    assert attempt.injected == ["--shutdown-timeout", "30"]
    assert attempt.argv[-2:] == attempt.injected
    assert attempt.argv[:3] == ["/opt/vllm/bin/vllm", "serve", "/models/qwen"]
    assert attempt.environment["VLLM_PORT"] == "20096"
    assert attempt.environment["HF_HUB_OFFLINE"] == "1"


def test_a_failed_check_refuses_the_launch_and_starts_nothing(world: FakeWorld) -> None:
    instance = world.request(model={"model_path": "/models/none"})

    assert world.step(instance) is None

    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome, attempt.failure_code) == (State.FAILED, "refused", "model")
    assert instance.reason == "There is no /models/none on this host."
    assert world.starts() == []


def test_an_overridden_check_is_kept_with_its_failure_and_the_reason(world: FakeWorld) -> None:
    instance = world.request(model={"model_path": "/models/none"}, override_reason="it is mounted at start")
    world.step(instance)
    assert instance.state == State.STARTING
    assert "fail" in {check["outcome"] for check in attempt_of(instance).preflight}
    assert Event.objects.get(name="instance.requested").sentence == "it is mounted at start"


def test_the_host_refuses_a_port_that_was_taken_after_the_check(world: FakeWorld) -> None:
    instance = world.request(port=8000, override_reason="race")
    world.machine.foreign_ports[8000] = PortHolder(8000, 4711, ["nginx"], "root")
    world.step(instance)
    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome, attempt.failure_code) == (State.FAILED, "refused", "port_taken")


def test_two_launches_never_get_one_port(world: FakeWorld) -> None:
    first = world.request(port=8000)
    with pytest.raises(Conflict, match="Port 8000"):
        world.request(port=8000)
    second = world.request(server={"port": 8000})
    assert (first.port, second.port) == (8000, 8001)


def test_a_worker_that_died_before_the_start_is_followed_by_one_with_the_same_launch(world: FakeWorld) -> None:
    instance = world.request()
    opened = open_attempt(instance)  # and then the worker was killed

    world.step(instance)

    (start,) = world.starts()
    assert (start["launch_id"], start["nonce"]) == (opened.launch_id, opened.process["nonce"])
    assert instance.attempts.count() == 1


def test_a_worker_that_died_after_the_start_is_followed_by_one_that_finds_the_process(world: FakeWorld) -> None:
    instance = world.request()
    world.step(instance)
    Instance.objects.filter(pk=instance.pk).update(state=State.PENDING)  # as if the answer had been lost
    instance.attempts.update(launched_at=None)

    world.step(instance)

    assert instance.state == State.STARTING
    assert instance.reason == "Its process was found running."
    assert attempt_of(instance).launched_at
    assert len(world.starts()) == 1
    world.step(instance)
    assert instance.state == State.READY


def test_a_message_that_comes_twice_takes_one_step(world: FakeWorld) -> None:
    instance = world.request(log="loading\n")
    assert reconcile.advance(instance.pk) is not None
    calls = len(world.machine.calls)
    assert reconcile.advance(instance.pk) is None
    assert len(world.machine.calls) == calls


def test_a_message_for_an_instance_that_somebody_is_at_does_nothing(world: FakeWorld) -> None:
    instance = world.request()
    with leases.held(lease_name(instance.pk), for_s=60):
        assert reconcile.advance(instance.pk) is None
    assert world.machine.calls == []


def test_a_step_whose_message_was_lost_is_found_by_the_tick(
    world: FakeWorld, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    waiting, serving, planned = world.request(), world.ready(), world.request()
    reconcile.advance(planned.pk)
    with django_capture_on_commit_callbacks() as sent:
        reconcile.send_late_steps()
    assert len(sent) == 1, (waiting, serving, planned)


def test_a_check_whose_message_was_lost_is_found_by_the_tick(
    world: FakeWorld, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    preflight = request_preflight(config_version=world.version(), engine=world.engine, actor="test")
    Preflight.objects.filter(pk=preflight.pk).update(created_at=preflight.created_at - timedelta(minutes=1))
    with django_capture_on_commit_callbacks() as sent:
        reconcile.send_late_steps()
    assert len(sent) == 1
    reconcile.fill_preflight(preflight.pk)
    with django_capture_on_commit_callbacks() as sent:
        reconcile.send_late_steps()
    assert sent == []


def test_what_is_forgotten_here_is_removed_from_its_host_too(world: FakeWorld) -> None:
    instance = world.request(log="odd\n", rc=1)
    world.step(instance)
    world.step(instance)
    launch_id = attempt_of(instance).launch_id
    reconcile.clear_away(world.host.pk, [launch_id, "never-there"])
    assert world.machine.answer("list", {})["launches"] == []


@pytest.mark.parametrize(("device", "nice"), [("cpu", 10), ("gpu", 0)])
def test_only_a_cpu_engine_gives_way_to_the_rest_of_its_host(world: FakeWorld, device: str, nice: int) -> None:
    type(world.engine).objects.filter(pk=world.engine.pk).update(device=device)
    instance = world.request(log="loading\n")
    Instance.objects.filter(pk=instance.pk).update(override_reason="There is no GPU here.")
    world.step(instance)
    assert world.starts()[-1]["nice"] == nice


FULL_CARD = (
    "ValueError: Free memory on device cuda:0 (1.53/22.05 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 19.84 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)


@pytest.mark.parametrize(("age", "is_told"), [(timedelta(minutes=1), True), (timedelta(hours=1), False)])
def test_a_full_card_is_explained_with_who_holds_it_when_a_probe_knows(
    world: FakeWorld, age: timedelta, is_told: bool
) -> None:
    instance = world.request(log=FULL_CARD, rc=1)
    world.step(instance)
    holder = {"pid": 4242, "user": "op", "command": ["python", "train.py"], "memory_bytes": 20 * 1024**3, "nonce": None}
    own = {**holder, "pid": 77, "nonce": attempt_of(instance).process["nonce"]}
    Accelerator.objects.create(
        host=instance.host, uuid="GPU-1", index=0, processes=[holder, own], seen_at=timezone.now() - age
    )
    world.step(instance)
    failure = attempt_of(instance).failure
    assert ("pid 4242 (op python train.py, 20.00 GiB, not ours)" in failure) is is_told
    assert "77" not in failure


def test_a_launch_of_a_person_gets_one_attempt(world: FakeWorld) -> None:
    instance = world.request(log="vllm: error: unrecognized arguments: --no-such-flag\n", rc=2)
    world.step(instance)
    world.step(instance)
    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome, attempt.exit_code) == (State.FAILED, "failed", 2)
    assert attempt.failure_code == "unknown_flag"
    assert instance.attempts.count() == 1


def test_a_deployed_instance_is_started_three_times_with_growing_pauses(world: FakeWorld) -> None:
    instance = world.request(log="RuntimeError: odd\n", rc=1, is_deployed=True)
    for number in (1, 2, 3):
        world.step(instance)
        assert instance.state == State.STARTING
        world.step(instance)
        assert (instance.attempts.count(), instance.failed_starts) == (number, number)
        world.step(instance)
        if number < 3:
            assert instance.state == State.PENDING, "the pause is not over"
            earlier = instance.state_since - timedelta(seconds=10 * 2 ** (number - 1))
            Instance.objects.filter(pk=instance.pk).update(state_since=earlier)
    assert instance.state == State.FAILED
    assert len(world.starts()) == 3


def test_a_launch_that_takes_too_long_is_killed_and_says_where_it_hung(world: FakeWorld, settings: Any) -> None:
    instance = world.request(log="INFO 11-29 10:00:00 [a.py:1] still loading\n")
    world.step(instance)
    settings.LAUNCH_TIMEOUT_S = 0.0

    world.step(instance)
    world.step(instance)

    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome, attempt.failure_code) == (State.FAILED, "failed", "launch_timeout")
    assert attempt.stop_report["is_gone"]


def test_a_silent_host_changes_nothing_and_is_marked(world: FakeWorld) -> None:
    instance = world.request(log="loading\n")
    world.step(instance)
    world.machine.go_offline()

    world.step(instance)
    assert (instance.state, instance.is_host_silent) == (State.STARTING, True)

    world.machine.is_online = True
    world.step(instance)
    assert (instance.state, instance.is_host_silent) == (State.STARTING, False)


def test_a_host_that_falls_silent_before_the_start_gets_it_later(world: FakeWorld) -> None:
    instance = world.request()
    world.machine.go_offline()
    assert world.step(instance) is not None
    assert instance.state == State.PENDING
    world.machine.is_online = True
    world.step(instance)
    assert instance.state == State.STARTING


def test_a_preflight_tells_checks_command_and_estimate_without_starting_anything(world: FakeWorld) -> None:
    preflight = request_preflight(config_version=world.version(), engine=world.engine, actor="test")

    reconcile.fill_preflight(preflight.pk)

    preflight.refresh_from_db()
    assert preflight.state == Preflight.State.FINISHED
    found = {check["code"]: check["outcome"] for check in preflight.checks}
    assert (found["flags"], found["model"], found["port"]) == ("pass", "pass", "pass")
    assert preflight.argv[:2] == ["/opt/vllm/bin/vllm", "serve"]
    assert preflight.predicted_kv_tokens
    assert world.starts() == []


def test_a_preflight_of_a_silent_host_says_that_nobody_could_look(world: FakeWorld) -> None:
    preflight = request_preflight(config_version=world.version(), engine=world.engine, actor="test")
    world.machine.go_offline()
    reconcile.fill_preflight(preflight.pk)
    preflight.refresh_from_db()
    assert (preflight.state, preflight.checks) == (Preflight.State.FAILED, [])
    assert "cannot be reached" in preflight.error


def test_relaunching_makes_a_new_attempt_at_the_same_place(world: FakeWorld) -> None:
    instance = world.request(log="RuntimeError: odd\n", rc=1)
    world.step(instance)
    world.step(instance)
    assert instance.state == State.FAILED
    world.behave(instance, Program(log=UP, serves=world.server.answer))

    relaunch(instance, actor="test")
    world.step(instance)
    world.step(instance)

    assert instance.state == State.READY
    assert [attempt.outcome for attempt in instance.attempts.order_by("number")] == ["failed", "running"]
