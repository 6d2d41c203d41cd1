"""Password tries: counted before the password is looked at, so that many at once gain nothing."""

import hashlib
import math
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts.domain import throttle
from controlplane.accounts.models import LoginTries
from controlplane.core.errors import Problem


class TooManyTries(Problem):
    """Somebody guesses. `extra["wait_s"]` says when the next try counts; the answer is the same for unknown names."""

    status = 429
    code = "too_many_tries"


def claim_try(*, username: str, address: str, now: datetime | None = None) -> None:
    """Count one try for this name from this address; raises TooManyTries while a wait is on.

    A right password afterwards is followed by `forget_tries`.
    """
    now = now or timezone.now()
    with transaction.atomic():
        for key, free in _keys(username, address).items():
            _claim(key, free=free, now=now)


def forget_tries(*, username: str, address: str) -> None:
    """The password was right: start counting anew here. The count of the name from everywhere only ages."""
    pair = next(iter(_keys(username, address)))
    LoginTries.objects.filter(key=pair).delete()
    total = list(_keys(username, address))[1]
    LoginTries.objects.filter(key=total, tries__gt=0).update(tries=F("tries") - 1)
    old = timezone.now() - timedelta(seconds=throttle.FORGET_AFTER_S)
    LoginTries.objects.filter(tried_at__lt=old, blocked_until__lt=old).delete()


def _keys(username: str, address: str) -> dict[str, int]:
    """Hashed counter → free tries: first of the name from this address, then of the name from everywhere."""
    name = username.strip().casefold()
    return {
        _hashed("pair", name, address): throttle.FREE_TRIES,
        _hashed("name", name): throttle.FREE_TRIES_FOR_NAME,
    }


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _claim(key: str, *, free: int, now: datetime) -> None:
    LoginTries.objects.bulk_create([LoginTries(key=key, tried_at=now, blocked_until=now)], ignore_conflicts=True)
    row = LoginTries.objects.select_for_update().get(key=key)
    if row.blocked_until > now:
        raise _too_many(math.ceil((row.blocked_until - now).total_seconds()))
    if (now - row.tried_at).total_seconds() > throttle.FORGET_AFTER_S:
        row.tries = 0
    row.tries += 1
    row.tried_at = now
    row.blocked_until = now + timedelta(seconds=throttle.wait_s(row.tries, free=free))
    row.save()


def _too_many(wait_s: int) -> TooManyTries:
    return TooManyTries(
        _("Too many wrong passwords. The next try counts in %(wait)d s.") % {"wait": wait_s},
        remedy=_("Wait, then type it slowly. An administrator can give you a new password."),
        extra={"wait_s": wait_s},
    )
