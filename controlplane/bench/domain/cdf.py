"""Cumulative distribution of a latency, small enough to draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.bench.domain.metrics import PER_REQUEST
from controlplane.bench.domain.records import OK, RequestRecord


def latencies_ms(records: Iterable[RequestRecord], definition_id: str) -> list[float]:
    """The values of one per-request definition over the successful requests; KeyError for any other definition."""
    measure = PER_REQUEST[definition_id]
    values = (measure(record) for record in records if record.status == OK)
    return [value for value in values if value is not None]


def cdf_points(values: Sequence[float], *, limit: int = 200) -> list[tuple[float, float]]:
    """(value, share of values at or below it), ascending, at most `limit` points.

    The smallest and the largest value are always among them: the tail is what people look for.
    """
    if limit < 2:
        raise ValueError("a curve needs at least two points")
    ordered = sorted(values)
    count = len(ordered)
    kept = range(count) if count <= limit else sorted({round(at * (count - 1) / (limit - 1)) for at in range(limit)})
    return [(ordered[at], (at + 1) / count) for at in kept]
