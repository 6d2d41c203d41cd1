"""Taking an ended instance off the lists."""

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Instance


def remove_instance(instance: Instance, *, actor: str) -> None:
    """Forget an instance that ended, with attempts and logs, here and on its host; runs measured on it stay.

    Raises Conflict while it lives.
    """
    with transaction.atomic():
        fresh = Instance.objects.select_for_update().get(pk=instance.pk)
        if fresh.is_live:
            raise Conflict(
                _("%(instance)s is still %(state)s.") % {"instance": fresh, "state": fresh.get_state_display().lower()},
                remedy=_("Stop it first."),
            )
        events.record("instance.removed", actor=actor, subject=fresh)
        launch_ids = list(fresh.attempts.values_list("launch_id", flat=True))
        dispatch.after_commit("fleet.clear_away", host_id=fresh.host_id, launch_ids=launch_ids)
        fresh.delete()
