"""How a running load stands: rates and the time that is left, out of the progress file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Standing:
    """`phase`: preparing, probe, warmup, measure, done. Rates and the rest are None until something can be told."""

    phase: str
    done: int
    in_flight: int
    failed: int
    output_tokens: int
    elapsed_s: float | None
    tokens_per_s: float | None
    left_s: float | None


def standing(progress: Mapping[str, Any], *, planned: int, planned_tokens: int) -> Standing:
    """`planned_tokens`: output tokens of all planned requests together, 0 when answers may stop by themselves.

    Tokens tell the time that is left better than requests, which all end at once when they are one wave.
    """
    done = int(progress.get("ok", 0)) + int(progress.get("failed", 0))
    tokens = int(progress.get("output_tokens", 0))
    elapsed_s, since_s = progress.get("elapsed_s"), progress.get("measuring_since_s")
    measuring_s = None if elapsed_s is None or since_s is None else elapsed_s - since_s
    rate = tokens / measuring_s if measuring_s and tokens else None
    left_s = None
    if rate and planned_tokens:
        left_s = max(0.0, planned_tokens - tokens) / rate
    elif measuring_s and done:
        left_s = (planned - done) * measuring_s / done
    return Standing(
        phase=str(progress.get("phase", "preparing")),
        done=done,
        in_flight=int(progress.get("running", 0)),
        failed=int(progress.get("failed", 0)),
        output_tokens=tokens,
        elapsed_s=elapsed_s,
        tokens_per_s=rate,
        left_s=left_s,
    )
