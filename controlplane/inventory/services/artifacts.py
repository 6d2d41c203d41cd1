"""Models and their copies on hosts. Files are only read; nothing is downloaded or deleted here."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict
from controlplane.drivers.errors import HostError, HostRefused
from controlplane.inventory.domain.addresses import Fault
from controlplane.inventory.domain.locations import faults_of_location, hub_snapshot, name_of
from controlplane.inventory.models import Host, ModelArtifact, ModelCopy
from controlplane.inventory.queries import configs_using
from controlplane.inventory.services.hosts import host_named
from controlplane.inventory.services.reach import HostKeyNotPinned, call_host
from controlplane.inventory.services.ssh_keys import invalid

INSPECT = "inventory.inspect_model_copy"
INSPECT_TIMEOUT_S = 120.0  # headers of hundreds of weight files, on a network disk
STALE_AFTER = timedelta(hours=6)


def add_model(
    *,
    location: str,
    actor: str,
    source: str = ModelArtifact.Source.PATH,
    revision: str = "",
    name: str = "",
    hosts: Sequence[str] = (),
    note: str = "",
) -> ModelArtifact:
    """Register weights and look for them on `hosts` (in the worker). Raises Invalid with every fault, Conflict when the
    same weights or the same name are there already."""
    location, revision = location.strip(), revision.strip()
    faults = faults_of_location(source=source, location=location, revision=revision)
    known = {host.name: host for host in Host.objects.filter(name__in=hosts)}
    faults += [
        Fault("hosts", _("There is no host %(name)s.") % {"name": unknown}, _("Look its name up under Hosts."))
        for unknown in hosts
        if unknown not in known
    ]
    if faults:
        raise invalid(faults)
    with transaction.atomic():
        model = _insert(
            ModelArtifact(
                name=name.strip() or _free_name(name_of(location)),
                source=source,
                location=location,
                revision=revision,
                note=note.strip(),
                created_by=actor,
            )
        )
        events.record("model.added", actor=actor, subject=model, sentence=location, revision=revision)
        for host in known.values():
            _request(_copy(model, host))
    return model


def ensure_copy(host: Host, path: str, *, actor: str = events.SYSTEM) -> ModelCopy:
    """The copy at `path` (or of the repository of that id) on `host`; registered, and its inspection asked for, when
    nobody did before. Safe to call again and again: preflight does."""
    with transaction.atomic():
        copy = ModelCopy.objects.filter(host=host, path=path).first()
        if copy is not None:
            return copy
        source = ModelArtifact.Source.PATH if path.startswith(("/", "~")) else ModelArtifact.Source.REPOSITORY
        model = ModelArtifact.objects.filter(source=source, location=path).order_by("revision").first()
        if model is None:
            name = _free_name(name_of(path))
            model = _insert(ModelArtifact(name=name, source=source, location=path, created_by=actor))
            events.record("model.added", actor=actor, subject=model, sentence=path, revision="")
        copy = _copy(model, host)
        _request(copy)
    return copy


def look_on_host(*, model: ModelArtifact, host_name: str, actor: str) -> ModelCopy:
    """Look for a model on one more host."""
    with transaction.atomic():
        copy = _copy(model, host_named(host_name))
        events.record("model.inspection_requested", actor=actor, subject=model, sentence=host_name)
        _request(copy)
    return copy


def inspect_again(*, model: ModelArtifact, actor: str) -> None:
    """Look at the files of every copy again."""
    with transaction.atomic():
        events.record("model.inspection_requested", actor=actor, subject=model)
        for copy in model.copies.filter(host__removed_at=None):
            _request(copy)


def remove_model(*, model: ModelArtifact, actor: str) -> None:
    """Forget a model. Refused while a config's latest version serves it; files on hosts stay where they are."""
    used_by = configs_using([model.location]).get(model.location, [])
    if used_by:
        raise Conflict(
            _("%(model)s is what %(configs)s serve.") % {"model": model.name, "configs": ", ".join(used_by)},
            code="model_in_use",
            remedy=_("Give those configs another model first."),
        )
    with transaction.atomic():
        events.record("model.removed", actor=actor, subject=model, sentence=model.location)
        model.delete()


def inspect_model_copy(copy_id: int, now: datetime | None = None) -> None:
    """Read the files of one copy and keep what they say, or why they could not be read. Runs in the worker."""
    copy = ModelCopy.objects.select_related("artifact", "host__jump_host").filter(pk=copy_id).first()
    if copy is None or copy.host.removed_at is not None:
        return
    inspect_copy_now(copy, now or timezone.now())


def inspect_copy_now(copy: ModelCopy, now: datetime) -> ModelCopy:
    """The same at once, for a caller that is in the worker already (preflight)."""
    path = copy.path
    if copy.artifact.source == ModelArtifact.Source.REPOSITORY:
        snapshot = hub_snapshot(copy.artifact.location, copy.artifact.revision)
        if snapshot is None:
            return _keep(copy, now, facts={}, **_unresolved())
        path = snapshot
    try:
        facts = call_host(copy.host, "inspect_model", {"path": path}, timeout_s=INSPECT_TIMEOUT_S)
    except HostRefused as error:  # the host is there, the model is not (or not whole): that is an answer
        _keep(copy, now, facts={}, error_code=error.code, error=error.message, error_remedy=error.remedy)
    except HostError as error:  # nobody could look: what was known stays
        _keep(copy, None, error_code=error.code, error=error.message, error_remedy=error.remedy)
    except HostKeyNotPinned as error:
        _keep(copy, None, error_code=error.code, error=error.sentence, error_remedy=error.remedy)
    else:
        _keep(copy, now, facts=facts, error_code="", error="", error_remedy="")
    return copy


def _unresolved() -> dict[str, str]:
    return {
        "error_code": "revision_not_a_commit",
        "error": _("The files of a branch or tag cannot be read before vLLM downloads them."),
        "error_remedy": _(
            "Give the full commit as revision to read the host's cache, or add the path of a local copy."
        ),
    }


def stale_copies(host: Host, now: datetime) -> Iterable[int]:
    """Copies on `host` that nobody looked at for a while."""
    return (
        ModelCopy.objects.filter(host=host)
        .exclude(inspected_at__gt=now - STALE_AFTER)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def _keep(copy: ModelCopy, now: datetime | None, **changes: object) -> ModelCopy:
    changes["inspection_requested_at"] = None
    if now is not None:
        changes["inspected_at"] = now
    for name, value in changes.items():
        setattr(copy, name, value)
    ModelCopy.objects.filter(pk=copy.pk).update(**changes)
    return copy


def _copy(model: ModelArtifact, host: Host) -> ModelCopy:
    copy, _made = ModelCopy.objects.get_or_create(artifact=model, host=host, path=model.location)
    return copy


def _request(copy: ModelCopy) -> None:
    copy.inspection_requested_at = timezone.now()
    copy.save(update_fields=["inspection_requested_at"])
    dispatch.after_commit(INSPECT, copy_id=copy.pk)


def _insert(model: ModelArtifact) -> ModelArtifact:
    try:
        with transaction.atomic():
            model.save(force_insert=True)
    except IntegrityError:
        same = ModelArtifact.objects.filter(
            source=model.source, location=model.location, revision=model.revision
        ).first()
        if same is None:
            sentence, fault = _("There is a model %(name)s already."), "name"
        else:
            sentence, fault = _("These weights are there already, as %(name)s."), "location"
        raise Conflict(
            sentence % {"name": same.name if same else model.name},
            remedy=_("Use that one, or choose another name."),
            extra={"problems": [{"field": fault, "message": sentence % {"name": same.name if same else model.name}}]},
        ) from None
    return model


def _free_name(wanted: str) -> str:
    taken = set(ModelArtifact.objects.filter(name__startswith=wanted).values_list("name", flat=True))
    if wanted not in taken:
        return wanted
    return next(name for number in range(2, len(taken) + 3) if (name := f"{wanted}-{number}") not in taken)
