"""The one way an instance changes its state."""

from django.db import transaction
from django.utils import timezone

from controlplane.core import events
from controlplane.fleet.domain import lifecycle
from controlplane.fleet.models import Attempt, Instance, State, Transition


def move(
    instance: Instance,
    after: State,
    *,
    reason: str,
    actor: str = events.SYSTEM,
    attempt: Attempt | None = None,
    **fields: object,
) -> bool:
    """Take `instance` from the state it was read in to `after`, together with `fields`; True when we won.

    False means that somebody else moved it first: nothing was written, and the caller reads it again. A step that the
    lifecycle does not know is a programming error.
    """
    before = State(instance.state)
    if not lifecycle.may(lifecycle.State(before.value), lifecycle.State(after.value)):
        raise ValueError(f"an instance never goes from {before} to {after}")
    now = timezone.now()
    values = {"state": after, "state_since": now, "reason": reason, **fields}
    with transaction.atomic():
        won = Instance.objects.filter(pk=instance.pk, state=before).update(**values) == 1
        if won:
            Transition.objects.create(
                instance=instance, attempt=attempt, before=before, after=after, reason=reason, actor=actor
            )
            events.record(f"instance.{_VERBS[after]}", actor=actor, subject=instance, sentence=reason, before=before)
    if won:
        for name, value in values.items():
            setattr(instance, name, value)
    return won


_VERBS = {
    State.PENDING: "requested",
    State.STARTING: "started",
    State.READY: "readied",
    State.DRAINING: "drained",
    State.STOPPED: "stopped",
    State.FAILED: "failed",
}
