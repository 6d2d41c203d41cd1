"""How long pages and API lists take, and how many SQL queries they ask: in this process, through all of Django."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse

from controlplane.accounts.models import Role, User

AIM_MS = 150.0
DESCRIPTION = "api:openapi-json"

PAGES: tuple[tuple[str, str], ...] = (
    ("web:overview", ""),
    ("web:palette", "q=seed-large-00"),
    ("inventory:host_list", ""),
    ("inventory:host_list", "q=seed-large-000&sort=-gpus"),
    ("inventory:model_list", ""),
    ("configs:config_list", ""),
    ("configs:config_list", "q=qwen"),
    ("configs:what_breaks", ""),
    ("fleet:instance_list", ""),
    ("fleet:instance_list", "state=failed"),
    ("fleet:instance_list", "q=seed-large-0&page=2"),
    ("fleet:launch", ""),
    ("bench:run_list", ""),
    ("bench:run_list", "state=finished&sort=-ttft"),
    ("bench:run_list", "page=150"),
    ("bench:workload_list", ""),
    ("bench:run_start", ""),
    ("bench:compare", ""),
    ("release:environment_list", ""),
    ("release:promote", ""),
    ("ops:event_list", ""),
    ("ops:event_list", "q=seed-large-00001"),
    ("ops:event_list", "page=150"),
    ("accounts:tokens", ""),
    ("accounts:people", ""),
    ("web:secrets", ""),
    ("web:api_docs", ""),
)
"""Every list page by the name of its address, with a query where that is another way through the database."""


@dataclass(frozen=True, slots=True)
class Target:
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Timing:
    """One target: answer, milliseconds over the repetitions, queries of one request, bytes of the answer."""

    target: Target
    status: int
    p50_ms: float
    p95_ms: float
    queries: int
    size_bytes: int


def targets(client: Client) -> tuple[list[Target], list[str]]:
    """What there is to time, and the names of pages that this installation does not have (yet)."""
    found, missing = [], []
    for name, query in PAGES:
        try:
            url = reverse(name)
        except NoReverseMatch:
            missing.append(name)
            continue
        found.append(Target(f"{name}?{query}" if query else name, f"{url}?{query}" if query else url))
    return [*found, *_api_lists(client)], sorted(set(missing))


def signed_in() -> Client:
    """A browser of an administrator; made when there is none."""
    user, _ = User.objects.get_or_create(username="timing", defaults={"role": Role.ADMIN})
    client = Client(SERVER_NAME="localhost", raise_request_exception=False)  # a page that breaks is a line of the table
    client.force_login(user)
    return client


def query_count(client: Client, target: Target) -> int:
    """SQL queries of one request, after one that warmed what is kept in memory."""
    client.get(target.url)
    with CaptureQueriesContext(connection) as captured:
        client.get(target.url)
    return len(captured)


def timed(client: Client, target: Target, *, repetitions: int) -> Timing:
    queries = query_count(client, target)
    spans_ms: list[float] = []
    for _ in range(repetitions):
        started = time.perf_counter()
        response = client.get(target.url)
        spans_ms.append((time.perf_counter() - started) * 1000)
    return Timing(
        target=target,
        status=response.status_code,
        p50_ms=percentile(spans_ms, 0.5),
        p95_ms=percentile(spans_ms, 0.95),
        queries=queries,
        size_bytes=len(response.content),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the smallest value that at least `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _api_lists(client: Client) -> Iterator[Target]:
    """Every GET operation without a parameter in its path or one that must be given: lists, by its own account."""
    document = json.loads(client.get(reverse(DESCRIPTION)).content)
    for path, methods in document["paths"].items():
        operation = methods.get("get")
        if operation is None or any(one.get("required") for one in operation.get("parameters", [])):
            continue
        if "{" not in path:
            yield Target(f"GET {path}", path)
