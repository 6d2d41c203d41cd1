"""Numbers and verdicts in words, in the reader's language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from controlplane.bench.domain import records
from controlplane.bench.domain.comparison import COLUMNS, Cell, Change, Row
from controlplane.bench.domain.metrics import DEFINITIONS
from controlplane.bench.domain.validity import INVALID
from controlplane.bench.models import Metric, Run
from controlplane.bench.queries import Comparison, Side
from controlplane.core.templatetags.figures import common_scale

LATENCIES = ("ttft.any.v1", "tpot.excl.v1", "gap.chunk.v1", "e2e.lasttoken.v1", "ttfo.v1")
PERCENTILES = ("p50", "p90", "p95", "p99")
MS_PER_S = 1000.0

COLUMN_WORDS = {
    "throughput": (gettext_lazy("Throughput"), "tok/s", 1.0, 0),
    "ttft_p50": (gettext_lazy("TTFT p50"), "ms", 1.0, 0),
    "ttft_p99": (gettext_lazy("TTFT p99"), "ms", 1.0, 0),
    "tpot_p50": (gettext_lazy("TPOT p50"), "ms", 1.0, 1),
    "tpot_p99": (gettext_lazy("TPOT p99"), "ms", 1.0, 1),
    "e2el_p50": (gettext_lazy("E2EL p50"), "s", MS_PER_S, 2),
    "e2el_p99": (gettext_lazy("E2EL p99"), "s", MS_PER_S, 2),
}
"""Label, unit, what the measured number is divided by to be in that unit, and its decimals."""

ERROR_WORDS = {
    records.CONNECT: gettext_lazy("no connection"),
    records.DISCONNECT: gettext_lazy("the connection broke during the answer"),
    records.TIMEOUT: gettext_lazy("no answer in time"),
    records.ERROR_EVENT: gettext_lazy("an error in the middle of the answer"),
    records.TRUNCATED: gettext_lazy("an answer without its end"),
    records.EMPTY: gettext_lazy("an answer without a token"),
    records.NOT_A_STREAM: gettext_lazy("an answer that is no stream"),
    records.BAD_EVENT: gettext_lazy("an answer that cannot be read"),
    "no_usage": gettext_lazy("an answer that does not count its tokens"),
}


@dataclass(frozen=True)
class LatencyFigures:
    """One line of the table of latencies."""

    label: str
    formula: str
    definition: str
    n: int | None
    values: Sequence[float | None]


@dataclass(frozen=True)
class CellView:
    """One measure of the table, ready to show. `low`, `high`: the smallest and largest ratio of any two runs of
    the sides; None with one run on a side."""

    baseline: float | None
    baseline_range: tuple[float, float] | None
    tuned: float | None
    tuned_range: tuple[float, float] | None
    ratio: float | None
    low: float | None
    high: float | None
    direction: str
    decimals: int


@dataclass(frozen=True)
class SideView:
    """A tuned side: its changes share one set of cells."""

    side: Side
    row: Row
    changes: Sequence[Change]
    cells: Sequence[CellView]
    verdict: str


def error_words(name: str) -> str:
    """The kind of a failed request: "http_503" → "HTTP 503", "timeout" → "no answer in time"."""
    if name.startswith("http_"):
        return f"HTTP {name.removeprefix('http_')}"
    return str(ERROR_WORDS.get(name) or name or _("unknown"))


def figures_of(metrics: Mapping[str, Mapping[str, Metric]]) -> dict[str, Any]:
    """Headline numbers of a run and its table of latencies."""
    latencies = []
    for definition in LATENCIES:
        rows = metrics.get(definition)
        if rows:
            known = DEFINITIONS[definition]
            values = [rows[name].value if name in rows else None for name in PERCENTILES]
            n = next(iter(rows.values())).n
            latencies.append(LatencyFigures(known.label, known.formula, definition, n, values))
    rates = {
        name: row.value
        for name, at in (("wall", "tput.wall.v1"), ("steady", "tput.steady.v1"), ("requests", "rps.wall.v1"))
        if (row := metrics.get(at, {}).get("value"))
    }
    return {"latencies": latencies, "percentiles": PERCENTILES, "rates": rates}


def reasons_against(run: Run) -> list[dict[str, Any]]:
    return [reason for reason in run.reasons if reason.get("severity", INVALID) == INVALID]


def told_warnings(run: Run) -> list[dict[str, Any]]:
    return [reason for reason in run.reasons if reason.get("severity", INVALID) != INVALID]


def side_views(found: Comparison) -> list[SideView]:
    """The table: for each tuned side its changes and cells, in the order of COLUMNS."""
    views = []
    for side in found.tuned:
        row = next(row for row in found.rows if row.arm == side.label)
        cells = [cell_view(row.cells[column.key], column.key) for column in COLUMNS]
        views.append(SideView(side, row, side.arm.changes, cells, verdict_words(row)))
    return views


def scale_of(views: Sequence[SideView]) -> tuple[float, float]:
    """One scale for the bars of all rows and columns."""
    return common_scale((cell.low, cell.high) for view in views for cell in view.cells)


def cell_view(cell: Cell, key: str) -> CellView:
    divisor = COLUMN_WORDS[key][2]
    first, second = cell.baseline, cell.tuned
    has_spread = bool(first and second and min(first.n, second.n) > 1 and first.minimum > 0 and first.maximum > 0)
    return CellView(
        baseline=first.median / divisor if first else None,
        baseline_range=(first.minimum / divisor, first.maximum / divisor) if first and first.n > 1 else None,
        tuned=second.median / divisor if second else None,
        tuned_range=(second.minimum / divisor, second.maximum / divisor) if second and second.n > 1 else None,
        ratio=cell.ratio,
        low=second.minimum / first.maximum if has_spread and first and second else None,
        high=second.maximum / first.minimum if has_spread and first and second else None,
        direction=cell.direction or "",
        decimals=COLUMN_WORDS[key][3],
    )


def notices_of(found: Comparison, views: Sequence[SideView]) -> list[str]:
    """What to know beside the numbers, once each; what does not count is told apart, with its link."""
    told = {f"{side.label}: run {run.pk} is not counted." for side in found.sides for run in found.uncounted}
    notices = dict.fromkeys(notice for view in views for notice in view.row.notices)
    return [notice for notice in notices if not notice.startswith(tuple(told) or ("\0",))]


def best_side(found: Comparison) -> Side | None:
    """The side with the highest median throughput; None while none has a valid run."""
    known = [(value, side) for side in found.sides if (value := _throughput(side)) is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _throughput(side: Side) -> float | None:
    values = [run.output_throughput for run in side.runs if run.state == Run.State.FINISHED]
    measured = [value for value in values if value is not None]
    return median(measured) if measured else None


def heading(found: Comparison, views: Sequence[SideView]) -> str:
    """The comparison in one sentence."""
    if not views:
        return _("Runs of one config: nothing is compared")
    if len(views) > 1:
        return _("%(count)d configs against %(baseline)s") % {"count": len(views), "baseline": found.baseline.label}
    view = views[0]
    return f"{change_words(view.changes)}: {effect_words(view.cells[0])}"


def change_words(changes: Sequence[Change]) -> str:
    if not changes:
        return _("No parameter differs")
    if len(changes) > 1:
        names = ", ".join(change.parameter for change in changes[:3])
        more = ngettext("%(count)d parameter changed", "%(count)d parameters changed", len(changes))
        return f"{more % {'count': len(changes)}} ({names}{' …' if len(changes) > 3 else ''})"
    change = changes[0]
    values = {
        "name": change.parameter,
        "after": _("not set") if change.tuned is None else change.tuned,
        "before": _("not set") if change.baseline is None else change.baseline,
    }
    return _("%(name)s %(after)s instead of %(before)s") % values


def effect_words(throughput: CellView) -> str:
    """What became of the throughput, as far as that was measured."""
    if throughput.ratio is None:
        return _("no valid numbers on both sides")
    if throughput.low is not None and throughput.high is not None:
        values = {"low": f"{throughput.low:.2f}", "high": f"{throughput.high:.2f}"}
        return _("×%(low)s to ×%(high)s the throughput") % values
    return _("×%(ratio)s the throughput") % {"ratio": f"{throughput.ratio:.2f}"}


def verdict_words(row: Row) -> str:
    """The domain's verdict by its code. A verdict may say that it cannot tell."""
    sentence = {
        "no_valid_runs": lambda: _("No verdict: one side has no valid run."),
        "one_run": lambda: _one_run(row),
        "overlap": lambda: _("Cannot tell: the ranges of the runs overlap in every measure."),
        "apart": lambda: _apart(row),
    }[row.verdict.code]()
    if row.verdict.is_single_launch:
        luck = _("The runs of a side are of one launch, so its luck is in all of them: launch again and measure.")
        return f"{sentence} {luck}"
    return sentence


def _one_run(row: Row) -> str:
    if row.baseline_runs == row.tuned_runs == 1:
        return _("One run each: no verdict.")
    return _("One run on one side: no verdict.")


def _apart(row: Row) -> str:
    words = {"better": _("better"), "worse": _("worse")}
    told = [
        f"{COLUMN_WORDS[column.key][0]} {words[direction]}"
        for column in COLUMNS
        if (direction := row.cells[column.key].direction)
    ]
    return _("The ranges of the runs do not touch: %(list)s.") % {"list": ", ".join(told)}
