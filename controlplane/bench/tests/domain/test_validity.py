from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.bench.domain.outcome import DONE, PROBE_FAILED, STOPPED, WATCHDOG, ExitCode, exit_code
from controlplane.bench.domain.validity import INVALID, WARNING, Reason, RunFacts, assess_pair, assess_run

GOOD = RunFacts(
    planned=1000,
    ok=1000,
    failed=0,
    cancelled=0,
    truncated=0,
    output_tokens=8000,
    planned_output_tokens=8000,
    worst_prompt_miss=None,
    lag_p95_ms=1.0,
    lag_p99_ms=3.0,
    lag_ticks=500,
    cpu_share=0.4,
    ttft_p50_ms=100.0,
    concurrency=64,
    in_flight_seen=(60.0, 64.0, 63.0),
    is_restarted=False,
)


def codes(**changes: object) -> list[str]:
    return [reason.code for reason in assess_run(replace(GOOD, **changes))]  # type: ignore[arg-type]


def test_a_clean_run_has_no_reasons() -> None:
    assert codes() == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"failed": 2}, "failed_requests"),
        ({"truncated": 1}, "truncated_streams"),
        ({"cancelled": 1}, "incomplete"),
        ({"output_tokens": None}, "no_usage"),
        ({"ok": 0, "output_tokens": None}, "no_tokens"),
        ({"output_tokens": 7950}, "output_tokens_off_plan"),
        ({"worst_prompt_miss": 0.011}, "prompt_tokens_off_plan"),
        ({"lag_p95_ms": 20.1, "lag_p99_ms": 30.0}, "instrument_lag"),
        ({"lag_p99_ms": 20.1}, "instrument_stalls"),
        ({"cpu_share": 0.91}, "instrument_cpu"),
        ({"in_flight_seen": (10.0, 60.0, 11.0)}, "concurrency_not_seen"),
        ({"is_restarted": True}, "server_restarted"),
    ],
)
def test_each_gate_closes_just_beyond_its_limit(changes: dict[str, object], code: str) -> None:
    assert codes(**changes) == [code]


@pytest.mark.parametrize(
    "changes",
    [
        {"failed": 1},
        {"output_tokens": 7960},
        {"worst_prompt_miss": 0.01},
        {"lag_p95_ms": 99.0, "lag_p99_ms": 99.0, "ttft_p50_ms": 1000.0},
        {"lag_p95_ms": 99.0, "lag_p99_ms": 99.0, "cpu_share": 1.0, "lag_ticks": 99},
        {"planned_output_tokens": None, "output_tokens": 10},
        {"in_flight_seen": (10.0, 11.0)},
    ],
)
def test_each_gate_is_open_at_its_limit_or_without_enough_to_judge(changes: dict[str, object]) -> None:
    assert codes(**changes) == []


@pytest.mark.parametrize("changes", [{"in_flight_seen": (1.0, 1.0, 1.0)}, {"lag_p99_ms": 500.0}])
def test_what_may_have_another_cause_is_a_warning_only(changes: dict[str, object]) -> None:
    [reason] = assess_run(replace(GOOD, **changes))  # type: ignore[arg-type]
    assert reason.severity == WARNING


def test_arms_must_have_done_the_same_work() -> None:
    def found(output: list[int | None], prompt: list[int | None]) -> list[str]:
        pair = assess_pair(
            baseline_output=[1000, 1000], tuned_output=output, baseline_prompt=[500], tuned_prompt=prompt
        )
        return [reason.code for reason in pair]

    assert found([1005, 1005], [502]) == []
    assert found([1000, 1012], [500]) == ["output_token_parity"]
    assert found([1000], [510]) == ["prompt_token_parity"]
    assert found([None], [None]) == []


@pytest.mark.parametrize(
    ("state", "failed", "reasons", "code"),
    [
        (DONE, 0, [], ExitCode.VALID),
        (DONE, 1, [], ExitCode.VALID),
        (DONE, 2, [], ExitCode.ERROR_BUDGET_EXCEEDED),
        (DONE, 0, [Reason("x", "x", INVALID)], ExitCode.INVALID),
        (DONE, 0, [Reason("x", "x", WARNING)], ExitCode.VALID),
        (PROBE_FAILED, 0, [], ExitCode.PROBE_FAILED),
        (WATCHDOG, 9, [], ExitCode.WATCHDOG),
        (STOPPED, 9, [], ExitCode.CANCELLED),
    ],
)
def test_exit_codes_say_how_a_run_ended(state: str, failed: int, reasons: list[Reason], code: ExitCode) -> None:
    assert exit_code(state, failed=failed, planned=1000, error_budget=0.001, reasons=reasons) is code
