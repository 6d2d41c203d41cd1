"""Rules of runs that neither page nor API may break."""

from itertools import product
from typing import Any

import pytest
from django.core.exceptions import FieldDoesNotExist

from controlplane.bench import services, tasks
from controlplane.bench.models import Run
from controlplane.bench.services.states import ALLOWED, move
from controlplane.bench.tests.fake_bench import BenchWorld
from controlplane.core.errors import Conflict

STATES = list(Run.State)


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_a_run_goes_only_where_its_lifecycle_says(world: BenchWorld, before: Run.State, after: Run.State) -> None:
    run = world.request()
    Run.objects.filter(pk=run.pk).update(state=before)
    run.refresh_from_db()
    if after in ALLOWED.get(before, ()):
        assert move(run, after)
        assert run.state == after
    else:
        with pytest.raises(ValueError, match="never goes"):
            move(run, after)


def test_who_comes_second_loses_and_writes_nothing(world: BenchWorld) -> None:
    run = world.request()
    other = Run.objects.get(pk=run.pk)
    assert move(run, Run.State.CANCELLED)
    assert not move(other, Run.State.RUNNING)
    run.refresh_from_db()
    assert run.state == "cancelled"


def test_evidence_of_a_promotion_is_kept(world: BenchWorld) -> None:
    run = world.finished()
    environment = world.fleet.deployment(world.instance.config_version).environment
    _promotion_resting_on(run, world, environment)
    with pytest.raises(Conflict, match="evidence of a promotion"):
        services.remove_run(run, actor="ann")
    assert Run.objects.filter(pk=run.pk).exists()


def test_measuring_again_asks_for_all_or_none(world: BenchWorld) -> None:
    one, gone = world.finished(), world.finished()
    Run.objects.filter(pk=gone.pk).update(instance=None)
    gone.refresh_from_db()
    with pytest.raises(Conflict, match="is gone"):
        services.measure_again([one, gone], actor="ann")
    assert not Run.objects.filter(state="queued").exists()


def test_the_tasks_tolerate_what_is_gone_and_what_they_do_not_know(db: None) -> None:
    tasks.advance(run_id=0, later_version="unknown")
    tasks.follow(later_version="unknown")


def _promotion_resting_on(run: Run, world: BenchWorld, environment: Any) -> None:
    """A row of the app above; what it needs beyond its own columns is that app's affair."""
    promotion: Any = Run._meta.get_field("promotions").related_model
    values = {
        "environment": environment,
        "deployment": environment.deployments.get(),
        "config_version": world.instance.config_version,
        "engine": world.instance.engine,
        "created_by": "test",
    }
    for name in list(values):
        try:
            promotion._meta.get_field(name)
        except FieldDoesNotExist:
            del values[name]
    promotion.objects.create(**values).runs.add(run)
