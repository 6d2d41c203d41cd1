"""Which deployment an instance serves."""

from django.db import transaction

from controlplane.core import events
from controlplane.fleet.models import Deployment, Instance


def assign(instance: Instance, deployment: Deployment | None, *, actor: str) -> None:
    """Make `instance` serve `deployment`, or nobody's: restarts and environment pages follow from it."""
    with transaction.atomic():
        Instance.objects.filter(pk=instance.pk).update(deployment=deployment)
        events.record("instance.assigned", actor=actor, subject=instance, deployment=str(deployment or ""))
    instance.deployment = deployment
