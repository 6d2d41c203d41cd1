"""What pages, API and other apps ask about hosts, engines and models. A list costs as many queries at any length.

Instances, deployments and configs belong to apps above this one; they are read through relations and never imported.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db.models import BigIntegerField, Count, F, Func, JSONField, OuterRef, Prefetch, Q, QuerySet, Subquery, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from controlplane.core.models import Event
from controlplane.core.searching import Natural, clean, ordered
from controlplane.inventory.domain import reachability
from controlplane.inventory.domain.holders import Holder, holders
from controlplane.inventory.domain.options import Option, option
from controlplane.inventory.models import Accelerator, Engine, Host, ModelArtifact, ModelCopy, OptionList

LIVE_INSTANCE_STATES = ("pending", "starting", "ready", "draining")
"""`controlplane.fleet.models.LIVE_STATES`, which we may not import; a test compares the two."""

UNSEEN_FROM_BYTES = 1024**3
"""A driver keeps a few hundred MiB on an idle GPU for itself; from here on somebody uses it."""
_INSTANCE_COLUMNS = (
    "name", "host", "state", "state_since", "desired", "is_host_silent", "observed_at", "port", "gpu_uuids",
    "config_version",
)  # fmt: skip

HOST_SORTS = {
    "name": (Natural("name"),),
    "state": ("state", Natural("name")),
    "instances": ("live_instances", Natural("name")),
    "gpus": ("gpu_memory_bytes", Natural("name")),
    "seen": ("last_seen_at", Natural("name")),
}
MODEL_SORTS = {
    "name": ("name",),
    "created": ("created_at", "name"),
    "hosts": ("host_count", "name"),
    "size": ("size_bytes", "name"),
}


# -- Hosts -----------------------------------------------------------------------------------------------------------


def hosts(*, search: str = "", state: str = "", transport: str = "", sort: str = "") -> QuerySet[Host]:
    """Hosts for a list, with accelerators and engines, and annotated as `_counted_hosts` says."""
    found = _counted_hosts().defer("facts", "note")
    if search := clean(search):
        found = found.filter(Q(name__icontains=search) | Q(address__icontains=search) | Q(note__icontains=search))
    if state == "maintenance":
        found = found.filter(is_in_maintenance=True)
    elif state:
        found = found.filter(state=clean(state))
    if transport:
        found = found.filter(transport=clean(transport))
    return ordered(found, sort, HOST_SORTS, default="name", tie="pk").prefetch_related(
        Prefetch("accelerators", Accelerator.objects.filter(missing_since=None).order_by("index")),
        Prefetch("engines", Engine.objects.filter(missing_since=None).order_by("version", "executable")),
    )


def host_detail(host_id: int) -> Host:
    """One of `host_details`; Host.DoesNotExist when it is not (or no longer) there."""
    return host_details().get(pk=host_id)


def host_details() -> QuerySet[Host]:
    """Hosts with key, jump host, accelerators, engines and model copies."""
    return (
        _counted_hosts()
        .select_related("ssh_key", "jump_host")
        .prefetch_related(
            Prefetch("accelerators", Accelerator.objects.order_by(F("missing_since").asc(nulls_first=True), "index")),
            Prefetch("engines", engines().order_by(F("missing_since").asc(nulls_first=True), "executable")),
            Prefetch("model_copies", ModelCopy.objects.select_related("artifact").order_by("artifact__name")),
        )
    )


def live_instances_on(host: Host) -> QuerySet[Any]:
    """What runs (or is about to) on a host, with its config version."""
    return (
        host.instances.filter(state__in=LIVE_INSTANCE_STATES)
        .select_related("config_version__config")
        .only(*_INSTANCE_COLUMNS, "config_version__number", "config_version__config__name")
        .order_by(Natural("name"))
    )


def enabled_deployments_on(host: Host) -> QuerySet[Any]:
    return host.deployments.filter(is_enabled=True).select_related("environment").order_by("name")


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU with what holds its memory and the instances placed on it."""

    gpu: Accelerator
    holders: list[Holder]
    instances: list[Any]

    @property
    def is_held_unseen(self) -> bool:
        """Memory is used and no process shows: another container's or another user's."""
        used = self.gpu.memory_used_bytes or 0
        return not self.holders and not self.instances and used >= UNSEEN_FROM_BYTES


def gpu_views(host: Host, instances: Iterable[Any]) -> list[GpuView]:
    """The GPUs of a host out of `host_detail`, those present first, with the live `instances` placed on each."""
    gpus = list(host.accelerators.all())
    names = _names_by_nonce(host) if gpus else {}
    return [
        GpuView(
            gpu,
            holders(gpu.processes, instance_of=names),
            [instance for instance in instances if gpu.uuid in instance.gpu_uuids],
        )
        for gpu in gpus
    ]


def _names_by_nonce(host: Host) -> dict[str, str]:
    """Live instances of a host by the nonces of their launches."""
    live = host.instances.filter(state__in=LIVE_INSTANCE_STATES)
    return {nonce: name for nonce, name in live.values_list("attempts__process__nonce", "name") if nonce}


def events_of(kind: str, pk: int, *, limit: int = 20) -> QuerySet[Event]:
    return Event.objects.filter(subject_type=kind, subject_id=str(pk)).order_by("-id")[:limit]


def is_blind(now: datetime) -> bool:
    """True when so many hosts fell silent at once that the fault is more likely ours: freeze destructive actions."""
    seen = Host.objects.filter(transport=Host.Transport.SSH).exclude(last_seen_at=None)
    known = list(seen.values_list("last_seen_at", "failures_in_a_row"))
    return reachability.is_blind([at for at, failures in known if at and failures], hosts=len(known), now=now)


# -- Engines ---------------------------------------------------------------------------------------------------------


def engines(*, host: str = "", version: str = "") -> QuerySet[Engine]:
    """Engines with host and the size of their option list, but not the list."""
    found = Engine.objects.filter(host__removed_at=None)
    if host:
        found = found.filter(host__name=clean(host))
    if version:
        found = found.filter(version=clean(version))
    return found.select_related("host", "option_list").defer("option_list__args", "host__facts")


def engine_with_options() -> QuerySet[Engine]:
    """Engines together with their whole option lists: for one at a time."""
    return Engine.objects.select_related("host", "option_list").defer("host__facts")


def options_of(option_list: OptionList | None, *, search: str = "") -> list[Option]:
    """The options of a build, in its own order; `search` looks into names, choices and help."""
    entries = option_list.args.get("args", []) if option_list else []
    return [found for found in map(option, entries) if found.mentions(search)]


# -- Models ----------------------------------------------------------------------------------------------------------


def models(*, search: str = "", host: str = "", source: str = "", sort: str = "") -> QuerySet[ModelArtifact]:
    """Models for a list with their copies (use `brief_facts`); `host_count` and `size_bytes` (largest) annotated."""
    found = ModelArtifact.objects.annotate(
        host_count=Count("copies__host", filter=Q(copies__host__removed_at=None), distinct=True),
        size_bytes=_size_of_largest_copy(),
    )
    if search := clean(search):
        found = found.filter(Q(name__icontains=search) | Q(location__icontains=search))
    if host:
        found = found.filter(pk__in=ModelCopy.objects.filter(host__name=clean(host)).values("artifact"))
    if source:
        found = found.filter(source=clean(source))
    return ordered(found, sort, MODEL_SORTS, default="name", tie="pk").prefetch_related(
        Prefetch("copies", _brief_copies())
    )


def model_details() -> QuerySet[ModelArtifact]:
    """Models with their copies."""
    return ModelArtifact.objects.prefetch_related(Prefetch("copies", _copies()))


def facts_for(host: Host, model_path: str) -> ModelCopy | None:
    """What is known of the model at `model_path` (or of the repository of that id) on a host; None: never looked at.

    `facts` is empty and `error` says why when the last look failed.
    """
    return (
        ModelCopy.objects.select_related("artifact")
        .filter(Q(path=model_path) | Q(artifact__location=model_path), host=host)
        .order_by("-inspected_at")
        .first()
    )


def configs_using(locations: Iterable[str]) -> dict[str, list[str]]:
    """For each model path or repository id, the names of the configs whose latest version serves it."""
    versions = apps.get_model("configs", "ConfigVersion")
    latest = versions.objects.order_by("config_id", "-number").distinct("config_id").values("pk")
    rows = (
        versions.objects.filter(pk__in=latest, content__model__model_path__in=list(locations))
        .order_by("config__name")
        .values_list("content__model__model_path", "config__name")
    )
    found: dict[str, list[str]] = defaultdict(list)
    for location, name in rows:
        found[location].append(name)
    return dict(found)


def _counted_hosts() -> QuerySet[Host]:
    """Hosts with `live_instances`, `gpu_memory_bytes` (of GPUs that are there) and `gpu_status` of the last probe."""
    return Host.objects.annotate(
        live_instances=Count("instances", filter=Q(instances__state__in=LIVE_INSTANCE_STATES), distinct=True),
        gpu_memory_bytes=_sum_of_present_gpus(),
        gpu_status=KT("facts__gpu__status"),
    )


def _brief_copies() -> QuerySet[ModelCopy]:
    """Copies whose `brief_facts` come without the list of weight files, which may have hundreds of entries."""
    shortened = Func(F("facts"), template="(%(expressions)s - 'weight_files')", output_field=JSONField())
    return _copies().defer("facts", "host__facts").annotate(shortened_facts=shortened)


def _copies() -> QuerySet[ModelCopy]:
    return (
        ModelCopy.objects.filter(host__removed_at=None)
        .select_related("host")
        .order_by(Natural("host__name"))
        .defer("host__facts")
    )


def _size_of_largest_copy() -> Any:
    sizes = ModelCopy.objects.filter(artifact=OuterRef("pk")).annotate(
        size=Cast(KT("facts__total_bytes"), BigIntegerField())
    )
    return Subquery(sizes.order_by(F("size").desc(nulls_last=True)).values("size")[:1])


def _sum_of_present_gpus() -> Any:
    total = (
        Accelerator.objects.filter(host=OuterRef("pk"), missing_since=None)
        .order_by()
        .values("host")
        .annotate(total=Sum("memory_total_bytes"))
        .values("total")
    )
    return Subquery(total)
