"""What the engine's own figures say about a server that is up: how busy it is, and whether it still moves.

The figures are kept as one JSON object: `at` (when read), the sample's fields, `output_throughput` (tokens/s since the
look before) and `moved_at` (when tokens last came, or nothing was asked for).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

NO_TOKEN_IS_A_HANG_AFTER = timedelta(minutes=5)
"""Long prompts take minutes to read on a slow machine; a stuck collective takes for ever."""

Figures = Mapping[str, Any]


def is_due(before: Figures, now: datetime, *, every: timedelta) -> bool:
    """Whether the figures are old enough to be read again."""
    read_at = before.get("at")
    return not read_at or now - datetime.fromisoformat(read_at) >= every


def figures(before: Figures, sample: Figures, now: datetime) -> dict[str, Any]:
    """`sample` (protocol.engine_metrics.EngineSample as a dict) as it is kept, after the figures `before`."""
    known = {name: value for name, value in sample.items() if value is not None}
    moved = not known.get("running") or known.get("generation_tokens") != before.get("generation_tokens")
    return {
        **known,
        "at": now.isoformat(),
        "moved_at": now.isoformat() if moved else before.get("moved_at") or now.isoformat(),
        "output_throughput": _throughput(before, known, now),
    }


def no_figures(before: Figures, now: datetime) -> dict[str, Any]:
    """The server did not answer: nothing is known now, save when it last moved."""
    return {"at": now.isoformat(), "moved_at": before.get("moved_at")}


def is_progressing(kept: Figures, now: datetime) -> bool:
    """False when requests run and no token has come for too long."""
    moved_at = kept.get("moved_at")
    return not moved_at or now - datetime.fromisoformat(moved_at) < NO_TOKEN_IS_A_HANG_AFTER


def _throughput(before: Figures, known: Figures, now: datetime) -> float | None:
    """Output tokens a second since the look before; None after a restart or for a first look."""
    earlier, later, read_at = before.get("generation_tokens"), known.get("generation_tokens"), before.get("at")
    if earlier is None or later is None or later < earlier or not read_at:
        return None
    span_s = (now - datetime.fromisoformat(read_at)).total_seconds()
    return (later - earlier) / span_s if span_s > 0 else None
