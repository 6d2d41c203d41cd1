"""Runs and workloads, for pages and API. A list costs as many queries at any length, and reads no bulk."""

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from controlplane.bench.models import Metric, Run, RunData, Workload
from controlplane.configs.models import Config, ConfigVersion
from controlplane.core.models import Event
from controlplane.core.paging import Page, page_by_key
from controlplane.core.searching import Natural, clean, ordered
from controlplane.fleet.models import Instance
from controlplane.inventory.models import Host

RUN_SORTS = {
    "created": ("created_at",),
    "state": ("state",),
    "workload": ("workload__name",),
    "config": ("config_version__config__name", "config_version__number"),
    "host": (Natural("host__name"),),
    "instance": ("instance__name",),
    "throughput": ("output_throughput",),
    "ttft50": ("ttft_ms_p50",),
    "ttft": ("ttft_ms_p99",),
    "tpot50": ("tpot_ms_p50",),
    "tpot": ("tpot_ms_p99",),
    "e2el50": ("e2el_ms_p50",),
    "e2el": ("e2el_ms_p99",),
    "failed": ("failed",),
    "gpu": ("gpu_utilisation_percent",),
    "duration": ("duration_s",),
}
MOVING = (Run.State.QUEUED, Run.State.RUNNING)
EVENTS_SHOWN = 20
UNPACKED_AT_ONCE = 8

# What a list shows; everything else of a run is JSON that only its own page needs.
_COLUMNS = (
    "seed", "state", "state_since", "note", "planned", "ok", "failed", "cancelled", "duration_s", "output_throughput",
    "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "e2el_ms_p50", "e2el_ms_p99", "gpu_status",
    "gpu_utilisation_percent", "is_instrument_limited", "is_cancel_requested", "prompt_tokens", "output_tokens",
    "progress", "reasons", "engine_version", "engine_build", "config_digest", "workload_digest", "created_by",
    "created_at", "started_at", "ended_at",
    "workload__name", "instance__name", "host__name", "config_version__number", "config_version__config__name",
)  # fmt: skip


def runs(
    *,
    state: str = "",
    workload: str = "",
    config: str = "",
    host: str = "",
    instance: str = "",
    search: str = "",
    sort: str = "",
) -> QuerySet[Run]:
    """Runs for a list, newest first unless sorted by a key of RUN_SORTS (with "-": the other way round).

    Filters are names; `state` may also be "moving": queued or running. `search` looks into notes, names and numbers.
    """
    found = _rows()
    if state := clean(state):
        found = found.filter(state__in=MOVING) if state == "moving" else found.filter(state=state)
    for lookup, wanted in (
        ("workload__name", workload),
        ("config_version__config__name", config),
        ("host__name", host),
        ("instance__name", instance),
    ):
        if wanted := clean(wanted):
            found = found.filter(**{lookup: wanted})
    if search := clean(search):
        found = found.filter(_mentions(search))
    return ordered(found, sort, RUN_SORTS)


def runs_page(number: Any = 1, **chosen: str) -> Page[Run]:
    """One page of `runs(**chosen)`."""
    return page_by_key(runs(**chosen), _rows(), number, is_found_once=bool(chosen.get("search")))


def run_details() -> QuerySet[Run]:
    """Runs with all that a detail page shows, save the bulk (`RunData`)."""
    return Run.objects.select_related("workload", "instance", "attempt", "host", "config_version__config").defer(
        "host__facts", "instance__sealed_key", "config_version__toml", "attempt__reader_state"
    )


def run_detail(run_id: int) -> Run:
    """One of `run_details`; Run.DoesNotExist when it is not there."""
    return run_details().get(pk=run_id)


def metrics_of(run: Run) -> dict[str, dict[str, Metric]]:
    """Definition → statistic → row."""
    found: dict[str, dict[str, Metric]] = {}
    for row in run.metrics.all():
        found.setdefault(row.definition, {})[row.statistic] = row
    return found


def series_of(run: Run) -> dict[str, list[Any]]:
    """One-second columns; empty until the run is over, and for one that measured nothing."""
    return dict(RunData.objects.filter(run=run).values_list("series", flat=True).first() or {})


def request_columns_of(run: Run) -> dict[str, list[Any]]:
    """Per-request columns (domain.records.to_columns); empty where none were kept."""
    return next((columns for _run, columns in request_columns([run.pk])), {})


def request_columns(run_ids: Sequence[int]) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """(run, per-request columns) of those that kept any; one query, unpacked one at a time: they are bulky."""
    kept = RunData.objects.filter(run__in=run_ids).values_list("run", "requests")
    for run_id, packed in kept.iterator(chunk_size=UNPACKED_AT_ONCE):
        if packed:
            yield run_id, dict(json.loads(gzip.decompress(bytes(packed))))


def runs_ahead_of(run: Run) -> int:
    """How many runs of the same instance go before a queued one."""
    return Run.objects.filter(instance=run.instance_id, state__in=MOVING, pk__lt=run.pk).count()


def events_of(run: Run) -> QuerySet[Event]:
    return Event.objects.filter(subject_type="run", subject_id=str(run.pk)).order_by("-id")[:EVENTS_SHOWN]


def workloads() -> QuerySet[Workload]:
    """Every workload, with `run_count` and `last_run_at`."""
    return Workload.objects.annotate(run_count=Count("runs"), last_run_at=Max("runs__created_at")).order_by(
        "-is_built_in", "name"
    )


def other_runs(run: Run, *, limit: int = 20) -> QuerySet[Run]:
    """What a run can be compared with: finished runs of the same content of its workload, newest first."""
    return runs(state=Run.State.FINISHED).filter(workload_digest=run.workload_digest).exclude(pk=run.pk)[:limit]


def filter_choices() -> dict[str, list[str]]:
    """Names for the filters of the list. All there are, not only those that occur: that would read every run."""
    return {
        "workloads": list(Workload.objects.order_by("name").values_list("name", flat=True)),
        "configs": list(Config.objects.order_by("name").values_list("name", flat=True)),
        "hosts": list(Host.objects.order_by("name").values_list("name", flat=True)),
    }


def _rows() -> QuerySet[Run]:
    return Run.objects.select_related("workload", "instance", "host", "config_version__config").only(*_COLUMNS)


def _mentions(text: str) -> Q:
    """Names are looked up where they are kept, once; joined, every one of twenty thousand runs compares its own."""
    versions = ConfigVersion.objects.filter(config__name__icontains=text)
    words = Q(note__icontains=text) | Q(created_by__icontains=text) | Q(config_version__in=versions.values("pk"))
    words |= Q(instance__in=Instance.objects.filter(name__icontains=text).values("pk"))
    words |= Q(workload__in=Workload.objects.filter(name__icontains=text).values("pk"))
    number = text.lstrip("#")
    return words | Q(pk=int(number)) if number.isdecimal() and len(number) < 19 else words
