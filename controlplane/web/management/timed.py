"""What is timed: every page and every GET operation of the API, each with a row that has much to show."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from django.db.models import Count, QuerySet
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import Config
from controlplane.fleet.models import Attempt, Environment, Instance, Preflight
from controlplane.inventory.models import Host, ModelArtifact
from controlplane.release.models import Promotion

API = "api"
DESCRIPTION = f"{API}:openapi-json"
COMPARED = 6
FLAG, EXPORT = "max_num_seqs", "systemd"

Known = Mapping[str, Any]

PAGES: Mapping[str, Sequence[str]] = {
    "web:overview": ("",),
    "web:palette": ("q=seed-large-00", "q=qwen"),
    "web:secrets": ("",),
    "web:about": ("",),
    "web:api_docs": ("",),
    "inventory:host_list": ("", "q=seed-large-000&sort=-gpus", "state=reachable"),
    "inventory:host_add": ("",),
    "inventory:host_detail": ("",),
    "inventory:host_edit": ("",),
    "inventory:engine_detail": ("", "q=cache"),
    "inventory:model_list": ("", "q=qwen&sort=-size"),
    "inventory:model_add": ("",),
    "inventory:model_detail": ("",),
    "configs:config_list": ("", "q=qwen", "sort=-changed"),
    "configs:config_import": ("",),
    "configs:what_breaks": ("", "release=0.8.5"),
    "configs:flag_list": ("", "q=cache"),
    "configs:config_detail": ("",),
    "configs:config_edit": ("",),
    "configs:version_detail": ("", "target=engine:{engine_id}"),
    "configs:version_diff": ("",),
    "configs:version_change": ("",),
    "fleet:instance_list": ("", "state=failed", "q=seed-large-0&page=2", "sort=-kv", "environment=production"),
    "fleet:instance_detail": ("",),
    "fleet:attempt_detail": ("",),
    "fleet:attempt_log": ("",),
    "fleet:preflight_detail": ("",),
    "fleet:launch": (
        "",
        "version={version_id}&engine={engine_id}&preflight={preflight_id}",
        "part=find_engine&engine_q=seed+h100",
        "part=find_version&version_q=qwen+v3",
    ),
    "bench:run_list": ("", "state=finished&sort=-ttft", "q=qwen&sort=host", "page=150"),
    "bench:run_detail": ("",),
    "bench:run_start": ("", "instance={instance_id}"),
    "bench:run_chart": ("",),
    "bench:workload_list": ("",),
    "bench:workload_detail": ("",),
    "bench:compare": ("", "q=qwen", "runs={run_ids}"),
    "bench:compare_chart": ("runs={run_ids}",),
    "release:environment_list": ("",),
    "release:environment_detail": ("", "q=throughput&sort=-duration", "start=10"),
    "release:promote": (
        "",
        "environment=production&version={version_id}&engine={engine_id}&instance=",
        "part=find_engine&engine_q=seed+h100",
    ),
    "release:promotion_detail": ("",),
    "ops:event_list": ("", "q=seed-large-00001", "name=run.failed", "actor=seed_large&page=150"),
    "accounts:settings": ("",),
    "accounts:tokens": ("",),
    "accounts:people": ("",),
}
"""Every page by the name of its address, each with the queries that are other ways through the database. What stands in
braces, and the parameters of addresses, are those of `examples`."""

NOT_TIMED: Mapping[str, str] = {
    "accounts:login": "who is signed in is sent on",
    "bench:run_result": "a download of what one run measured",
    "bench:run_requests": "a download of what one run measured",
    "configs:version_raw": "a download of one file",
    "configs:version_export": "a download of one file",
    "fleet:attempt_log_download": "a download as long as the log",
    "fleet:instance_export": "a download of one file",
    "web:healthz": "not for people",
    "web:styleguide": "samples, on the machines of developers",
}
"""Addresses that answer GET and are no pages: name → why. Those that only take POST need no mention."""

API_QUERIES: Mapping[str, Sequence[str]] = {
    "/api/v1/hosts": ("q=seed-large-000&sort=-gpus",),
    "/api/v1/instances": ("state=failed", "q=seed-large-0&page=10&sort=-kv"),
    "/api/v1/runs": ("q=qwen&sort=-ttft", "page=400"),
    "/api/v1/compare": ("runs={run_ids}",),
    "/api/v1/promotions": ("environment=production&sort=-duration",),
    "/api/v1/events": ("q=seed-large-00001", "name=run.failed", "page=400"),
}
"""Queries of API operations beside none, as those of `PAGES`; one that cannot do without is timed with its own only."""


@dataclass(frozen=True, slots=True)
class Target:
    """`label` is the same whatever rows there are."""

    label: str
    url: str


def targets(client: Client) -> tuple[list[Target], list[str]]:
    """What there is to time, and what cannot be because there is no row of its kind (in words)."""
    known = examples()
    every = [*_pages(known), *_api_operations(client, known)]
    return [one for one in every if isinstance(one, Target)], [one for one in every if isinstance(one, str)]


def addresses() -> dict[str, list[str]]:
    """Every address that is not the API's: its name → its parameters."""
    return dict(_addresses(get_resolver().url_patterns))


def examples() -> dict[str, Any]:
    """What stands for the parameters of addresses: of each kind a row whose page has much on it. A kind of which there
    is none is not among them."""
    host, config = _richest(Host.objects.all(), "instances"), _richest(Config.objects.all(), "versions__runs")
    instance, environment = _richest(Instance.objects.all(), "runs"), _richest(Environment.objects.all(), "deployments")
    version = config and config.versions.order_by("-number").first()
    runs = _comparable_runs()
    rows = {
        "host_id": host,
        "engine_id": host and host.engines.order_by("pk").first(),
        "model_id": _richest(ModelArtifact.objects.all(), "copies"),
        "version_id": version,
        "instance_id": instance,
        "attempt_id": Attempt.objects.exclude(log_chunks=None).order_by("-pk").first(),
        "preflight_id": Preflight.objects.order_by("-pk").first(),
        "workload_id": _richest(Workload.objects.all(), "runs"),
        "run_id": runs[0] if runs else None,
        "environment_id": environment,
        "promotion_id": _richest(Promotion.objects.all(), "runs"),
    }
    words = {
        "config": config and config.name,
        "number": version and version.number,
        "environment": environment and environment.name,
        "run_ids": ",".join(str(run.pk) for run in runs),
        "name": "ttft",  # of a chart
    }
    return {name: row.pk for name, row in rows.items() if row} | {name: word for name, word in words.items() if word}


def _comparable_runs() -> list[Run]:
    """The newest that measured something, of one workload."""
    measured = Run.objects.filter(state=Run.State.FINISHED).exclude(data=None).order_by("-pk")
    newest = measured.first()
    return list(measured.filter(workload=newest.workload_id)[:COMPARED]) if newest else []


def _richest(rows: QuerySet[Any], relation: str) -> Any:
    return rows.annotate(related=Count(relation)).order_by("-related", "pk").first()


def _pages(known: Known) -> Iterator[Target | str]:
    parameters = addresses()
    for name, queries in PAGES.items():
        for query in queries:
            label = f"{name}?{query}" if query else name
            if lacking := {*parameters[name], *_names_in(query)} - known.keys():
                yield _lack(label, lacking)
                continue
            url = reverse(name, kwargs={parameter: known[parameter] for parameter in parameters[name]})
            yield Target(label, f"{url}?{query.format_map(known)}" if query else url)


def _api_operations(client: Client, known: Known) -> Iterator[Target | str]:
    """Every GET operation, by the API's own account."""
    for path, is_complete in _operations(client):
        of_path = {**known, "format": EXPORT, "name": FLAG if "/flags/" in path else known.get("config")}
        for query in (*([""] if is_complete else []), *API_QUERIES.get(path, ())):
            template = f"{path}?{query}" if query else path
            if lacking := {name for name in _names_in(template) if of_path.get(name) is None}:
                yield _lack(f"GET {template}", lacking)
            else:
                yield Target(f"GET {template}", template.format_map(of_path))


def _operations(client: Client) -> Iterator[tuple[str, bool]]:
    """(path, whether it can be asked without a query) of each GET operation."""
    document = json.loads(client.get(reverse(DESCRIPTION)).content)
    for path, methods in document["paths"].items():
        if operation := methods.get("get"):
            in_query = [one for one in operation.get("parameters", []) if one["in"] == "query"]
            yield path, not any(one.get("required") for one in in_query)


def _names_in(template: str) -> set[str]:
    return {name for _text, name, _format, _conversion in Formatter().parse(template) if name}


def _lack(label: str, names: Iterable[str]) -> str:
    return f"{label}: no {', '.join(sorted(names))} to show"


def _addresses(patterns: Sequence[URLPattern | URLResolver], space: str = "") -> Iterator[tuple[str, list[str]]]:
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            yield f"{space}:{pattern.name}", list(pattern.pattern.converters)
        elif (name := pattern.namespace or "") != API:
            yield from _addresses(pattern.url_patterns, name)
