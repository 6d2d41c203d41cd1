"""What an administrator does to the installation itself."""

from django.db import transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from controlplane.core import events
from controlplane.core.errors import Conflict
from controlplane.core.models import Secret
from controlplane.ops import queries


def delete_secret(secret: Secret, *, actor: str) -> None:
    """Forget a secret that nothing refers to. Raises Conflict naming the first that does."""
    remedy = _("Replace its text instead, or let them refer to another secret first.")
    with transaction.atomic():
        secret = Secret.objects.select_for_update().get(pk=secret.pk)
        uses = queries.uses_of(secret)
        if uses:
            more = len(uses) - 1
            used = (
                uses[0].label if not more else _("%(first)s and %(more)d more") % {"first": uses[0].label, "more": more}
            )
            raise Conflict(_("%(name)s is used by %(used)s.") % {"name": secret.reference, "used": used}, remedy=remedy)
        try:
            events.record("secret.deleted", actor=actor, subject=secret)
            secret.delete()
        except ProtectedError:  # something above us refers to it in a way that only the database knows
            raise Conflict(_("%(name)s is in use.") % {"name": secret.reference}, remedy=remedy) from None
