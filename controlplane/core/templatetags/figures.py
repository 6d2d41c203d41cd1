"""Geometry of the small SVG figures. Values in, coordinates out; the tags in `ui` write the markup."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.core.templatetags.formats import is_missing

WARN_SHARE = 0.85
BAD_SHARE = 0.95
# Utilisation steps of a GPU cell (share of one): idle, some, most, all.
LEVEL_EDGES = (0.05, 0.4, 0.8)


@dataclass(frozen=True, slots=True)
class Sparkline:
    """`segments` are SVG point lists; a missing value breaks the line. `end` is the last point, if it was measured."""

    segments: list[str]
    end: tuple[float, float] | None
    low: float
    high: float
    last: float | None


def sparkline(values: Sequence[float | None], width: float, height: float) -> Sparkline | None:
    """Scale `values` from their own minimum to maximum into width × height; None when nothing was measured.

    A flat series lies in the middle rather than on the floor, where it would read as zero.
    """
    known = [value for value in values if value is not None and not is_missing(value)]
    if not known:
        return None
    low, high, margin = min(known), max(known), 1.5
    step = (width - 2 * margin) / max(1, len(values) - 1)

    def point(index: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(margin + index * step, 1), round(height - margin - share * (height - 2 * margin), 1)

    places = [None if value is None or is_missing(value) else point(i, value) for i, value in enumerate(values)]
    return Sparkline(
        segments=[" ".join(f"{x:g},{y:g}" for x, y in run) for run in _runs(places)],
        end=places[-1],
        low=low,
        high=high,
        last=None if places[-1] is None else values[-1],
    )


def share_of(used: float, total: float) -> float:
    """`used / total`, held between 0 and 1; nothing of nothing is 0."""
    return min(1.0, max(0.0, used / total)) if total else 0.0


def weight_of(share: float) -> str:
    """The class of a bar this full: "" | "warn" | "bad"."""
    if share >= BAD_SHARE:
        return "bad"
    return "warn" if share >= WARN_SHARE else ""


def level_of(utilisation: float | None) -> int:
    """0 (idle or not measured) to 3 (busy), for the colour of a GPU cell."""
    return 0 if utilisation is None else sum(utilisation >= edge for edge in LEVEL_EDGES)


@dataclass(frozen=True, slots=True)
class Interval:
    """Where low, mid, high and the reference line fall, in pixels of a `width` wide axis."""

    low: float
    mid: float
    high: float
    reference: float | None


def interval(
    low: float, mid: float, high: float, *, scale: tuple[float, float], reference: float, width: float
) -> Interval:
    """Place the interval of a ratio on a logarithmic `scale`, where ×2 and ×0.5 lie equally far from ×1.

    What lies outside the scale is cut off at its ends; so is a bound of zero or below, which has no logarithm.
    """
    start, end = math.log(scale[0]), math.log(scale[1])

    def place(value: float) -> float:
        share = (math.log(value) - start) / (end - start) if value > 0 else 0.0
        return round(min(1.0, max(0.0, share)) * (width - 2) + 1, 1)

    inside = scale[0] <= reference <= scale[1]
    return Interval(place(low), place(mid), place(high), place(reference) if inside else None)


def common_scale(bounds: Iterable[tuple[float | None, float | None]], reference: float = 1.0) -> tuple[float, float]:
    """One scale for the ratios of all rows: every positive bound and the reference, with 5 % of air on both sides."""
    known = [value for pair in bounds for value in pair if value is not None and not is_missing(value) and value > 0]
    low, high = min([*known, reference]), max([*known, reference])
    air = (high / low) ** 0.05 if high > low else 1.05
    return low / air, high * air


def _runs(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Split at the gaps. A lone point becomes two, so that a round line cap draws it."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is None:
            runs.append([])
        else:
            runs[-1].append(place)
    return [run * 2 if len(run) == 1 else run for run in runs if run]
