"""The comparison table as Markdown and CSV: for a chat, a report, a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from controlplane.bench.domain.comparison import COLUMNS, Cell, Row, Spread

MISSING = "–"
# A spreadsheet runs a cell that begins so as a formula (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_markdown(rows: Sequence[Row]) -> str:
    """A GitHub-flavoured table, one line per row, with the notices below it."""
    labels = (column.label for column in COLUMNS)
    head = ["Parameter", "Baseline", "Tuned", *labels, "Errors", "GPU utilisation", "Runs", "Verdict"]
    lines = [_line(head), _line(["---"] * len(head)), *(_line(_cells(row)) for row in rows)]
    notices = list(dict.fromkeys(f"- {_escape(row.arm)}: {_escape(notice)}" for row in rows for notice in row.notices))
    return "\n".join([*lines, *([""] if notices else []), *notices]) + "\n"


def to_csv(rows: Sequence[Row]) -> str:
    """One line per row; of each measure the median, minimum, maximum of both sides, and the ratio; empty is missing."""
    measures = [f"{column.key}_{part}" for column in COLUMNS for part in _PARTS]
    head = ["parameter", "baseline", "tuned", "arm", *measures, "baseline_errors", "tuned_errors"]
    head += ["baseline_gpu", "tuned_gpu", "baseline_runs", "tuned_runs", "verdict", "notices"]
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(head)
    for row in rows:
        numbers = [number for column in COLUMNS for number in _numbers(row.cells[column.key])]
        texts = [row.change.parameter, row.change.baseline or "", row.change.tuned or "", row.arm]
        outcome = [row.baseline_errors, row.tuned_errors, row.baseline_gpu, row.tuned_gpu]
        last = [row.baseline_runs, row.tuned_runs, _harmless(row.verdict.sentence), _harmless(" ".join(row.notices))]
        writer.writerow([*map(_harmless, texts), *numbers, *map(_harmless, outcome), *last])
    return buffer.getvalue()


_PARTS = ("baseline_median", "baseline_min", "baseline_max", "tuned_median", "tuned_min", "tuned_max", "ratio")


def _cells(row: Row) -> list[str]:
    values = (row.change.baseline, row.change.tuned)
    return [
        _escape(row.change.parameter),
        *(MISSING if value is None else _escape(value) for value in values),
        *(_measure(row.cells[column.key]) for column in COLUMNS),
        f"{row.baseline_errors} → {row.tuned_errors}",
        row.tuned_gpu if row.baseline_gpu == row.tuned_gpu else f"{row.baseline_gpu} → {row.tuned_gpu}",
        f"{row.baseline_runs} + {row.tuned_runs}",
        _escape(row.verdict.sentence),
    ]


def _measure(cell: Cell) -> str:
    """`190 (180–200) → 640 (630–655), ×3.37`"""
    both = f"{_side(cell.baseline)} → {_side(cell.tuned)}"
    return both if cell.ratio is None else f"{both}, ×{cell.ratio:.2f}"


def _side(side: Spread | None) -> str:
    if side is None:
        return MISSING
    middle = _number(side.median)
    return middle if side.n == 1 else f"{middle} ({_number(side.minimum)}–{_number(side.maximum)})"


def _number(value: float) -> str:
    """Three significant digits or whole numbers: more would pretend."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _numbers(cell: Cell) -> list[float | str]:
    def parts(side: Spread | None) -> list[float | str]:
        return ["", "", ""] if side is None else [side.median, side.minimum, side.maximum]

    return [*parts(cell.baseline), *parts(cell.tuned), "" if cell.ratio is None else cell.ratio]


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Text that stays one cell and stays text: no pipe, line end, HTML or link of its own."""
    flat = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat).replace("<", "&lt;").replace(">", "&gt;")
