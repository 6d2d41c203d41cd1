"""What happens to people and tokens."""

import secrets
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from controlplane.accounts.models import ApiToken, Role, User
from controlplane.core import events, sealing
from controlplane.core.errors import Invalid

TOKEN_PREFIX = "vcp_"  # noqa: S105  # what a token starts with, so that scanners can find leaked ones
LAST_USED_EVERY_S = 60


def create_first_admin() -> str | None:
    """Make the user `admin` when there is nobody yet; returns the password to show once, or None."""
    with transaction.atomic():
        if User.objects.exists():
            return None
        password = secrets.token_urlsafe(12)
        user = User.objects.create_user("admin", password=password, role=Role.ADMIN, is_staff=True, is_superuser=True)
        events.record("user.created", actor=events.SYSTEM, subject=user, role=Role.ADMIN)
    return password


def create_token(
    *, user: User, name: str, is_read_only: bool = False, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """A new API token and its text, which nobody can see again."""
    if not name.strip():
        raise Invalid("A token needs a name.", remedy="Name it after what will use it, for example “nightly CI”.")
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
