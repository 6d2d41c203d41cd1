"""What may be asked of an instance in which state, and that a state is only left the allowed way."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.core.errors import Conflict, Invalid
from controlplane.fleet import services
from controlplane.fleet.domain import lifecycle
from controlplane.fleet.models import LIVE_STATES, Instance, State
from controlplane.fleet.services.states import move
from controlplane.fleet.tests.fake_world import FakeWorld
from controlplane.inventory.models import Accelerator, Engine

PAIRS = list(itertools.product(State, State))


def in_state(world: FakeWorld, state: State) -> Instance:
    instance = world.request()
    Instance.objects.filter(pk=instance.pk).update(state=state)
    instance.refresh_from_db()
    return instance


def test_an_instance_moves_only_along_the_lifecycle_and_every_move_leaves_a_row(world: FakeWorld) -> None:
    for before, after in PAIRS:
        instance = in_state(world, before)
        if lifecycle.may(lifecycle.State(before), lifecycle.State(after)):
            assert move(instance, after, reason="why")
            row = instance.transitions.get()
            assert (row.before, row.after, row.reason, instance.state) == (before, after, "why", after)
        else:
            with pytest.raises(ValueError, match="never goes"):
                move(instance, after, reason="why")


def test_of_two_who_move_an_instance_one_wins(world: FakeWorld) -> None:
    instance = world.request()
    same = Instance.objects.get(pk=instance.pk)
    assert move(instance, State.STARTING, reason="first")
    assert not move(same, State.STOPPED, reason="second")
    assert Instance.objects.get(pk=instance.pk).state == State.STARTING
    assert instance.transitions.count() == 1


@pytest.mark.parametrize("state", State)
def test_every_service_knows_in_which_states_it_may(world: FakeWorld, state: State) -> None:
    is_live = state in LIVE_STATES
    attempts: dict[str, tuple[Callable[[Instance], object], bool]] = {
        "relaunch": (lambda one: services.relaunch(one, actor="test"), not is_live),
        "remove": (lambda one: services.remove_instance(one, actor="test"), not is_live),
        "smoke": (lambda one: services.request_smoke(one, actor="test"), state == State.READY),
    }
    for name, (ask, is_allowed) in attempts.items():
        instance = in_state(world, state)
        if is_allowed:
            ask(instance)
        else:
            with pytest.raises(Conflict) as refused:
                ask(instance)
            assert refused.value.remedy, name
    assert services.request_stop(in_state(world, state), actor="test") is (state != State.STOPPED)


def test_a_host_in_maintenance_takes_no_launch(world: FakeWorld) -> None:
    world.host.is_in_maintenance = True
    world.host.save()
    with pytest.raises(Conflict, match="in maintenance"):
        world.request()


def test_an_engine_that_is_gone_takes_no_launch(world: FakeWorld) -> None:
    world.engine.missing_since = world.host.created_at
    world.engine.save()
    with pytest.raises(Conflict, match="is gone"):
        world.request()


def test_a_relaunch_is_refused_while_another_instance_has_its_port(world: FakeWorld) -> None:
    first = world.request(port=8000)
    Instance.objects.filter(pk=first.pk).update(state=State.STOPPED)
    first.refresh_from_db()
    world.request(port=8000)
    with pytest.raises(Conflict, match="Port 8000"):
        services.relaunch(first, actor="test")


def test_without_a_wish_a_gpu_launch_gets_free_gpus_as_many_as_it_needs(world: FakeWorld) -> None:
    Engine.objects.filter(pk=world.engine.pk).update(device=Engine.Device.GPU)
    world.engine.refresh_from_db()
    for index in range(4):
        Accelerator.objects.create(host=world.host, uuid=f"GPU-{index}", index=index, name="H200")
    wide: dict[str, Any] = {"model": {"tensor_parallel_size": 2}}
    assert world.request(**wide).gpu_uuids == ["GPU-0", "GPU-1"]
    assert world.request(**wide).gpu_uuids == ["GPU-2", "GPU-3"]
    with pytest.raises(Invalid, match="no GPU GPU-9"):
        services.request_launch(config_version=world.version(), engine=world.engine, gpu_uuids=["GPU-9"], actor="test")


def test_names_count_up_and_are_never_given_twice(world: FakeWorld) -> None:
    version = world.version()
    names = [services.request_launch(config_version=version, engine=world.engine, actor="test").name for _ in range(3)]
    assert names == [f"{version.config.name}-v1-{number}" for number in (1, 2, 3)]
