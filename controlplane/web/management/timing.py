"""How long answers take, and how many SQL queries they ask: in this process, through all of Django."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.accounts.models import Role, User
from controlplane.web.management.timed import Target

AIM_MS = 150.0


@dataclass(frozen=True, slots=True)
class Timing:
    """One target: answer, milliseconds over the repetitions, queries of one request, bytes of the answer."""

    target: Target
    status: int
    p50_ms: float
    p95_ms: float
    queries: int
    size_bytes: int


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
