"""Markup of the small SVG figures: no inline style (the CSP forbids it), sizes as attributes, colours by class."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from controlplane.core.templatetags import figures, formats
from controlplane.core.templatetags.states import SHAPES, look_of

GPU_WIDTH, GPU_HEIGHT = 18, 34
SQUARE = 14


def _lines(css_class: str, ends: Sequence[tuple[Any, Any, Any, Any]]) -> SafeString:
    return format_html_join(
        "", '<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>', ((css_class, *points) for points in ends)
    )


_CELL = f'<svg width="{GPU_WIDTH}" height="{GPU_HEIGHT}" viewBox="0 0 {GPU_WIDTH} {GPU_HEIGHT}" role="img">'
_FRAME = f'<rect class="gpu-frame" x="0.5" y="0.5" width="{GPU_WIDTH - 1}" height="{GPU_HEIGHT - 1}" rx="2"/>'
_HATCH = _lines("gpu-hatch", [(1, y, GPU_WIDTH - 1, y - 10) for y in range(12, GPU_HEIGHT, 7)])
_CROSS = _lines("gpu-cross", [(2, 2, GPU_WIDTH - 2, GPU_HEIGHT - 2), (2, GPU_HEIGHT - 2, GPU_WIDTH - 2, 2)])


@cache
def shape(name: str, size: int = 12) -> SafeString:
    """A state's shape as SVG, coloured by the tone class of its parent."""
    return format_html(
        '<svg width="{0}" height="{0}" viewBox="0 0 12 12" aria-hidden="true">{1}</svg>',
        size,
        mark_safe(SHAPES[name]),  # noqa: S308  # a constant of ours
    )


def sparkline(values: Sequence[float | None], label: str, width: int, height: int) -> SafeString | None:
    """The line, with its last point marked; None when there is nothing to draw."""
    line = figures.sparkline(values, width, height)
    if line is None:
        return None
    description = _("%(label)s: from %(low)s to %(high)s, last %(last)s") % {
        "label": label,
        "low": formats.number(line.low),
        "high": formats.number(line.high),
        "last": formats.DASH if line.last is None else formats.number(line.last),
    }
    end = format_html('<circle class="spark-end" cx="{}" cy="{}" r="1.75"/>', *line.end) if line.end else ""
    return format_html(
        '<svg class="figure-inline" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img">'
        "<title>{2}</title>{3}{4}</svg>",
        width,
        height,
        description,
        format_html_join("", '<polyline class="spark-line" points="{}"/>', ((points,) for points in line.segments)),
        end,
    )


def bar(share: float, width: int, label: str) -> SafeString:
    """A horizontal bar filled to `share` (0 to 1); amber from 85 %, red from 95 %."""
    return format_html(
        '<svg class="figure-inline" width="{0}" height="8" viewBox="0 0 {0} 8" role="img"><title>{1}</title>'
        '<rect class="bar-track" width="{0}" height="8" rx="2"/>'
        '<rect class="bar-fill {2}" width="{3}" height="8" rx="2"/></svg>',
        width,
        label,
        figures.weight_of(share),
        f"{share * width:.1f}",
    )


def gpu_cell(
    *,
    used_bytes: float | None,
    total_bytes: float | None,
    utilisation: float | None,
    foreign: bool,
    unreachable: bool,
    label: str,
) -> SafeString:
    """One GPU: height = memory used, colour = utilisation (0 to 1), hatched = foreign process, cross = unreachable.

    A page draws two hundred of them: what is the same in all is put together once, and only the label needs escaping.
    """
    filled = round(figures.share_of(used_bytes or 0, total_bytes or 0) * (GPU_HEIGHT - 2), 1)
    level = (
        f'<rect class="gpu-level-{figures.level_of(utilisation)}" x="1" y="{GPU_HEIGHT - 1 - filled:g}"'
        f' width="{GPU_WIDTH - 2}" height="{filled:g}"/>'
    )
    marks = _CROSS if unreachable else level + _HATCH if foreign else level
    return mark_safe(f"{_CELL}<title>{conditional_escape(label)}</title>{_FRAME}{marks}</svg>")  # noqa: S308


def interval_bar(
    low: float, mid: float, high: float, *, scale: tuple[float, float], reference: float, verdict: str, width: int
) -> SafeString:
    """A confidence interval on a common scale, with the line of no change."""
    place = figures.interval(low, mid, high, scale=scale, reference=reference, width=width)
    line = (
        format_html('<line class="interval-one" x1="{0}" x2="{0}" y1="1" y2="15"/>', place.reference)
        if place.reference is not None
        else ""
    )
    return format_html(
        '<svg class="interval figure-inline {0}" width="{1}" height="16" viewBox="0 0 {1} 16" role="img">'
        "<title>{2}</title>{3}"
        '<line class="interval-span" x1="{4}" x2="{5}" y1="8" y2="8"/>'
        '<line class="interval-span" x1="{4}" x2="{4}" y1="5" y2="11"/>'
        '<line class="interval-span" x1="{5}" x2="{5}" y1="5" y2="11"/>'
        '<circle class="interval-mid" cx="{6}" cy="8" r="3.5"/></svg>',
        verdict if verdict in {"better", "worse"} else "",
        width,
        _("%(mid)s, between %(low)s and %(high)s")
        % {"mid": formats.ratio(mid), "low": formats.ratio(low), "high": formats.ratio(high)},
        line,
        place.low,
        place.high,
        place.mid,
    )


def square(state: str, label: str) -> SafeString:
    """An instance as a square: tone by colour, the state's shape inside it."""
    look = look_of(state)
    return format_html(
        '<svg class="tone-{0}" width="{1}" height="{1}" viewBox="-2 -2 16 16" role="img"><title>{2}</title>'
        '<rect x="-1.25" y="-1.25" width="14.5" height="14.5" rx="2" fill="none" stroke="currentColor"'
        ' stroke-width="1.5"/>{3}</svg>',
        look.tone,
        SQUARE,
        label,
        mark_safe(SHAPES[look.shape]),  # noqa: S308  # a constant of ours
    )
