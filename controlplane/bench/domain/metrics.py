"""Definitions of every number a run reports, and how they are computed from its requests.

A word like "TTFT" names different quantities in different tools, so each number carries a definition id, and numbers
of unlike ids are never compared. In the formulas: t0 send, t1 first token, tn last token, n output tokens (the server's
usage). Missing is None, never 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.bench.domain.records import OK, RequestRecord

LOWER, HIGHER = "lower", "higher"
PERCENTILES = (50, 90, 95, 99)
STATISTICS = ("p50", "p90", "p95", "p99", "mean", "min", "max")


@dataclass(frozen=True)
class Definition:
    """id is stored with the number; label is shown; `better` says which direction is an improvement."""

    id: str
    label: str
    unit: str
    formula: str
    better: str
    is_distribution: bool


_TTFT = "t1 − t0: any generated token, reasoning included; a role-only chunk is not a token"
_TTFO = "first visible content − t0 (reasoning is not visible content)"
_GAP = "time between consecutive chunks that carry generated text, pooled over requests"
_WALL = "output tokens of successful requests ÷ time from first send to last end"
_STEADY = "output tokens in the fully loaded window ÷ its length"
_RPS = "successful requests ÷ time from first send to last end"
_GOODPUT = "requests that met every SLO ÷ time from first send to last end"

DEFINITIONS: dict[str, Definition] = {
    each.id: each
    for each in (
        Definition("ttft.any.v1", "TTFT", "ms", _TTFT, LOWER, is_distribution=True),
        Definition("ttfo.v1", "TTFO", "ms", _TTFO, LOWER, is_distribution=True),
        Definition("tpot.excl.v1", "TPOT", "ms", "(tn − t1) / (n − 1) per request, n ≥ 2", LOWER, is_distribution=True),
        Definition("tpot.incl.v1", "TPOT incl. first", "ms", "(tn − t0) / n per request", LOWER, is_distribution=True),
        Definition("gap.chunk.v1", "ITL", "ms", _GAP, LOWER, is_distribution=True),
        Definition("e2e.lasttoken.v1", "E2EL", "ms", "tn − t0", LOWER, is_distribution=True),
        Definition("tput.wall.v1", "Output throughput", "tok/s", _WALL, HIGHER, is_distribution=False),
        Definition("tput.steady.v1", "Steady output throughput", "tok/s", _STEADY, HIGHER, is_distribution=False),
        Definition("rps.wall.v1", "Request throughput", "req/s", _RPS, HIGHER, is_distribution=False),
        Definition("goodput.v1", "Goodput", "req/s", _GOODPUT, HIGHER, is_distribution=False),
    )
}


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The share-th percentile (0..100) of ascending values, linear as numpy's default; None of nothing."""
    if not ordered:
        return None
    position = (len(ordered) - 1) * share / 100
    below = int(position)
    if below + 1 >= len(ordered):
        return ordered[-1]
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (position - below)


def describe(values: Iterable[float], *, unit: str) -> dict[str, Any]:
    """n, mean, min, max and percentiles of values; every statistic None when there are none."""
    ordered = sorted(values)
    summary: dict[str, Any] = {"unit": unit, "n": len(ordered)}
    summary.update({f"p{share}": percentile(ordered, share) for share in PERCENTILES})
    summary["mean"] = sum(ordered) / len(ordered) if ordered else None
    summary["min"] = ordered[0] if ordered else None
    summary["max"] = ordered[-1] if ordered else None
    return summary


def ttft_ms(record: RequestRecord) -> float | None:
    return _span_ms(record.sent_s, record.first_s)


def ttfo_ms(record: RequestRecord) -> float | None:
    return _span_ms(record.sent_s, record.first_visible_s)


def e2el_ms(record: RequestRecord) -> float | None:
    return _span_ms(record.sent_s, record.last_s)


def tpot_excl_ms(record: RequestRecord) -> float | None:
    span = _span_ms(record.first_s, record.last_s)
    return None if span is None or (record.output_tokens or 0) < 2 else span / (record.output_tokens - 1)  # type: ignore[operator]


def tpot_incl_ms(record: RequestRecord) -> float | None:
    span = e2el_ms(record)
    return None if span is None or not record.output_tokens else span / record.output_tokens


PER_REQUEST: dict[str, Callable[[RequestRecord], float | None]] = {
    "ttft.any.v1": ttft_ms,
    "ttfo.v1": ttfo_ms,
    "tpot.excl.v1": tpot_excl_ms,
    "tpot.incl.v1": tpot_incl_ms,
    "e2e.lasttoken.v1": e2el_ms,
}
_SLO_OF = {"ttft_ms": ttft_ms, "tpot_ms": tpot_excl_ms, "e2el_ms": e2el_ms}


def summarise(
    records: Sequence[RequestRecord], *, concurrency: int, slo: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Every metric of a run by definition id. Only successful requests count as tokens and latencies."""
    good = [record for record in records if record.status == OK]
    metrics: dict[str, dict[str, Any]] = {}
    for definition_id, measure in PER_REQUEST.items():
        values = (measure(record) for record in good)
        metrics[definition_id] = describe((value for value in values if value is not None), unit="ms")
    metrics["gap.chunk.v1"] = describe(chunk_gaps_ms(good), unit="ms")
    wall = wall_s(records)
    tokens = output_tokens(good)
    metrics["tput.wall.v1"] = _rate(tokens, wall, n=len(good), unit="tok/s")
    metrics["tput.steady.v1"] = _steady(records, concurrency=concurrency)
    metrics["rps.wall.v1"] = _rate(len(good) or None, wall, n=len(good), unit="req/s")
    met = sum(meets_slo(record, slo) for record in good) if slo else None
    metrics["goodput.v1"] = _rate(met, wall, n=len(good), unit="req/s")
    return metrics


def wall_s(records: Iterable[RequestRecord]) -> float | None:
    """First send to last end, over all requests that were sent, whatever became of them."""
    rows = [(record.sent_s, record.ended_s) for record in records if record.ended_s is not None]
    return max(ended for _, ended in rows) - min(sent for sent, _ in rows) if rows else None


def output_tokens(good: Sequence[RequestRecord]) -> int | None:
    """Tokens of successful requests as the server counted them; None when any of them came without usage."""
    counted = [record.output_tokens for record in good]
    if not counted or any(tokens is None for tokens in counted):
        return None
    return sum(tokens for tokens in counted if tokens is not None)


def prompt_tokens(good: Sequence[RequestRecord]) -> int | None:
    """As `output_tokens`, for prompts."""
    counted = [record.prompt_tokens for record in good]
    if not counted or any(tokens is None for tokens in counted):
        return None
    return sum(tokens for tokens in counted if tokens is not None)


def chunk_gaps_ms(records: Iterable[RequestRecord]) -> array[float]:
    """Gaps between the chunks of each request (one fewer than chunks); the wait for the first chunk is not a gap."""
    gaps = array("d")
    for record in records:
        stamps = record.stamps
        gaps.extend((stamps[at] - stamps[at - 1]) * 1e3 for at in range(1, len(stamps)))
    return gaps


def loaded_window(records: Sequence[RequestRecord], *, concurrency: int) -> tuple[float, float] | None:
    """From `concurrency` requests in flight until the first that no other replaces; None if that never was.

    Of N requests, each one sent after the first C took the place of one that had ended. So N − C ends are replaced, and
    the window runs from the C-th send to the (N − C + 1)-th end.
    """
    sent = sorted(record.sent_s for record in records)
    ended = sorted(record.ended_s for record in records if record.ended_s is not None)
    if len(sent) < concurrency or len(ended) < len(sent):
        return None
    start, end = sent[concurrency - 1], ended[len(sent) - concurrency]
    return (start, end) if end > start else None


def meets_slo(record: RequestRecord, slo: Mapping[str, float]) -> bool:
    """Is every limit kept? What could not be measured has not been kept."""
    measured = ((_SLO_OF[name](record), limit) for name, limit in slo.items())
    return all(value is not None and value <= limit for value, limit in measured)


def _steady(records: Sequence[RequestRecord], *, concurrency: int) -> dict[str, Any]:
    """Tokens in the fully loaded window; a chunk weighs its request's tokens ÷ chunks."""
    window = loaded_window(records, concurrency=concurrency)
    good = [record for record in records if record.status == OK]
    if window is None or output_tokens(good) is None:
        return _rate(None, None, n=0, unit="tok/s")
    start, end = window
    tokens = 0.0
    for record in good:
        inside = sum(start < stamp <= end for stamp in record.stamps)
        if inside:
            tokens += inside * (record.output_tokens or 0) / len(record.stamps)
    return {**_rate(tokens, end - start, n=len(good), unit="tok/s"), "window_s": end - start}


def _rate(amount: float | None, seconds: float | None, *, n: int, unit: str) -> dict[str, Any]:
    return {"unit": unit, "n": n, "value": None if amount is None or not seconds else amount / seconds}


def _span_ms(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else (end_s - start_s) * 1e3
