"""API tokens: made, revoked, recognised."""

import secrets
from datetime import datetime

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts.models import ApiToken, User
from controlplane.core import events, sealing
from controlplane.core.errors import Invalid

TOKEN_PREFIX = "vcp_"  # noqa: S105  # what a token starts with, so that scanners can find leaked ones
LAST_USED_EVERY_S = 60


def create_token(
    *, user: User, name: str, is_read_only: bool = False, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """A new API token and its text, which nobody can see again."""
    if not name.strip():
        raise Invalid(_("A token needs a name."), remedy=_("Name it after what will use it, for example “nightly CI”."))
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid(_("The token would have expired already."), remedy=_("Choose a day in the future, or none."))
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
            name=name.strip(),
            prefix=text[:12],
            digest=sealing.digest(text),
            is_read_only=is_read_only,
            expires_at=expires_at,
        )
        events.record("token.created", actor=user.username, subject=token, read_only=is_read_only)
    return token, text


def revoke_token(token: ApiToken, *, actor: str) -> bool:
    """End a token at once; False when it had ended already."""
    with transaction.atomic():
        won = ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()) == 1
        if won:
            events.record("token.revoked", actor=actor, subject=token)
    return won


def authenticate(text: str) -> ApiToken | None:
    """The live token behind `text`, or None. Notes its use at most once a minute."""
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user")
        .filter(digest=sealing.digest(text.strip()), revoked_at=None, user__is_active=True)
        .first()
    )
    if token is None or (token.expires_at and token.expires_at <= now):
        return None
    if token.last_used_at is None or (now - token.last_used_at).total_seconds() > LAST_USED_EVERY_S:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token
