"""What the API takes and gives for workloads, runs and comparisons."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import StringConstraints

from controlplane.bench.models import Metric, Run
from controlplane.bench.queries import Comparison, Side
from controlplane.core.rest import BodyIn

MAX_TEXT = 4000
MAX_SEED = 2**63 - 1
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]
RunState = Literal["queued", "running", "finished", "invalid", "failed", "cancelled"]


class WorkloadOut(Schema):
    id: int
    name: str
    description: str
    spec: dict[str, Any]
    digest: str = Field(description="SHA-256 over what shapes the requests: equal digests and seeds, equal requests.")
    is_built_in: bool
    run_count: int
    last_run_at: datetime | None


class RunFilter(Schema):
    search: str = Field(default="", alias="q", description="In notes and names, or a number.")
    state: str = ""
    workload: str = ""
    config: str = ""
    host: str = ""
    instance: str = ""
    sort: str = ""


class RunIn(BodyIn):
    instance_id: int
    workload: Text = Field(description="A workload's name.")
    note: Text = ""
    seed: int | None = Field(
        default=None,
        ge=0,
        le=MAX_SEED,
        description="null: one of its own. The same for both arms of a comparison sends both the same prompts.",
    )


class RunPatch(BodyIn):
    note: Text


class ReasonOut(Schema):
    """`severity`: invalid, or warning for what to know beside the number."""

    code: str
    sentence: str
    severity: str = "invalid"


class RunOut(Schema):
    """Numbers are null where they were not measured. Latencies of successful requests; definitions under `metrics`."""

    id: int
    state: RunState
    state_since: datetime
    is_cancel_requested: bool
    workload: str
    workload_digest: str
    seed: int
    note: str
    instance_id: int | None
    instance: str | None
    host: str | None
    config: str | None
    config_version: int | None
    config_version_id: int | None
    config_digest: str
    engine_version: str
    engine_build: str
    planned: int
    ok: int | None
    failed: int | None
    cancelled: int | None
    duration_s: float | None
    output_throughput: float | None = Field(description="Output tokens a second over the whole run (tput.wall.v1).")
    ttft_ms_p50: float | None
    ttft_ms_p99: float | None
    tpot_ms_p50: float | None
    tpot_ms_p99: float | None
    e2el_ms_p50: float | None
    e2el_ms_p99: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    gpu_status: str = Field(description="ok, no_gpu, nvidia_smi_failed, off; empty: not known.")
    gpu_utilisation_percent: float | None
    is_instrument_limited: bool
    reasons: list[ReasonOut] = Field(description="Why it is invalid or failed, and warnings.")
    progress: dict[str, Any] = Field(description="While it runs: phase, ok, failed, running, output_tokens, elapsed_s.")
    created_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class MetricOut(Schema):
    definition: str
    statistic: str
    value: float | None
    n: int | None
    unit: str


class RunDetailOut(RunOut):
    errors: list[dict[str, Any]] = Field(description="By class: count, sample body, index of the first.")
    metrics: list[MetricOut]
    attempt_id: int | None
    argv: list[str] = Field(description="The server's command line during the run.")
    host_facts: dict[str, Any]
    spec: dict[str, Any] = Field(description="What the load generator was given.")
    command: list[str]


class SeriesOut(Schema):
    """Columns with one value a second of the run's clock `t`; null where nothing was sampled."""

    run_id: int
    series: dict[str, list[float | None]]


class RequestsOut(Schema):
    """Per request, column by column, in the order of sending. Never a prompt or an answer: lengths and hashes."""

    run_id: int
    columns: dict[str, list[Any]]


class SpreadOut(Schema):
    """n runs: their median and range."""

    n: int
    median: float
    minimum: float
    maximum: float


class CellOut(Schema):
    """`ratio`: tuned by baseline, of the medians. `direction` only where the ranges of two or more runs a side are
    apart: a range of runs is no confidence interval."""

    baseline: SpreadOut | None
    tuned: SpreadOut | None
    ratio: float | None
    direction: Literal["better", "worse"] | None


class ChangeOut(Schema):
    parameter: str
    baseline: str | None = Field(description="null: not set.")
    tuned: str | None


class VerdictOut(Schema):
    """`code`: one_run, no_valid_runs, overlap or apart."""

    code: Literal["one_run", "no_valid_runs", "overlap", "apart"]
    sentence: str
    is_single_launch: bool


class ComparisonRowOut(Schema):
    change: ChangeOut
    arm: str
    cells: dict[str, CellOut] = Field(
        description="throughput (tok/s), ttft_p50, ttft_p99, tpot_p50, tpot_p99, e2el_p50, e2el_p99 (ms)."
    )
    baseline_errors: str = Field(description="Failed of planned requests.")
    tuned_errors: str
    baseline_gpu: str
    tuned_gpu: str
    baseline_runs: int
    tuned_runs: int
    verdict: VerdictOut
    notices: list[str]


class SideOut(Schema):
    """Runs of one config on one engine and host. `valid_run_ids` are in the numbers."""

    label: str
    config_version_id: int | None
    run_ids: list[int]
    valid_run_ids: list[int]
    changes: list[ChangeOut]


class UncountedOut(Schema):
    run_id: int
    state: RunState
    reasons: list[ReasonOut]


class ComparisonOut(Schema):
    """`rows`: one per changed parameter of each tuned config. A verdict may say that it cannot tell."""

    workload: str
    workload_digest: str
    baseline: SideOut
    tuned: list[SideOut]
    rows: list[ComparisonRowOut]
    uncounted: list[UncountedOut] = Field(description="Runs that are in none of the numbers, with their reasons.")
    held_fixed: dict[str, str]
    differing: dict[str, str] = Field(description="What is unlike besides the config.")
    url: str


def comparison_out(found: Comparison, *, url: str) -> dict[str, Any]:
    return {
        "workload": found.workload,
        "workload_digest": found.workload_digest,
        "baseline": _side_out(found.baseline),
        "tuned": [_side_out(side) for side in found.tuned],
        "rows": [asdict(row) for row in found.rows],
        "uncounted": [{"run_id": run.pk, "state": run.state, "reasons": run.reasons} for run in found.uncounted],
        "held_fixed": dict(found.fixed),
        "differing": dict(found.differing),
        "url": url,
    }


def _side_out(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "config_version_id": side.version.pk if side.version else None,
        "run_ids": [run.pk for run in side.runs],
        "valid_run_ids": side.valid_ids,
        "changes": [asdict(change) for change in side.arm.changes],
    }


def workload_out(workload: Any) -> dict[str, Any]:
    return {name: getattr(workload, name) for name in WorkloadOut.model_fields}


def run_out(run: Run) -> dict[str, Any]:
    version = run.config_version
    return {
        **{name: getattr(run, name) for name in _RUN_FIELDS},
        "workload": run.workload.name,
        "instance": run.instance.name if run.instance else None,
        "host": run.host.name if run.host else None,
        "config": version.config.name if version else None,
        "config_version": version.number if version else None,
    }


def run_detail_out(run: Run) -> dict[str, Any]:
    also = ("errors", "attempt_id", "argv", "host_facts", "spec", "command")
    return {
        **run_out(run),
        **{name: getattr(run, name) for name in also},
        "metrics": [metric_out(row) for row in run.metrics.all()],
    }


def metric_out(row: Metric) -> dict[str, Any]:
    return {name: getattr(row, name) for name in MetricOut.model_fields}


_JOINED = {"workload", "instance", "host", "config", "config_version"}
_RUN_FIELDS = tuple(name for name in RunOut.model_fields if name not in _JOINED)
