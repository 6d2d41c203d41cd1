"""Which deployment an instance serves."""

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.core import events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Deployment, Instance, State


def assign(instance: Instance, deployment: Deployment, *, actor: str) -> None:
    """Have a ready instance that serves nothing serve `deployment`: restarts and environment pages follow from it.

    Raises Conflict when it is not ready or about to stop, or serves something already; of two at once, one wins.
    """
    with transaction.atomic():
        won = Instance.objects.filter(
            pk=instance.pk, deployment=None, state=State.READY, desired=Instance.Desired.RUNNING
        ).update(deployment=deployment)
        if not won:
            raise Conflict(
                _("%(instance)s cannot be taken over: it is not ready, or serves something.") % {"instance": instance},
                remedy=_("Choose a ready one that serves nothing, or none: then one is launched."),
            )
        events.record("instance.assigned", actor=actor, subject=instance, deployment=str(deployment))
    instance.deployment = deployment


def unassign(instance: Instance, *, actor: str) -> None:
    """Have `instance` serve no deployment any more. It keeps running, but nothing starts it again by itself."""
    with transaction.atomic():
        if Instance.objects.filter(pk=instance.pk).exclude(deployment=None).update(deployment=None):
            events.record("instance.unassigned", actor=actor, subject=instance)
    instance.deployment = None
