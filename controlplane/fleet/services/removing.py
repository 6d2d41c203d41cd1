"""Taking an ended instance off the lists."""

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.core import events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Instance


def remove_instance(instance: Instance, *, actor: str) -> None:
    """Forget an instance that ended, with attempts and logs; runs measured on it stay. Conflict while it lives."""
    with transaction.atomic():
        fresh = Instance.objects.select_for_update().get(pk=instance.pk)
        if fresh.is_live:
            raise Conflict(
                _("%(instance)s is still %(state)s.") % {"instance": fresh, "state": fresh.get_state_display().lower()},
                remedy=_("Stop it first."),
            )
        events.record("instance.removed", actor=actor, subject=fresh)
        fresh.delete()
