"""Taking a deployment out of service."""

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Deployment, Instance
from controlplane.fleet.services import request_stop
from controlplane.release.models import UNDER_WAY, Promotion


def stop_serving(deployment: Deployment, *, why: str = "", actor: str) -> None:
    """Stop what serves `deployment` and leave it stopped; going back starts the same version again.

    Raises Conflict while a promotion is under way, or when it is out of service already.
    """
    with transaction.atomic():
        deployment = (
            Deployment.objects.select_for_update(of=("self",)).select_related("environment").get(pk=deployment.pk)
        )
        if deployment.promotions.filter(state__in=UNDER_WAY).exists():
            raise Conflict(
                _("A promotion of %(deployment)s is under way.") % {"deployment": deployment},
                code="promotion_under_way",
                remedy=_("Wait until it is over, or abort it."),
            )
        running = list(deployment.instances.filter(desired=Instance.Desired.RUNNING))
        if not deployment.is_enabled and not running:
            raise Conflict(_("%(deployment)s is out of service already.") % {"deployment": deployment})
        said = why.strip() or _("Taken out of service.")
        for instance in running:
            request_stop(instance, actor=actor, why=said)
        Deployment.objects.filter(pk=deployment.pk).update(is_enabled=False, updated_at=timezone.now())
        Promotion.objects.filter(deployment=deployment, state=Promotion.State.LIVE).update(
            state=Promotion.State.SUPERSEDED, state_since=timezone.now(), reason=said
        )
        events.record("deployment.stopped", actor=actor, subject=deployment, sentence=said)
