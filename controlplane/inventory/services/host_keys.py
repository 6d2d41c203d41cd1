"""The host's own key: fetched by the worker, shown to a person, pinned; afterwards anything else is refused."""

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict, Invalid
from controlplane.drivers import links
from controlplane.drivers.endpoint import HostKey
from controlplane.drivers.errors import HostError
from controlplane.inventory.domain.addresses import fingerprint_of, is_same_fingerprint
from controlplane.inventory.models import Host
from controlplane.inventory.services.hosts import PROBE
from controlplane.inventory.services.reach import HostKeyNotPinned, endpoint_of, note_failure

UNEXPECTED = "host_key_unexpected"


class KeyNotOffered(Conflict):
    code = "host_key_not_offered"
    remedy = "Reload the page, compare the fingerprint it shows now, and decide again."


def fetch_host_key(host_id: int) -> None:
    """Ask an SSH host for its key and keep it as offered; pin it only when its fingerprint was told beforehand.

    Runs in the worker. Nothing is sent to the host and nobody logs in.
    """
    host = Host.objects.filter(pk=host_id, transport=Host.Transport.SSH).select_related("jump_host").first()
    if host is None:
        return
    try:
        jump = endpoint_of(host.jump_host) if host.jump_host else None
        offered = links.fetch_host_key(host.address, host.port, jump=jump)
    except HostError as error:
        note_failure(host, error, timezone.now())
        _look_is_over(host)
    except HostKeyNotPinned as error:  # of the jump host
        _look_is_over(host, error_code=error.code, error=error.sentence, error_remedy=error.remedy)
    else:
        _keep_offer(host, offered)


def pin_host_key(*, host: Host, fingerprint: str, actor: str) -> None:
    """“This is the right key”: trust the offered key from now on and probe the host. `fingerprint` is what the person
    saw; another key offered meanwhile is not pinned. Raises KeyNotOffered, Conflict when a key is pinned already."""
    with transaction.atomic():
        host = _locked(host)
        if host.host_key:
            raise Conflict(
                _("A key of %(name)s is pinned already.") % {"name": host.name},
                code="host_key_pinned",
                remedy=_("A changed key is replaced explicitly, after comparing the new fingerprint on the machine."),
            )
        _trust_offer(host, fingerprint)
        events.record("host.key_pinned", actor=actor, subject=host, sentence=host.host_key_fingerprint)


def pin_known_key(*, host: Host, public_key: str, actor: str) -> bool:
    """Trust a key that whoever asks brought from the machine itself (its `ssh_host_…_key.pub`); nothing is fetched.

    False when that key is pinned already. Raises Invalid when the text is no public key.
    """
    text = " ".join(public_key.split()[:2])
    try:
        fingerprint = fingerprint_of(text)
    except ValueError as error:
        remedy = _("Give the content of /etc/ssh/ssh_host_ed25519_key.pub.")
        raise Invalid(_("The host key cannot be used: %(why)s.") % {"why": error}, remedy=remedy) from None
    with transaction.atomic():
        host = _locked(host)
        if host.host_key == text:
            return False
        host.offered_host_key, host.offered_fingerprint = text, fingerprint
        _trust_offer(host, fingerprint)
        events.record("host.key_pinned", actor=actor, subject=host, sentence=fingerprint)
    return True


def replace_host_key(*, host: Host, fingerprint: str, actor: str) -> None:
    """Trust the key a host offers now in place of the pinned one, after a reinstallation say. Raises KeyNotOffered."""
    with transaction.atomic():
        host = _locked(host)
        before = host.host_key_fingerprint
        _trust_offer(host, fingerprint)
        events.record("host.key_replaced", actor=actor, subject=host, sentence=host.host_key_fingerprint, before=before)


def _keep_offer(host: Host, offered: HostKey) -> None:
    with transaction.atomic():
        host = _locked(host)
        host.probe_requested_at = None
        host.offered_host_key, host.offered_fingerprint = offered.text, offered.fingerprint
        if host.host_key == offered.text:
            host.offered_host_key = host.offered_fingerprint = ""
            _save_key(host)
        elif host.host_key:
            _save_key(host)
            events.record("host.key_changed", actor=events.SYSTEM, subject=host, sentence=offered.fingerprint)
        elif host.expected_fingerprint and is_same_fingerprint(host.expected_fingerprint, offered.fingerprint):
            _trust_offer(host, offered.fingerprint)
            events.record("host.key_pinned", actor=events.SYSTEM, subject=host, sentence=offered.fingerprint)
        elif host.expected_fingerprint:
            _refuse_unexpected(host)
        else:
            host.error_code = host.error = host.error_remedy = ""
            if host.state != Host.State.NEW:
                host.state, host.state_since = Host.State.NEW, timezone.now()
            _save_key(host)
            events.record("host.key_offered", actor=events.SYSTEM, subject=host, sentence=offered.fingerprint)


def _refuse_unexpected(host: Host) -> None:
    """It shows another key than the one we were told to expect: that is a refusal, and a person may still decide."""
    host.state, host.state_since = Host.State.REFUSED, timezone.now()
    host.error_code = UNEXPECTED
    host.error = _("%(name)s shows host key %(offered)s, but %(expected)s was expected.") % {
        "name": host.name,
        "offered": host.offered_fingerprint,
        "expected": host.expected_fingerprint,
    }
    host.error_remedy = _("Compare with the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
    _save_key(host)
    events.record("host.refused", actor=events.SYSTEM, subject=host, sentence=host.error)


def _trust_offer(host: Host, fingerprint: str) -> None:
    if not host.offered_host_key or not is_same_fingerprint(host.offered_fingerprint, fingerprint.strip()):
        raise KeyNotOffered(
            _("%(name)s does not offer the key %(fingerprint)s.") % {"name": host.name, "fingerprint": fingerprint}
        )
    host.host_key, host.host_key_fingerprint = host.offered_host_key, host.offered_fingerprint
    host.offered_host_key = host.offered_fingerprint = host.expected_fingerprint = ""
    host.error_code = host.error = host.error_remedy = ""
    host.probe_requested_at = timezone.now()
    _save_key(host)
    dispatch.after_commit(PROBE, host_id=host.pk)


def _save_key(host: Host) -> None:
    host.save(
        update_fields=[
            *("host_key", "host_key_fingerprint", "offered_host_key", "offered_fingerprint", "expected_fingerprint"),
            *("state", "state_since", "error_code", "error", "error_remedy", "probe_requested_at"),
        ]
    )


def _look_is_over(host: Host, **changes: Any) -> None:
    Host.every.filter(pk=host.pk).update(probe_requested_at=None, **changes)


def _locked(host: Host) -> Host:
    return Host.objects.select_for_update(of=("self",)).get(pk=host.pk)
