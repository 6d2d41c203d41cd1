"""The list of instances."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlplane.configs.models import Config
from controlplane.core.listing import ListFilter, csv_response, template_of, wants_csv
from controlplane.core.searching import Natural
from controlplane.fleet import queries
from controlplane.fleet.models import Environment, Instance, State
from controlplane.inventory.models import Host

ROWS_PER_PAGE = 40


@dataclass(frozen=True, slots=True)
class InstanceFilter(ListFilter):
    """`?q=…&state=…&host=…&config=…&environment=…&sort=…`; hosts, configs and environments by name."""

    state: str = ""
    host: str = ""
    config: str = ""
    environment: str = ""


@require_GET
def instance_list(request: HttpRequest) -> HttpResponse:
    """All instances, newest first; refreshes while any of the shown ones lives."""
    chosen = InstanceFilter.of(request.GET)
    names = {name: getattr(chosen, name) for name in ("state", "host", "config", "environment", "sort")}
    if wants_csv(request):
        return _as_csv(queries.instances(search=chosen.q, **names))
    page = queries.instances_page(request.GET.get("page"), size=ROWS_PER_PAGE, search=chosen.q, **names)
    context = {
        "page": page,
        "filter": chosen,
        "states": State.choices,
        "hosts": Host.objects.order_by(Natural("name")).values_list("name", flat=True),
        "configs": Config.objects.filter(archived_at=None).order_by("name").values_list("name", flat=True),
        "environments": Environment.objects.values_list("name", flat=True),
        "is_moving": any(instance.is_live for instance in page.items),
        "is_empty": not page.total and not chosen.is_set,
    }
    return render(request, template_of(request, "fleet/instance_list.html", "rows"), context)


COLUMNS = (
    "name",
    "state",
    "state_since",
    "reason",
    "config",
    "version",
    "environment",
    "host",
    "gpus",
    "bind",
    "port",
    "running",
    "waiting",
    "kv_usage",
    "output_throughput_tokens_per_s",
    "predicted_kv_tokens",
    "measured_kv_tokens",
    "weights_bytes",
    "ready_s",
)


def _as_csv(found: Iterable[Instance]) -> HttpResponse:
    return csv_response("instances", COLUMNS, (_cells(instance) for instance in found))


def _cells(instance: Instance) -> list[Any]:
    metrics, deployment = instance.metrics, instance.deployment
    return [
        instance.name,
        instance.state,
        instance.state_since,
        instance.reason,
        instance.config_version.config.name,
        instance.config_version.number,
        deployment.environment.name if deployment else None,
        instance.host.name,
        " ".join(instance.gpu_uuids) or instance.engine.device,
        instance.bind,
        instance.port,
        metrics.get("running"),
        metrics.get("waiting"),
        metrics.get("kv_usage_mean"),
        metrics.get("output_throughput"),
        instance.predicted_kv_tokens,
        instance.measured_kv_tokens,
        instance.weights_bytes,
        instance.ready_s,
    ]
