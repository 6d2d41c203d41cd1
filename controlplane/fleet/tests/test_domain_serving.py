"""Figures of a serving engine: rates, and when a server no longer moves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.fleet.domain import serving

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def kept(seconds_ago: float, **more: Any) -> dict[str, Any]:
    at = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return {"at": at, "moved_at": at, **more}


def test_throughput_is_what_came_between_two_looks() -> None:
    found = serving.figures(kept(10, generation_tokens=100), {"generation_tokens": 600, "running": 3}, NOW)
    assert found["output_throughput"] == 50
    assert found["running"] == 3


@pytest.mark.parametrize("before", [{}, kept(10), kept(10, generation_tokens=700)], ids=["first", "unread", "restart"])
def test_without_a_look_before_there_is_no_rate_and_never_a_zero(before: dict[str, Any]) -> None:
    assert serving.figures(before, {"generation_tokens": 600}, NOW)["output_throughput"] is None


def test_what_the_engine_does_not_report_is_absent() -> None:
    assert "waiting" not in serving.figures({}, {"running": 0, "waiting": None}, NOW)


def test_a_server_moves_while_tokens_come_or_nothing_is_asked() -> None:
    long_ago = kept(600, generation_tokens=5)
    for sample in ({"running": 2, "generation_tokens": 6}, {"running": 0, "generation_tokens": 5}):
        assert serving.is_progressing(serving.figures(long_ago, sample, NOW), NOW)


def test_requests_without_tokens_for_minutes_are_no_progress() -> None:
    stuck = serving.figures(kept(600, generation_tokens=5), {"running": 2, "generation_tokens": 5}, NOW)
    assert not serving.is_progressing(stuck, NOW)
    slow = serving.figures(kept(60, generation_tokens=5), {"running": 2, "generation_tokens": 5}, NOW)
    assert serving.is_progressing(slow, NOW)


def test_a_server_that_does_not_answer_keeps_when_it_last_moved() -> None:
    assert serving.no_figures(kept(60), NOW) == {"at": NOW.isoformat(), "moved_at": kept(60)["moved_at"]}
    assert serving.is_progressing(serving.no_figures({}, NOW), NOW)


def test_figures_are_due_after_their_time() -> None:
    every = timedelta(seconds=10)
    assert serving.is_due({}, NOW, every=every)
    assert not serving.is_due(kept(9), NOW, every=every)
    assert serving.is_due(kept(10), NOW, every=every)
