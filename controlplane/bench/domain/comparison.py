"""The comparison table: what changed between two configs, what it did, and how much of that can be said honestly.

With one run a side there is no verdict. With more, all that is said is whether the ranges of the runs overlap: a range
is no confidence interval, and runs on one launch share its luck, so that is named too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from controlplane.bench.domain.metrics import DEFINITIONS, HIGHER
from controlplane.bench.domain.validity import INVALID, Reason, assess_pair


class Incomparable(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """Runs whose numbers do not stand side by side; the text says why."""


@dataclass(frozen=True)
class Column:
    """One measure of the table: a statistic of a definition. `key` is stable, `label` carries the unit."""

    key: str
    definition_id: str
    statistic: str
    label: str

    @property
    def better(self) -> str:
        return DEFINITIONS[self.definition_id].better


COLUMNS: tuple[Column, ...] = (
    Column("throughput", "tput.wall.v1", "value", "Throughput (tok/s)"),
    Column("ttft_p50", "ttft.any.v1", "p50", "TTFT p50 (ms)"),
    Column("ttft_p99", "ttft.any.v1", "p99", "TTFT p99 (ms)"),
    Column("tpot_p50", "tpot.excl.v1", "p50", "TPOT p50 (ms)"),
    Column("tpot_p99", "tpot.excl.v1", "p99", "TPOT p99 (ms)"),
    Column("e2el_p50", "e2e.lasttoken.v1", "p50", "E2EL p50 (ms)"),
    Column("e2el_p99", "e2e.lasttoken.v1", "p99", "E2EL p99 (ms)"),
)


@dataclass(frozen=True)
class RunSummary:
    """What a comparison needs of one run. `metrics` as in result.json; None in it is "not measured".

    launch_id       the launch the run was made on; None when that is not known
    gpu_status      "ok", or why there is no reading (gpu_samples: no_gpu, nvidia_smi_failed, off)
    """

    run_id: str
    launch_id: str | None
    workload_hash: str
    metrics: Mapping[str, Mapping[str, Any]]
    planned: int
    failed: int
    prompt_tokens: int | None
    output_tokens: int | None
    gpu_status: str
    gpu_utilisation_percent: float | None
    is_valid: bool
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def from_result(cls, result: Mapping[str, Any], *, run_id: str, launch_id: str | None) -> RunSummary:
        """Read a result.json of the load generator; KeyError when it is not one."""
        return cls(
            run_id=run_id,
            launch_id=launch_id,
            workload_hash=result["workload_hash"],
            metrics=result["metrics"] or {},
            planned=result["counts"]["planned"],
            failed=result["counts"]["failed"],
            prompt_tokens=result["tokens"]["prompt"],
            output_tokens=result["tokens"]["output"],
            gpu_status=result["gpu"]["status"],
            gpu_utilisation_percent=result["gpu"]["utilisation_mean_percent"],
            is_valid=result["is_valid"],
            reasons=tuple(Reason(each["code"], each["sentence"], each["severity"]) for each in result["reasons"]),
        )

    def value(self, column: Column) -> float | None:
        return (self.metrics.get(column.definition_id) or {}).get(column.statistic)


@dataclass(frozen=True)
class Change:
    """One parameter that differs; None means that the config does not set it."""

    parameter: str
    baseline: str | None
    tuned: str | None


@dataclass(frozen=True)
class Arm:
    """Runs of one config. `changes` against the baseline's flattened content; empty for the baseline itself."""

    label: str
    runs: tuple[RunSummary, ...]
    changes: tuple[Change, ...] = ()

    @property
    def valid_runs(self) -> tuple[RunSummary, ...]:
        return tuple(run for run in self.runs if run.is_valid)

    @property
    def is_single_launch(self) -> bool:
        """Do several runs all rest on one launch? Then they are no independent samples of the config."""
        launches = {run.launch_id for run in self.valid_runs}
        return len(self.valid_runs) > 1 and len(launches) == 1 and None not in launches


@dataclass(frozen=True)
class Spread:
    """n runs: their median and range."""

    n: int
    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Cell:
    """One measure of both arms. ratio = tuned ÷ baseline of the medians; direction only when the ranges are apart."""

    baseline: Spread | None
    tuned: Spread | None
    ratio: float | None
    direction: str | None  # "better", "worse", or None: cannot tell


@dataclass(frozen=True)
class Verdict:
    """code: one_run, no_valid_runs, overlap, apart, single_launch is told by the sentence and the flag beside it."""

    code: str
    sentence: str
    is_single_launch: bool = False


@dataclass(frozen=True)
class Row:
    """One changed parameter of one tuned arm. Arms that changed several have several rows with the same cells."""

    change: Change
    arm: str
    cells: Mapping[str, Cell]
    baseline_errors: str
    tuned_errors: str
    baseline_gpu: str
    tuned_gpu: str
    baseline_runs: int
    tuned_runs: int
    verdict: Verdict
    notices: tuple[str, ...]


NO_CHANGE = Change("(no parameter differs)", None, None)


def compare(baseline: Arm, tuned: Sequence[Arm]) -> list[Row]:
    """The table's rows, in the order of arms and changes; raises Incomparable for runs of unlike workloads."""
    hashes = {run.workload_hash for arm in (baseline, *tuned) for run in arm.runs}
    if len(hashes) > 1:
        raise Incomparable(f"these runs are of {len(hashes)} different workloads; choose runs of one workload")
    return [row for arm in tuned for row in _rows(baseline, arm)]


def spread(values: Sequence[float | None]) -> Spread | None:
    """Median and range of what was measured; None when nothing was."""
    known = [value for value in values if value is not None]
    return Spread(len(known), median(known), min(known), max(known)) if known else None


def _rows(baseline: Arm, tuned: Arm) -> list[Row]:
    cells = {column.key: _cell(column, baseline, tuned) for column in COLUMNS}
    return [
        Row(
            change=change,
            arm=tuned.label,
            cells=cells,
            baseline_errors=_errors(baseline),
            tuned_errors=_errors(tuned),
            baseline_gpu=_gpu(baseline),
            tuned_gpu=_gpu(tuned),
            baseline_runs=len(baseline.valid_runs),
            tuned_runs=len(tuned.valid_runs),
            verdict=_verdict(cells, baseline, tuned),
            notices=_notices(baseline, tuned),
        )
        for change in tuned.changes or (NO_CHANGE,)
    ]


def _cell(column: Column, baseline: Arm, tuned: Arm) -> Cell:
    first = spread([run.value(column) for run in baseline.valid_runs])
    second = spread([run.value(column) for run in tuned.valid_runs])
    if first is None or second is None:
        return Cell(first, second, None, None)
    ratio = second.median / first.median if first.median else None
    return Cell(first, second, ratio, _direction(column, first, second))


def _direction(column: Column, first: Spread, second: Spread) -> str | None:
    """better or worse, only with two runs or more a side and ranges that do not even touch."""
    if min(first.n, second.n) < 2:
        return None
    if second.minimum > first.maximum:
        return "better" if column.better == HIGHER else "worse"
    if second.maximum < first.minimum:
        return "worse" if column.better == HIGHER else "better"
    return None


def _verdict(cells: Mapping[str, Cell], baseline: Arm, tuned: Arm) -> Verdict:
    runs = (len(baseline.valid_runs), len(tuned.valid_runs))
    if min(runs) == 0:
        side = "baseline" if runs[0] == 0 else "tuned config"
        return Verdict("no_valid_runs", f"No verdict: the {side} has no valid run.")
    if runs == (1, 1):
        return Verdict("one_run", "One run each: no verdict.")
    if min(runs) == 1:
        return Verdict("one_run", "One run on one side: no verdict.")
    is_single = baseline.is_single_launch or tuned.is_single_launch
    apart = [f"{column.label} {cells[column.key].direction}" for column in COLUMNS if cells[column.key].direction]
    told = f"Ranges do not overlap: {', '.join(apart)}." if apart else "Ranges overlap: cannot tell."
    return Verdict("apart" if apart else "overlap", f"{told} Single launch." if is_single else told, is_single)


def _notices(baseline: Arm, tuned: Arm) -> tuple[str, ...]:
    """What a reader of the row must know beside the numbers."""
    notices = []
    if len(tuned.changes) > 1:
        notices.append(f"{len(tuned.changes)} parameters changed at once: the effect belongs to all of them together.")
    for arm in (baseline, tuned):
        for run in arm.runs:
            if not run.is_valid:
                why = " ".join(reason.sentence for reason in run.reasons if reason.severity == INVALID)
                notices.append(f"{arm.label}: run {run.run_id} is not counted. {why}".rstrip())
    parity = assess_pair(
        baseline_output=[run.output_tokens for run in baseline.valid_runs],
        tuned_output=[run.output_tokens for run in tuned.valid_runs],
        baseline_prompt=[run.prompt_tokens for run in baseline.valid_runs],
        tuned_prompt=[run.prompt_tokens for run in tuned.valid_runs],
    )
    return (*notices, *(reason.sentence for reason in parity))


def _errors(arm: Arm) -> str:
    """Failed of planned, over all runs, the invalid ones too: errors are what made them so."""
    return f"{sum(run.failed for run in arm.runs)}/{sum(run.planned for run in arm.runs)}"


def _gpu(arm: Arm) -> str:
    """Median of the runs' mean utilisation, or why there is none."""
    known = spread([run.gpu_utilisation_percent for run in arm.valid_runs])
    if known:
        return f"{known.median:.0f} %"
    statuses = {run.gpu_status for run in arm.runs}
    if statuses == {"no_gpu"}:
        return "no GPU"
    return "GPU not readable" if "nvidia_smi_failed" in statuses else "not measured"
