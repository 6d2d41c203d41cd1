"""Asking for an engine to be stopped."""

from django.db import transaction

from controlplane.core import dispatch, events
from controlplane.fleet.models import LIVE_STATES, Instance, State

STOPPABLE = (*LIVE_STATES, State.FAILED)
"""A failed instance may have left something behind; stopping it proves that nothing is."""


def request_stop(instance: Instance, *, actor: str, why: str = "") -> bool:
    """Want `instance` stopped; the worker drains it and proves that nothing is left. False when that was wanted already
    or it is stopped."""
    with transaction.atomic():
        won = (
            Instance.objects.filter(pk=instance.pk, state__in=STOPPABLE)
            .exclude(desired=Instance.Desired.STOPPED)
            .update(desired=Instance.Desired.STOPPED, step_due_at=None)
            == 1
        )
        if won:
            instance.desired, instance.step_due_at = Instance.Desired.STOPPED, None
            events.record("instance.stop_requested", actor=actor, subject=instance, sentence=why)
        dispatch.after_commit("fleet.advance", instance_id=instance.pk)
    return won
