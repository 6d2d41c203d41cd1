"""vLLM's /metrics, of any release from 0.8 on: the few numbers a run keeps once a second.

Names moved between releases, so each quantity lists its names newest first, and the first that is there wins. With data
parallelism every engine has its own line: counters and request counts are summed, the KV usage is a share and is never
summed: its mean and maximum are kept. What a release does not report is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

NAMES: dict[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "preemptions": ("vllm:num_preemptions_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "process_start": ("process_start_time_seconds",),
}
COUNTERS = ("prefix_queries", "prefix_hits", "preemptions", "prompt_tokens", "generation_tokens")

# One search for the wanted lines: a page has hundreds, and the load generator must not stall over them.
_LINE = re.compile(
    r"^("
    + "|".join(re.escape(name) for names in NAMES.values() for name in names)
    + r")(?:\{.*\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class EngineSample:
    """Requests, shares (0..1), tokens since the server's start; process_start in seconds since the epoch."""

    running: float | None = None
    waiting: float | None = None
    kv_usage_mean: float | None = None
    kv_usage_max: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    process_start: float | None = None


SAMPLE_FIELDS: tuple[str, ...] = tuple(each.name for each in fields(EngineSample))


def parse_metrics(text: str) -> EngineSample:
    """Read a Prometheus text page; anything unknown or unreadable in it is skipped."""
    values: dict[str, list[float]] = {}
    for name, number in _LINE.findall(text):
        try:
            value = float(number)
        except ValueError:
            continue
        if math.isfinite(value):
            values.setdefault(name, []).append(value)
    found = {quantity: _first(values, names) for quantity, names in NAMES.items()}
    kv_usage = found.pop("kv_usage")
    starts = found.pop("process_start")
    sums = {quantity: sum(numbers) if numbers else None for quantity, numbers in found.items()}
    return EngineSample(
        kv_usage_mean=sum(kv_usage) / len(kv_usage) if kv_usage else None,
        kv_usage_max=max(kv_usage) if kv_usage else None,
        process_start=max(starts) if starts else None,
        **sums,
    )


def difference(before: EngineSample, after: EngineSample) -> dict[str, float | None]:
    """What the counters grew by, and the prefix hit rate of that span (None when nothing was asked for)."""
    first, last = asdict(before), asdict(after)
    grown: dict[str, float | None] = {
        name: None if first[name] is None or last[name] is None else last[name] - first[name] for name in COUNTERS
    }
    queries, hits = grown["prefix_queries"], grown["prefix_hits"]
    grown["prefix_hit_rate"] = hits / queries if queries and hits is not None else None
    return grown


def has_restarted(samples: Sequence[EngineSample]) -> bool:
    """Did the server start anew between two samples? Its start time moved, or a counter ran backwards."""
    return any(_is_other_process(before, after) for before, after in zip(samples, samples[1:]))


def _is_other_process(before: EngineSample, after: EngineSample) -> bool:
    first, last = asdict(before), asdict(after)
    start_a, start_b = before.process_start, after.process_start
    if start_a is not None and start_b is not None and abs(start_a - start_b) > 1:
        return True
    pairs = ((first[name], last[name]) for name in COUNTERS)
    return any(a is not None and b is not None and b < a for a, b in pairs)


def _first(values: dict[str, list[float]], names: tuple[str, ...]) -> list[float]:
    return next((values[name] for name in names if name in values), [])
