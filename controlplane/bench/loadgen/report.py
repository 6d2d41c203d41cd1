"""From what a run saw to result.json."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.bench.domain import metrics, outcome, records
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.domain.spec import RunSpec
from controlplane.bench.domain.validity import Reason, RunFacts, assess_run
from controlplane.bench.loadgen.lag import LagProbe
from controlplane.bench.loadgen.sampling import EngineSampler, GpuSampler

SCHEMA = "controlplane.loadgen.result/1"


@dataclass(frozen=True)
class Observation:
    """All that a run saw. `words` is the fitted prompt size, None unless the workload aims at tokens."""

    spec: RunSpec
    state: str
    started_at: float
    probe: RequestRecord | None
    words: int | None
    warmups: Sequence[RequestRecord]
    measured: Sequence[RequestRecord]
    lag: LagProbe
    engine: EngineSampler | None
    gpu: GpuSampler


def build_result(run: Observation) -> tuple[dict[str, Any], dict[str, Any], ExitCode]:
    """Columns of requests.json.gz, the content of result.json, and the exit code they mean."""
    planned = run.spec.workload.requests
    counts = records.count_by_status(run.measured, planned=planned)
    has_measured = run.state != outcome.PROBE_FAILED
    summary = (
        metrics.summarise(run.measured, concurrency=run.spec.workload.concurrency, slo=run.spec.slo)
        if has_measured
        else None
    )
    reasons = _reasons(run, summary, counts)
    code = outcome.exit_code(
        run.state, failed=counts["failed"], planned=planned, error_budget=run.spec.error_budget, reasons=reasons
    )
    result = {
        "schema": SCHEMA,
        "run_id": run.spec.run_id,
        "state": run.state,
        "exit_code": int(code),
        "sentence": outcome.SENTENCES[code],
        "is_valid": code == ExitCode.VALID,
        "reasons": [{"code": each.code, "sentence": each.sentence, "severity": each.severity} for each in reasons],
        "workload_hash": run.spec.workload.content_hash,
        "seed": run.spec.seed,
        "spec": run.spec.to_json(),
        "started_at": run.started_at,
        "ended_at": time.time(),
        "counts": counts,
        "errors": records.group_errors(run.measured),
        "probe": _probe(run.probe),
        "warmup": _warmup(run.warmups),
        "fitted_words": run.words,
        "tokens": _tokens(run.measured),
        "wall_s": metrics.wall_s(run.measured),
        "metrics": summary,
        "instrument": _instrument(run),
        "engine": run.engine.report() if run.engine else None,
        "gpu": run.gpu.report(),
        "output_per_second": _per_second(run.measured),
    }
    return records.to_columns(run.measured), result, code


def _reasons(run: Observation, summary: dict[str, dict[str, Any]] | None, counts: dict[str, int]) -> list[Reason]:
    if summary is None:
        return [Reason("probe_failed", "The first request failed; nothing was measured.")]
    good = [record for record in run.measured if record.status == records.OK]
    target = run.spec.workload.prompt_tokens
    misses = [abs(each.prompt_tokens - target) / target for each in good if target and each.prompt_tokens is not None]
    instrument = run.lag.summary()
    window = metrics.loaded_window(run.measured, concurrency=run.spec.workload.concurrency)
    return assess_run(
        RunFacts(
            planned=counts["planned"],
            ok=counts["ok"],
            failed=counts["failed"],
            cancelled=counts["cancelled"],
            truncated=sum(record.error_class == records.TRUNCATED for record in run.measured),
            output_tokens=metrics.output_tokens(good),
            planned_output_tokens=len(good) * run.spec.workload.max_tokens if run.spec.workload.ignore_eos else None,
            worst_prompt_miss=max(misses, default=None),
            lag_p95_ms=instrument["lag_p95_ms"],
            lag_p99_ms=instrument["lag_p99_ms"],
            lag_ticks=len(run.lag.lags),
            cpu_share=instrument["cpu_share"],
            ttft_p50_ms=summary["ttft.any.v1"]["p50"],
            concurrency=run.spec.workload.concurrency,
            in_flight_seen=run.engine.in_flight(window) if run.engine else (),
            is_restarted=run.engine.is_restarted() if run.engine else False,
        )
    )


def _probe(record: RequestRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    names = ("status", "http_status", "error_class", "error_sample", "prompt_tokens", "output_tokens")
    return {**{name: getattr(record, name) for name in names}, "ttft_ms": metrics.ttft_ms(record)}


def _warmup(warmups: Sequence[RequestRecord]) -> dict[str, Any]:
    """Reported, never measured: a cold start shows here."""
    waits = [wait for wait in map(metrics.ttft_ms, warmups) if wait is not None]
    by_status = records.count_by_status(warmups, planned=len(warmups))
    return {**by_status, "ttft_max_ms": max(waits, default=None), "errors": records.group_errors(warmups)}


def _tokens(measured: Sequence[RequestRecord]) -> dict[str, int | None]:
    """Of successful requests. Chunks are a cross-check: more tokens than chunks means several tokens travel in one."""
    good = [record for record in measured if record.status == records.OK]
    cached = [record.cached_tokens for record in good if record.cached_tokens is not None]
    return {
        "prompt": metrics.prompt_tokens(good),
        "output": metrics.output_tokens(good),
        "cached_prompt": sum(cached) if cached else None,
        "chunks": sum(len(record.stamps) for record in good),
        "discarded_chunks": sum(len(record.stamps) for record in measured if record.status != records.OK),
    }


def _instrument(run: Observation) -> dict[str, Any] | None:
    """How the client itself fared; None when it measured nothing."""
    if not run.measured:
        return None
    summary = run.lag.summary()
    delays = ((each.sent_s - each.asked_s) * 1e3 for each in run.measured if each.asked_s is not None)
    streamed = sum(record.output_tokens or len(record.stamps) for record in run.measured)
    loop = asyncio.get_running_loop()
    return {
        **summary,
        "send_delay_ms": metrics.describe(delays, unit="ms"),
        "cpu_s_per_1000_tokens": summary["cpu_s"] / streamed * 1000 if streamed else None,
        "nice": os.nice(0),
        "autogroup": _autogroup(),
        "python": platform.python_version(),
        "event_loop": type(loop).__module__.split(".")[0],
    }


def _autogroup() -> str | None:
    """The scheduler's group of this session and its nice value, as Linux says it ("/autogroup-7 nice -10")."""
    try:
        return Path("/proc/self/autogroup").read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def _per_second(measured: Sequence[RequestRecord]) -> dict[str, Any]:
    """Output tokens by second of the run (chunks weighted as in tput.steady.v1), successful requests only."""
    weights: dict[int, float] = {}
    for record in measured:
        if record.status != records.OK or not record.stamps or record.output_tokens is None:
            continue
        weight = record.output_tokens / len(record.stamps)
        for stamp in record.stamps:
            weights[int(stamp)] = weights.get(int(stamp), 0.0) + weight
    seconds = range(min(weights), max(weights) + 1) if weights else range(0)
    return {"t_s": list(seconds), "tokens": [round(weights.get(second, 0.0), 2) for second in seconds]}
