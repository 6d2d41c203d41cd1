"""From a result.json of the load generator to what is stored: columns, metric rows, one-second series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.bench.domain.metrics import DEFINITIONS, STATISTICS

Result = Mapping[str, Any]

# Column of a run -> definition and statistic: what lists show and sort by.
HEADLINES: dict[str, tuple[str, str]] = {
    "output_throughput": ("tput.wall.v1", "value"),
    "ttft_ms_p50": ("ttft.any.v1", "p50"),
    "ttft_ms_p99": ("ttft.any.v1", "p99"),
    "tpot_ms_p50": ("tpot.excl.v1", "p50"),
    "tpot_ms_p99": ("tpot.excl.v1", "p99"),
    "e2el_ms_p50": ("e2e.lasttoken.v1", "p50"),
    "e2el_ms_p99": ("e2e.lasttoken.v1", "p99"),
}
_INSTRUMENT_REASONS = {"instrument_lag", "instrument_cpu"}


@dataclass(frozen=True)
class MetricRow:
    definition: str
    statistic: str
    value: float | None
    n: int | None
    unit: str


def counts_of(result: Result) -> dict[str, Any]:
    """Honest in every end: what was planned and what became of it."""
    counts = result["counts"]
    return {
        **{name: counts[name] for name in ("planned", "ok", "failed", "cancelled")},
        "errors": result["errors"] or _probe_error(result),
        "reasons": result["reasons"],
    }


def headlines_of(result: Result) -> dict[str, Any]:
    """The numbers that the run's own row keeps."""
    metrics = result["metrics"] or {}
    values = {column: (metrics.get(at) or {}).get(statistic) for column, (at, statistic) in HEADLINES.items()}
    return {
        **values,
        "duration_s": result["wall_s"],
        "prompt_tokens": result["tokens"]["prompt"],
        "output_tokens": result["tokens"]["output"],
        "gpu_status": result["gpu"]["status"],
        "gpu_utilisation_percent": result["gpu"]["utilisation_mean_percent"],
        "is_instrument_limited": any(reason["code"] in _INSTRUMENT_REASONS for reason in result["reasons"]),
    }


def metric_rows(result: Result) -> Iterator[MetricRow]:
    """Every statistic of every definition; what was not measured has a row without a value."""
    for definition, summary in (result["metrics"] or {}).items():
        names = STATISTICS if DEFINITIONS[definition].is_distribution else ("value",)
        for name in names:
            yield MetricRow(definition, name, summary.get(name), summary["n"], summary["unit"])


def series_of(result: Result) -> dict[str, list[Any]]:
    """One value a second by column, on the seconds `t` of the run's clock; None where nothing was sampled."""
    found: dict[str, dict[int, float | None]] = {}
    per_second = result["output_per_second"]
    found["output_tokens"] = dict(zip(per_second["t_s"], per_second["tokens"]))  # noqa: B905 - Python 3.9
    if engine := result["engine"]:
        seconds = [int(at) for at in engine["t_s"]]
        for column, name in _ENGINE_COLUMNS.items():
            found[column] = dict(zip(seconds, engine["series"][name]))  # noqa: B905
        found["prefix_hit_share"] = dict(zip(seconds, _hit_shares(engine["series"])))  # noqa: B905
    found["gpu_utilisation_percent"] = _gpu_means(result["gpu"]["gpus"].values())
    times = [second for column in found.values() for second in column]
    grid = range(min(times), max(times) + 1) if times else range(0)
    columns = {name: [values.get(second) for second in grid] for name, values in found.items()}
    # A second between two others in which no token came is a true zero; before and after it nothing is known.
    columns["output_tokens"] = _zeros_inside(columns["output_tokens"])
    return {"t": list(grid), **columns}


_ENGINE_COLUMNS = {
    "running": "running",
    "waiting": "waiting",
    "kv_usage": "kv_usage_mean",
    "preemptions": "preemptions",
}


def _hit_shares(series: Mapping[str, Sequence[float | None]]) -> list[float | None]:
    """Hits of queries in tokens between one sample and the next; None when nothing was asked for in between."""
    shares: list[float | None] = [None]
    rows = list(zip(series["prefix_queries"], series["prefix_hits"]))  # noqa: B905
    for (queries, hits), (later_queries, later_hits) in zip(rows, rows[1:]):  # noqa: B905, RUF007 - Python 3.9
        if queries is None or hits is None or later_queries is None or later_hits is None or later_queries <= queries:
            shares.append(None)
        else:
            shares.append((later_hits - hits) / (later_queries - queries))
    return shares[: len(rows)]


def _gpu_means(gpus: Any) -> dict[int, float | None]:
    """Mean utilisation of all GPUs by second."""
    seen: dict[int, list[float]] = {}
    for gpu in gpus:
        for at, value in zip(gpu["t_s"], gpu["series"]["utilisation_percent"]):  # noqa: B905
            if value is not None:
                seen.setdefault(int(at), []).append(value)
    return {second: sum(values) / len(values) for second, values in seen.items()}


def _zeros_inside(values: list[Any]) -> list[Any]:
    known = [at for at, value in enumerate(values) if value is not None]
    if not known:
        return values
    return [0.0 if value is None and known[0] < at < known[-1] else value for at, value in enumerate(values)]


def _probe_error(result: Result) -> list[dict[str, Any]]:
    """The first request's failure, in the shape of the others: when nothing was measured it is all there is."""
    probe = result["probe"]
    if not probe or probe["status"] != "failed":
        return []
    return [{"class": probe["error_class"], "count": 1, "sample": probe["error_sample"], "first_index": 0}]
