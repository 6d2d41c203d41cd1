"""How a figure is written. Plain functions from values to text; `None` is "not measured", never zero.

Thousands are separated by a comma in both languages of the product; a unit belongs in the column header, so most
functions return the bare number.
"""

import math
import re
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

DASH = "–"
KIB = 1024
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
# From here on "41 days ago" says less than the date itself.
DATE_AFTER_S = 30 * DAY_S

_PROCESS = r"^(?:\([^)]*\)\s*)*"  # "(EngineCore pid=12) "
_LEVEL = re.compile(_PROCESS + r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_TRACE = re.compile(
    _PROCESS + r"(?:Traceback \(most recent call last\)|[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?::|$))"
)


def is_missing(value: object) -> bool:
    """True for what was not measured: None, an empty text, a float that is no number."""
    return value is None or value == "" or (isinstance(value, float) and not math.isfinite(value))


def number(value: float, decimals: int | None = None) -> str:
    """1234567 → "1,234,567"; with `decimals`, 3.14159 → "3.14". Without it a float keeps three significant digits."""
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.{_decimals_for(value)}f}"


def binary_size(size_bytes: float) -> str:
    """Bytes in the largest binary unit that leaves at least 1: 85899345920 → "80 GiB"."""
    amount, unit = float(size_bytes), 0
    while abs(amount) >= KIB and unit < len(BINARY_UNITS) - 1:
        amount, unit = amount / KIB, unit + 1
    decimals = 0 if unit == 0 or amount == round(amount) else _decimals_for(amount)
    text = f"{amount:,.{decimals}f}" if unit else f"{amount:.0f}"
    return f"{text} {BINARY_UNITS[unit]}"


def milliseconds(value_ms: float) -> str:
    """A latency in ms with three significant digits and its unit; from one second on, in seconds."""
    if abs(value_ms) >= 999.5:
        return f"{value_ms / 1000:,.{_decimals_for(value_ms / 1000)}f} s"
    return f"{value_ms:.{_decimals_for(value_ms)}f} ms"


def seconds(value_s: float) -> str:
    """A duration: 0.42 → "0.42 s", 95 → "1 min 35 s", 7260 → "2 h 1 min", 180000 → "2 d 2 h"."""
    if abs(value_s) < MINUTE_S - 0.05:
        return f"{value_s:.{_decimals_for(value_s)}f} s"
    whole = round(value_s)
    if whole < HOUR_S:
        return _pair(whole // MINUTE_S, "min", whole % MINUTE_S, "s")
    if whole < DAY_S:
        return _pair(whole // HOUR_S, "h", whole % HOUR_S // MINUTE_S, "min")
    return _pair(whole // DAY_S, "d", whole % DAY_S // HOUR_S, "h")


def ratio(value: float) -> str:
    """1.2512 → "×1.25"."""
    return f"×{value:.2f}"


def percent(share: float) -> str:
    """A share of one: 0.412 → "41 %", 0.004 → "0.4 %"; 0 and 1 are exact, so 0.9999 is "99.9 %", not "100 %"."""
    amount = share * 100
    if share in {0, 1} or 1 <= amount < 99:
        return f"{amount:.0f} %"
    if 99 <= amount < 100:
        return f"{math.floor(amount * 10) / 10:.1f} %"
    return f"{amount:.1f} %" if amount < 1 else f"{amount:,.0f} %"


def relative_time(then: datetime, now: datetime) -> str:
    """ "12 s ago", "in 5 min"; the date once it is over thirty days away."""
    distance: timedelta = now - then
    away_s = abs(distance.total_seconds())
    if away_s >= DATE_AFTER_S:
        return then.strftime("%Y-%m-%d")
    if away_s < 1:
        return _("just now")
    text = _coarse(int(away_s))
    return _("%(time)s ago") % {"time": text} if distance > timedelta(0) else _("in %(time)s") % {"time": text}


def lasting(since: datetime, now: datetime) -> str:
    """ "for 3 min"; "since 2026-10-01" once that is over thirty days away."""
    away_s = (now - since).total_seconds()
    if away_s >= DATE_AFTER_S:
        return _("since %(date)s") % {"date": since.strftime("%Y-%m-%d")}
    return _("for %(time)s") % {"time": _coarse(max(0, int(away_s)))}


def log_level(line: str) -> str:
    """The level of a line of vLLM's log: error, warning, info, debug, or "" when the line does not say.

    vLLM writes `(EngineCore pid=12) ERROR 11-29 13:20:19 [core.py:1] …`; a bare traceback has none and is an error.
    """
    if found := _LEVEL.match(line):
        level = found[1].lower()
        return "error" if level == "critical" else level
    return "error" if _TRACE.match(line) else ""


def _decimals_for(value: float) -> int:
    """Decimals that leave about three significant digits."""
    size = abs(value)
    if size >= 100 or size == 0:
        return 0
    if size >= 10:
        return 1
    return 2 if size >= 0.1 else 3


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


def _coarse(away_s: int) -> str:
    if away_s < MINUTE_S:
        return f"{away_s} s"
    if away_s < HOUR_S:
        return f"{away_s // MINUTE_S} min"
    if away_s < DAY_S:
        return f"{away_s // HOUR_S} h"
    days = away_s // DAY_S
    return ngettext("%(days)d day", "%(days)d days", days) % {"days": days}
