"""The one way a run changes its state."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.bench.models import Run
from controlplane.core import dispatch, events

ALLOWED: dict[str, frozenset[str]] = {
    Run.State.QUEUED: frozenset({Run.State.RUNNING, Run.State.FAILED, Run.State.CANCELLED}),
    Run.State.RUNNING: frozenset({Run.State.FINISHED, Run.State.INVALID, Run.State.FAILED, Run.State.CANCELLED}),
}
_EVENTS = {
    Run.State.RUNNING: "run.started",
    Run.State.FINISHED: "run.finished",
    Run.State.INVALID: "run.invalidated",
    Run.State.FAILED: "run.failed",
    Run.State.CANCELLED: "run.cancelled",
}


def move(run: Run, after: Run.State, *, actor: str = events.SYSTEM, sentence: str = "", **fields: Any) -> bool:
    """Take `run` from the state it was read in to `after`, together with `fields`; True when we won.

    False means that somebody else moved it first: nothing was written. A step that is not allowed is a programming
    error. Whoever waits for the same instance is called when the run is over.
    """
    before = Run.State(run.state)
    if after not in ALLOWED.get(before, frozenset()):
        raise ValueError(f"a run never goes from {before} to {after}")
    now = timezone.now()
    values = {"state": after, "state_since": now, **fields}
    if after != Run.State.RUNNING:
        values |= {"ended_at": now, "step_due_at": None}
    with transaction.atomic():
        won = Run.objects.filter(pk=run.pk, state=before).update(**values) == 1
        if won:
            events.record(_EVENTS[after], actor=actor, subject=run, sentence=sentence, before=before)
            if after != Run.State.RUNNING:
                _call_next(run)
    if won:
        for name, value in values.items():
            setattr(run, name, value)
    return won


def _call_next(run: Run) -> None:
    following = Run.objects.filter(instance=run.instance_id, state=Run.State.QUEUED).exclude(pk=run.pk)
    if run.instance_id and (run_id := following.order_by("pk").values_list("pk", flat=True).first()):
        dispatch.after_commit("bench.advance", run_id=run_id)
