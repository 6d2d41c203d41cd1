"""Adding, changing and removing hosts; what an operator wants of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict, NotFound
from controlplane.core.models import Secret
from controlplane.inventory.domain import addresses
from controlplane.inventory.domain.addresses import Fault
from controlplane.inventory.models import Host
from controlplane.inventory.queries import enabled_deployments_on, live_instances_on
from controlplane.inventory.services.ssh_keys import describe_key, invalid, store_key

PROBE, FETCH_HOST_KEY = "inventory.probe", "inventory.fetch_host_key"
SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class SshAccess:
    """How to reach a host over SSH. The key is a stored secret by name, or a new one pasted here.

    `expected_fingerprint` (`SHA256:…`), when given, pins the host's key by itself if it matches and refuses it if not.
    """

    address: str
    username: str
    port: int = 22
    key_name: str = ""
    new_key: str = field(default="", repr=False)
    jump_host: str = ""
    expected_fingerprint: str = ""


def add_host(
    *,
    name: str,
    ssh: SshAccess | None,
    actor: str,
    engine_paths: Sequence[str] = (),
    root: str = "",
    note: str = "",
) -> Host:
    """Register a host; `ssh=None` means this machine. Its key is fetched, and later its probe made, by the worker.

    Raises Invalid with every fault, Conflict when the name is taken.
    """
    faults = addresses.faults_of_name(name) + (_faults_of(ssh) if ssh else [])
    if faults:
        raise invalid(faults)
    with transaction.atomic():
        fields = _ssh_fields(ssh, host_name=name, actor=actor) if ssh else {"transport": Host.Transport.LOCAL}
        host = Host(name=name, engine_paths=_clean(engine_paths), root=root.strip(), note=note.strip(), **fields)
        host.state_since = host.probe_requested_at = timezone.now()
        _insert(host)
        events.record("host.added", actor=actor, subject=host, sentence=host.where, transport=host.transport)
        _start_looking(host)
    return host


def update_host(
    *,
    host: Host,
    actor: str,
    ssh: SshAccess | None = None,
    engine_paths: Sequence[str] | None = None,
    root: str | None = None,
    note: str | None = None,
) -> Host:
    """Change how a host is reached or what we note about it, and look at it again. A pinned key stays pinned: another
    address that shows another key is refused. With `ssh` a host changes to that transport (`ensure_localhost` does)."""
    if ssh and (faults := _faults_of(ssh, may_keep_key=host.ssh_key_id is not None)):
        raise invalid(faults)
    with transaction.atomic():
        host = Host.objects.select_for_update(of=("self",)).get(pk=host.pk)
        changes: dict[str, Any] = {}
        if ssh:
            changes |= _ssh_fields(ssh, host_name=host.name, actor=actor, kept_key=host.ssh_key)
            _refuse_circle(host, changes["jump_host"])
        if engine_paths is not None:
            changes["engine_paths"] = _clean(engine_paths)
        if root is not None:
            changes["root"] = root.strip()
        if note is not None:
            changes["note"] = note.strip()
        changed = [name for name, value in changes.items() if getattr(host, name) != value]
        for name in changed:
            setattr(host, name, changes[name])
        if {"address", "port"} & set(changed):  # what the former address offered says nothing about this one
            host.offered_host_key = host.offered_fingerprint = ""
            changed += ["offered_host_key", "offered_fingerprint"]
        if changed:
            host.probe_requested_at = timezone.now()
            host.save(update_fields=[*changed, "probe_requested_at"])
            fields = sorted(changed)
            events.record("host.changed", actor=actor, subject=host, sentence=", ".join(fields), fields=fields)
            _start_looking(host)
    return host


def make_local(*, host: Host, actor: str) -> bool:
    """Reach a host directly from now on, because we run on it. False when it was so already."""
    local = {"transport": Host.Transport.LOCAL, "ssh_key": None, "jump_host": None}
    keys = {"host_key": "", "host_key_fingerprint": "", "offered_host_key": "", "offered_fingerprint": ""}
    with transaction.atomic():
        remote = Host.objects.filter(pk=host.pk, transport=Host.Transport.SSH)
        won = remote.update(**local, **keys, probe_requested_at=timezone.now()) == 1
        if won:
            host.refresh_from_db()
            events.record("host.changed", actor=actor, subject=host, sentence="transport", fields=["transport"])
            _start_looking(host)
    return won


def change_host(*, host: Host, actor: str, is_in_maintenance: bool | None = None, **changes: Any) -> None:
    """Several wishes at once, as the API and the edit page send them; see `update_host` and `set_maintenance`."""
    with transaction.atomic():
        if is_in_maintenance is not None:
            set_maintenance(host=host, is_on=is_in_maintenance, actor=actor)
        update_host(host=host, actor=actor, **changes)


def remove_host(*, host: Host, actor: str) -> None:
    """Forget a host. Refused while something runs there or should; what ran there before keeps its host in the history.

    Nothing on the machine itself is touched.
    """
    with transaction.atomic():
        host = Host.objects.select_for_update(of=("self",)).get(pk=host.pk)
        _refuse_in_use(host)
        events.record("host.removed", actor=actor, subject=host, sentence=host.where)
        if host.instances.exists() or host.runs.exists() or host.deployments.exists():
            _retire(host)
        else:
            host.delete()


def set_maintenance(*, host: Host, is_on: bool, actor: str) -> bool:
    """Say that nothing new is to be placed on a host (or that it may be again). What runs there runs on. The wish is
    stored, so no restart loses it. False when it was so already."""
    with transaction.atomic():
        won = Host.objects.filter(pk=host.pk, is_in_maintenance=not is_on).update(is_in_maintenance=is_on) == 1
        if won:
            name = "host.maintenance_started" if is_on else "host.maintenance_ended"
            events.record(name, actor=actor, subject=host)
    return won


def rescan(*, host: Host, actor: str) -> None:
    """Look at a host again, now: new drivers, new GPUs, new vLLM installations."""
    with transaction.atomic():
        Host.objects.filter(pk=host.pk).update(probe_requested_at=timezone.now())
        events.record("host.probe_requested", actor=actor, subject=host)
        _start_looking(host)


def host_named(name: str) -> Host:
    """The host `name`; NotFound says so."""
    host = Host.objects.filter(name=name).first()
    if host is None:
        raise NotFound(_("There is no host %(name)s.") % {"name": name}, remedy=_("Look its name up under Hosts."))
    return host


def _start_looking(host: Host) -> None:
    """A host whose key nobody pinned cannot be probed yet: first its key is fetched."""
    needs_key = not host.is_local and not host.host_key
    dispatch.after_commit(FETCH_HOST_KEY if needs_key else PROBE, host_id=host.pk)


def _faults_of(ssh: SshAccess, *, may_keep_key: bool = False) -> list[Fault]:
    faults = addresses.faults_of_ssh(address=ssh.address.strip(), port=ssh.port, username=ssh.username.strip())
    if ssh.expected_fingerprint:
        faults += addresses.faults_of_fingerprint(ssh.expected_fingerprint.strip())
    if ssh.key_name and ssh.new_key:
        faults.append(Fault("new_key", _("Both a stored key and a new one are given."), _("Choose one of the two.")))
    elif ssh.new_key:
        faults += addresses.faults_of_private_key(ssh.new_key)
    elif ssh.key_name:
        if not Secret.objects.filter(name=ssh.key_name, kind=Secret.Kind.SSH_KEY).exists():
            message = _("There is no SSH key %(name)s among the secrets.") % {"name": ssh.key_name}
            faults.append(Fault("key_name", message, _("Choose another, or paste a new key.")))
    elif not may_keep_key:
        faults.append(Fault("key_name", _("No SSH key is given."), _("Choose a stored key or paste a new one.")))
    if ssh.jump_host and not Host.objects.filter(name=ssh.jump_host, transport=Host.Transport.SSH).exists():
        message = _("There is no SSH host %(name)s to go through.") % {"name": ssh.jump_host}
        faults.append(Fault("jump_host", message, _("Add the jump host as a host first.")))
    return faults


def _ssh_fields(ssh: SshAccess, *, host_name: str, actor: str, kept_key: Secret | None = None) -> dict[str, Any]:
    """The columns of an SSH host; a pasted key becomes a secret on the way."""
    if ssh.new_key:
        describe_key(ssh.new_key)
        key: Secret | None = store_key(name=f"ssh-{host_name}", text=ssh.new_key, actor=actor)
    else:
        key = Secret.objects.get(name=ssh.key_name) if ssh.key_name else kept_key
    return {
        "transport": Host.Transport.SSH,
        "address": ssh.address.strip(),
        "port": ssh.port,
        "username": ssh.username.strip(),
        "ssh_key": key,
        "jump_host": Host.objects.get(name=ssh.jump_host) if ssh.jump_host else None,
        "expected_fingerprint": ssh.expected_fingerprint.strip(),
    }


def _insert(host: Host) -> None:
    try:
        with transaction.atomic():
            host.save(force_insert=True)
    except IntegrityError:
        raise Conflict(
            _("There is a host %(name)s already.") % {"name": host.name},
            remedy=_("Choose another name, or change that host."),
            extra={"problems": [{"field": "name", "message": _("This name is taken."), "remedy": ""}]},
        ) from None


def _refuse_circle(host: Host, jump_host: Host | None) -> None:
    step = jump_host
    while step is not None:
        if step.pk == host.pk:
            message = _("%(name)s would be reached through itself.") % {"name": host.name}
            raise invalid([Fault("jump_host", message, _("Choose a jump host that is reached another way."))])
        step = step.jump_host


def _refuse_in_use(host: Host) -> None:
    live = [instance.name for instance in live_instances_on(host)]
    wanted = [str(deployment) for deployment in enabled_deployments_on(host)]
    through = list(host.reached_through.values_list("name", flat=True))
    for names, sentence, remedy in (
        (live, _("%(names)s still run on %(host)s."), _("Stop them first; then remove the host.")),
        (wanted, _("%(host)s is where %(names)s should run."), _("Promote to another host first.")),
        (through, _("%(names)s are reached through %(host)s."), _("Give them another way first.")),
    ):
        if names:
            text = sentence % {"names": _listed(names), "host": host.name}
            raise Conflict(text, code="host_in_use", remedy=remedy, extra={"problems": [{"name": n} for n in names]})


def _retire(host: Host) -> None:
    """Keep the row for what refers to it, under a name that is not in the way of a successor."""
    host.removed_at = timezone.now()
    host.name = f"{host.name[:60]}-removed-{host.pk}"
    host.ssh_key = host.jump_host = host.probe_requested_at = None
    host.save(update_fields=["removed_at", "name", "ssh_key", "jump_host", "probe_requested_at"])


def _clean(paths: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(path.strip() for path in paths if path.strip()))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return _("%(shown)s and %(more)d more") % {"shown": shown, "more": more} if more > 0 else shown
