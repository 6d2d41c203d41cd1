"""The way to a host, and what every attempt tells us about it.

Whoever talks to a host does it through `call_host`: an answer and a failure are both news about the host.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import dispatch, events, secrets_store
from controlplane.core.errors import Conflict
from controlplane.drivers import links
from controlplane.drivers.endpoint import DEFAULT_ROOT, Endpoint
from controlplane.drivers.errors import (
    AuthenticationRefused,
    HostError,
    HostKeyChanged,
    HostRefused,
    KeyUnusable,
    StillOpening,
)
from controlplane.inventory.domain import reachability
from controlplane.inventory.domain.reachability import Standing
from controlplane.inventory.models import Host

logger = logging.getLogger(__name__)

REFUSALS = (HostKeyChanged, AuthenticationRefused, KeyUnusable)
"""Errors that waiting does not mend: a person must look."""
SEEN_EVERY = timedelta(seconds=5)
"""How exact `last_seen_at` is: a host that is asked every second does not need a write every second."""
EVENT_OF_STATE = {
    Host.State.REACHABLE: "host.reached",
    Host.State.UNREACHABLE: "host.lost",
    Host.State.REFUSED: "host.refused",
}


class HostKeyNotPinned(Conflict):
    code = "host_key_not_pinned"
    remedy = "Open the host's page, compare the fingerprint with the one on the machine, and pin it."


def endpoint_of(host: Host) -> Endpoint:
    """What the drivers need to reach `host`; the private key is revealed here, in memory only.

    Raises HostKeyNotPinned for an SSH host (or one on the way to it) whose key nobody confirmed.
    """
    root = host.root or DEFAULT_ROOT
    if host.is_local:
        return Endpoint(kind="local", root=root)
    if not host.host_key:
        raise HostKeyNotPinned(_("Nobody has confirmed the host key of %(name)s yet.") % {"name": host.name})
    return Endpoint(
        kind="ssh",
        address=host.address,
        port=host.port,
        username=host.username,
        private_key=secrets_store.reveal(host.ssh_key.reference) if host.ssh_key else "",
        host_key=host.host_key,
        jump=endpoint_of(host.jump_host) if host.jump_host else None,
        root=root,
    )


def call_host(
    host: Host,
    verb: str,
    params: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = links.DEFAULT_TIMEOUT_S,
    wait_s: float | None = None,
) -> Any:
    """Ask the host program for one verb and return its result (JSON values), noting what that says about the host.

    Raises `drivers.errors.HostError` (a refusal of the host program itself is `HostRefused`: the host is there) and
    HostKeyNotPinned; StillOpening, after `wait_s` for a connection, is no news. Never call it inside a transaction.
    """
    endpoint = endpoint_of(host)
    try:
        result = links.call(endpoint, verb, dict(params or {}), timeout_s=timeout_s, wait_s=wait_s)
    except HostRefused:
        note_answer(host, timezone.now())
        raise
    except StillOpening:
        raise
    except HostError as error:
        note_failure(host, error, timezone.now())
        raise
    note_answer(host, timezone.now())
    return result


def try_again(host: Host) -> None:
    """A person asks: the next call waits for the host, however long it has been silent. Raises HostKeyNotPinned."""
    links.try_again(endpoint_of(host))


def note_answer(host: Host, now: datetime) -> None:
    """The host answered. Writes only what is news."""
    known = Host.every.values("state", "failures_in_a_row", "last_seen_at", "error_code").get(pk=host.pk)
    if known["state"] != Host.State.REACHABLE or known["failures_in_a_row"] or known["error_code"]:
        _settle(host, now)
    elif known["last_seen_at"] is None or now - known["last_seen_at"] >= SEEN_EVERY:
        Host.every.filter(pk=host.pk).update(last_seen_at=now)


def note_failure(host: Host, error: HostError, now: datetime) -> None:
    """The host could not be asked. How much that means is decided in `domain.reachability`."""
    _settle(host, now, error)
    if isinstance(error, HostKeyChanged) and not host.has_changed_key:
        dispatch.after_commit("inventory.fetch_host_key", host_id=host.pk)  # to show a person the key it offers now


def _settle(host: Host, now: datetime, error: HostError | None = None) -> None:
    """Bring state, counter and error up to date in one transaction; a change of state is an event."""
    with transaction.atomic():
        fresh = Host.every.select_for_update(of=("self",)).get(pk=host.pk)
        before = Standing(fresh.state, fresh.failures_in_a_row, fresh.last_seen_at)
        if error is None:
            after = reachability.after_answer(before, now)
        else:
            after = reachability.after_failure(before, now, is_refusal=isinstance(error, REFUSALS))
        changes: dict[str, Any] = {
            "failures_in_a_row": after.failures_in_a_row,
            "last_seen_at": after.last_seen_at,
            "error_code": error.code if error else "",
            "error": error.message if error else "",
            "error_remedy": error.remedy if error else "",
        }
        host.host_key, host.offered_host_key = fresh.host_key, fresh.offered_host_key
        if error is None and fresh.host_key:  # the pinned key was shown again: what it offered meanwhile is past
            changes |= {"offered_host_key": "", "offered_fingerprint": ""}
        if after.state != before.state:
            changes |= {"state": after.state, "state_since": now}
        Host.every.filter(pk=host.pk).update(**changes)
        for name, value in changes.items():  # the caller's copy tells the same
            setattr(host, name, value)
        if after.state != before.state:
            sentence = error.message if error else ""
            events.record(
                EVENT_OF_STATE[Host.State(after.state)],
                actor=events.SYSTEM,
                subject=fresh,
                sentence=sentence,
                before=before.state,
            )
    if error:
        logger.warning("%s: %s (%s, %d in a row)", host.name, error.message, error.code, after.failures_in_a_row)
