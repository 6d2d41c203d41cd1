"""Leases: one worker acts on a thing at a time, and a dead worker's turn ends by itself."""

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from controlplane.core.models import Lease


@contextmanager
def held(name: str, *, for_s: float) -> Iterator[bool]:
    """Try to hold the lease `name` for at most `for_s` seconds; yields whether we hold it, and gives it back after.

    with leases.held(f"instance-{pk}", for_s=60) as mine:
        if not mine:
            return
    """
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    mine = take(name, holder=holder, for_s=for_s)
    try:
        yield mine
    finally:
        if mine:
            Lease.objects.filter(name=name, holder=holder).delete()


def take(name: str, *, holder: str, for_s: float) -> bool:
    """Take or extend a lease in one statement; False when somebody else's is still running."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO core_lease (name, holder, expires_at) VALUES (%(name)s, %(holder)s, %(expires)s)
            ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, expires_at = EXCLUDED.expires_at
            WHERE core_lease.expires_at < %(now)s OR core_lease.holder = EXCLUDED.holder
            """,
            {"name": name, "holder": holder, "expires": now + timedelta(seconds=for_s), "now": now},
        )
        return bool(cursor.rowcount == 1)


def running(prefix: str) -> set[str]:
    """Names of all leases that begin so and have not ended."""
    return set(
        Lease.objects.filter(name__startswith=prefix, expires_at__gt=timezone.now()).values_list("name", flat=True)
    )
