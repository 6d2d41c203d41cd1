"""One step for one run, and how soon the next.

The steps of a run follow each other as messages, each sent when the one before is done. `step_due_at` says when the
next is planned: a message that comes before that belongs to a second chain and ends it. When the chain breaks (a lost
message, a killed worker), the tick finds the overdue step.
"""

import logging
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from controlplane.bench.domain import following
from controlplane.bench.domain.following import Target
from controlplane.bench.models import Run
from controlplane.bench.reconcile.claiming import claim
from controlplane.bench.reconcile.ending import fail
from controlplane.bench.reconcile.pursuing import RETRY_S, pursue
from controlplane.core import dispatch, leases
from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostError
from controlplane.fleet.models import Instance

logger = logging.getLogger(__name__)

LEASE_S = 120.0
"""Longer than the longest step: bring two files and start a process, or stop one that does not want to."""
EARLY = timedelta(seconds=0.05)
STEP_IS_LATE = timedelta(seconds=3)


def advance(run_id: int) -> float | None:
    """Take the next step of a run; returns in how many seconds it wants another, None when the tick will do."""
    with leases.held(f"run-{run_id}", for_s=LEASE_S) as mine:
        if not mine:
            return None  # somebody is at it; what they leave undone the tick finds
        run = whole().filter(pk=run_id).first()
        if run is None or run.is_over:
            return None
        if run.step_due_at and run.step_due_at > timezone.now() + EARLY:
            return None  # another message is on its way: two chains of messages become one
        wait_s = _step(run)
        plan_next(run, wait_s)
        return wait_s


def plan_next(run: Run, wait_s: float | None) -> None:
    """Write down when the next step is due, unless a cancellation came since `run` was read: it wants one at once."""
    due_at = None if wait_s is None else timezone.now() + timedelta(seconds=wait_s)
    Run.objects.filter(pk=run.pk, is_cancel_requested=run.is_cancel_requested).update(step_due_at=due_at)


def send_late_steps() -> None:
    """Steps that are wanted and not coming: their message was lost, the worker that had them died, or they wait for
    an instance. Of those that wait for the same instance only the first can go."""
    late = Q(step_due_at=None) | Q(step_due_at__lt=timezone.now() - STEP_IS_LATE)
    running = Run.objects.filter(late, state=Run.State.RUNNING).values_list("pk", flat=True)
    first = Run.objects.filter(state=Run.State.QUEUED).order_by("instance_id", "pk").distinct("instance_id")
    for run_id in [*running, *first.values_list("pk", flat=True)]:
        dispatch.after_commit("bench.advance", run_id=run_id)


def whole() -> QuerySet[Run]:
    """Runs with all that a step reads."""
    return Run.objects.select_related(
        "workload",
        "attempt",
        "host__ssh_key",
        "host__jump_host",
        "instance__engine",
        "instance__host__ssh_key",
        "instance__host__jump_host",
        "instance__config_version__config",
    )


def _step(run: Run) -> float | None:
    if run.state == Run.State.QUEUED:
        step = following.queued_step(_target(run.instance))
        if step.act is following.Act.FAIL:
            fail(run, step.reason)
        if step.act is not following.Act.START or not claim(run):
            return None
    try:
        return pursue(run)
    except HostError as error:  # in the middle of a step: the next one looks again
        logger.warning("run %s: %s", run.pk, error.message)
    except Problem as problem:  # for example a host key that nobody has pinned yet
        logger.warning("run %s: %s", run.pk, problem.sentence)
    return None if run.is_over else RETRY_S


def _target(instance: Instance | None) -> Target:
    if instance is None:
        return Target(state=None)
    is_wanted = instance.desired == Instance.Desired.RUNNING
    is_busy = Run.objects.filter(instance=instance, state=Run.State.RUNNING).exists()
    return Target(state=instance.state, is_wanted=is_wanted, is_busy=is_busy)
