from __future__ import annotations

from array import array
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bench.domain import metrics
from controlplane.bench.domain.metrics import DEFINITIONS, describe, percentile, summarise
from controlplane.bench.domain.records import RequestRecord, count_by_status, from_columns, group_errors, to_columns


def request(
    index: int = 0, *, sent_s: float = 0.0, stamps: tuple[float, ...] = (0.5, 0.6, 0.9), **changes: object
) -> RequestRecord:
    """A finished request of as many tokens as chunks."""
    values: dict[str, object] = {
        "status": "ok",
        "first_s": stamps[0],
        "first_visible_s": stamps[0],
        "last_s": stamps[-1],
        "ended_s": stamps[-1],
        "prompt_tokens": 10,
        "output_tokens": len(stamps),
        "finish_reason": "length",
        "stamps": array("d", stamps),
    }
    return RequestRecord(index=index, sent_s=sent_s, **{**values, **changes})  # type: ignore[arg-type]


def test_each_definition_is_computed_by_its_formula() -> None:
    found = summarise([request()], concurrency=1, slo={})
    assert found["ttft.any.v1"]["p50"] == pytest.approx(500)
    assert found["tpot.excl.v1"]["p50"] == pytest.approx(400 / 2)
    assert found["tpot.incl.v1"]["p50"] == pytest.approx(900 / 3)
    assert found["e2e.lasttoken.v1"]["p50"] == pytest.approx(900)
    assert found["gap.chunk.v1"]["max"] == pytest.approx(300)
    assert found["gap.chunk.v1"]["n"] == 2
    assert found["tput.wall.v1"]["value"] == pytest.approx(3 / 0.9)
    assert found["rps.wall.v1"]["value"] == pytest.approx(1 / 0.9)
    assert set(found) == set(DEFINITIONS)


def test_one_token_has_no_time_per_further_token() -> None:
    found = summarise([request(stamps=(0.5,))], concurrency=1, slo={})
    assert found["tpot.excl.v1"] == {"unit": "ms", "n": 0, **dict.fromkeys(metrics.STATISTICS)}
    assert found["tpot.incl.v1"]["p50"] == pytest.approx(500)


def test_nothing_measured_is_missing_everywhere_and_never_zero() -> None:
    for found in (summarise([], concurrency=4, slo={}), summarise([request(status="failed")], concurrency=1, slo={})):
        numbers = [metric.get("p50", metric.get("value")) for metric in found.values()]
        assert numbers == [None] * len(DEFINITIONS)


def test_failed_requests_stretch_the_wall_time_but_bring_no_tokens() -> None:
    failed = request(1, status="failed", ended_s=3.0)
    found = summarise([request(), failed], concurrency=2, slo={})
    assert found["tput.wall.v1"]["value"] == pytest.approx(3 / 3.0)


def test_one_request_without_usage_makes_throughput_unknown() -> None:
    found = summarise([request(), request(1, output_tokens=None)], concurrency=2, slo={})
    assert found["tput.wall.v1"]["value"] is None
    assert found["tput.steady.v1"]["value"] is None
    assert found["rps.wall.v1"]["value"] is not None


def test_the_loaded_window_ends_when_a_request_is_not_replaced() -> None:
    records = [
        request(0, sent_s=0.0, stamps=(0.5, 1.0)),
        request(1, sent_s=0.2, stamps=(0.5, 3.0)),
        request(2, sent_s=1.0, stamps=(1.5, 2.0)),
    ]
    assert metrics.loaded_window(records, concurrency=2) == (0.2, 2.0)
    steady = summarise(records, concurrency=2, slo={})["tput.steady.v1"]
    # 0.5, 1.0 | 0.5 | 1.5, 2.0 lie inside; 3.0 does not.
    assert steady["value"] == pytest.approx(5 / 1.8)


def test_a_load_that_never_was_full_has_no_steady_throughput() -> None:
    assert summarise([request()], concurrency=2, slo={})["tput.steady.v1"]["value"] is None


def test_steady_throughput_weighs_chunks_by_their_tokens() -> None:
    found = summarise([request(stamps=(0.5, 1.0), output_tokens=8)], concurrency=1, slo={})
    assert found["tput.steady.v1"]["value"] == pytest.approx(8 / 1.0)


def test_goodput_needs_every_limit_kept_and_measured() -> None:
    records = [request(0), request(1, output_tokens=1)]
    found = summarise(records, concurrency=1, slo={"ttft_ms": 500.1, "tpot_ms": 1000})
    assert found["goodput.v1"]["value"] == pytest.approx(1 / 0.9)
    assert summarise(records, concurrency=1, slo={})["goodput.v1"]["value"] is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    expected = quantiles(values, n=100, method="inclusive")
    ordered = sorted(values)
    assert [percentile(ordered, share) for share in (50, 90, 99)] == pytest.approx(
        [expected[49], expected[89], expected[98]], abs=1e-6
    )


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_statistics_are_in_order(values: list[float]) -> None:
    found = describe(values, unit="ms")
    assert found["min"] <= found["p50"] <= found["p90"] <= found["p95"] <= found["p99"] <= found["max"]


def test_planned_is_ok_and_failed_and_cancelled() -> None:
    records = [request(0), request(1, status="failed"), request(2, status="cancelled")]
    assert count_by_status(records, planned=10) == {"planned": 10, "ok": 1, "failed": 1, "cancelled": 8}


def test_errors_are_grouped_with_the_first_sample_of_each_class() -> None:
    records = [
        request(0, status="failed", error_class="http_503", error_sample="busy"),
        request(1, status="failed", error_class="timeout", error_sample="first"),
        request(2, status="failed", error_class="timeout", error_sample="second"),
    ]
    assert [(group["class"], group["count"], group["sample"]) for group in group_errors(records)] == [
        ("timeout", 2, "first"), ("http_503", 1, "busy"),
    ]  # fmt: skip


def test_columns_bring_the_same_latencies_back() -> None:
    records = [request(0), request(1, status="failed", first_s=None)]
    again = from_columns(to_columns(records))
    assert [metrics.ttft_ms(record) for record in again] == [pytest.approx(500), None]
    assert [record.status for record in again] == ["ok", "failed"]
