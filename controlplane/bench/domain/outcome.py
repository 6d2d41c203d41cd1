"""How a run can end, as a state, a process exit code, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from controlplane.bench.domain.validity import INVALID, Reason

# States of result.json
DONE, PROBE_FAILED, WATCHDOG, STOPPED = "done", "probe_failed", "watchdog", "cancelled"


class ExitCode(IntEnum):
    """0 only for a run whose numbers may be used."""

    VALID = 0
    CRASHED = 1  # a fault of the load generator itself; its log has the traceback
    BAD_SPEC = 2
    PROBE_FAILED = 3
    ERROR_BUDGET_EXCEEDED = 4
    WATCHDOG = 5
    CANCELLED = 6
    INVALID = 7  # ran to its end, but a gate of validity.py says the numbers may not be used


SENTENCES: dict[ExitCode, str] = {
    ExitCode.VALID: "The run finished and its numbers may be used.",
    ExitCode.CRASHED: "The load generator itself failed; its log says where.",
    ExitCode.BAD_SPEC: "The spec of the run is wrong.",
    ExitCode.PROBE_FAILED: "The first request failed, so nothing was measured.",
    ExitCode.ERROR_BUDGET_EXCEEDED: "More requests failed than the error budget allows.",
    ExitCode.WATCHDOG: "Nothing started, finished or streamed for the watchdog's time; the run was ended.",
    ExitCode.CANCELLED: "The run was cancelled.",
    ExitCode.INVALID: "The run finished, but its numbers may not be used.",
}


def exit_code(state: str, *, failed: int, planned: int, error_budget: float, reasons: Sequence[Reason]) -> ExitCode:
    """The exit code of a run: its state first, then the error budget (share of planned requests), then the gates."""
    ended_early = {PROBE_FAILED: ExitCode.PROBE_FAILED, WATCHDOG: ExitCode.WATCHDOG, STOPPED: ExitCode.CANCELLED}
    if state in ended_early:
        return ended_early[state]
    if failed > error_budget * planned:
        return ExitCode.ERROR_BUDGET_EXCEEDED
    return ExitCode.INVALID if any(reason.severity == INVALID for reason in reasons) else ExitCode.VALID
