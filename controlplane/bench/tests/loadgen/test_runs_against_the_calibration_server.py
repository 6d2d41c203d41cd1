"""Whole runs, in this process, against a server whose behaviour is known. Nothing here asserts how long things took,
except that nothing can be faster than the server's schedule."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from controlplane.bench.domain import prompts
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.domain.workloads import SHARED_PREFIX
from controlplane.bench.loadgen.behaviour import Behaviour
from controlplane.bench.tests.loadgen.conftest import World, small_workload

QUICK: dict[str, Any] = {"ttft_ms": 5.0, "gap_ms": 1.0}


def test_every_planned_request_is_ok_and_its_tokens_are_the_servers(world: World) -> None:
    finished = world.run(Behaviour(**QUICK))
    assert finished.code == ExitCode.VALID
    assert finished.result["counts"] == {"planned": 8, "ok": 8, "failed": 0, "cancelled": 0}
    assert finished.result["tokens"]["output"] == 8 * 8
    assert finished.result["is_valid"] is True
    assert finished.result["metrics"]["ttft.any.v1"]["n"] == 8
    assert finished.progress["phase"] == "done"
    assert finished.progress["output_tokens"] == 64


def test_without_a_key_no_authorization_header_is_sent(guarded_world: World) -> None:
    guarded_world.keys_sent()
    finished = guarded_world.run(Behaviour(**QUICK))
    assert finished.code == ExitCode.PROBE_FAILED
    assert guarded_world.keys_sent() == {"/v1/chat/completions": [False]}


def test_no_more_than_the_planned_requests_are_in_flight_at_any_instant(world: World) -> None:
    finished = world.run(Behaviour(**QUICK), small_workload(concurrency=3, requests=20))
    assert world.truth(finished.model)["max_active"] == 3


def test_what_the_server_received_is_what_workload_and_seed_say(world: World) -> None:
    workload = small_workload(requests=6, warmup_requests=2)
    finished = world.run(Behaviour(**QUICK), workload, seed=77)
    roles = [(prompts.PROBE, 1, 2), (prompts.WARMUP, 2, workload.warmup_tokens), (prompts.MEASURED, 6, None)]
    expected = [
        prompts.request_body(workload, model=finished.model, seed=77, role=role, index=index, max_tokens=limit)
        for role, count, limit in roles
        for index in range(count)
    ]
    hashes = sorted(hashlib.sha256(body).hexdigest()[:16] for body in expected)
    assert sorted(world.truth(finished.model)["bodies"]) == hashes
    assert len(set(hashes)) == 9


def test_ten_percent_of_errors_inside_streams_are_failures_and_their_tokens_do_not_count(world: World) -> None:
    finished = world.run(Behaviour(**QUICK, in_band_percent=10, healthy_first=1), small_workload(requests=40))
    assert finished.code == ExitCode.ERROR_BUDGET_EXCEEDED
    assert finished.result["counts"] == {"planned": 40, "ok": 36, "failed": 4, "cancelled": 0}
    assert finished.result["tokens"]["output"] == 36 * 8
    assert finished.result["metrics"]["e2e.lasttoken.v1"]["n"] == 36
    [group] = finished.result["errors"]
    assert (group["class"], group["count"]) == ("error_event", 4)
    assert "injected mid-stream" in group["sample"]


def test_failures_within_the_budget_still_make_the_run_invalid(world: World) -> None:
    finished = world.run(Behaviour(**QUICK, error_percent=50, healthy_first=1), error_budget=0.5)
    assert finished.code == ExitCode.INVALID
    assert finished.reason_codes >= {"failed_requests"}


@pytest.mark.parametrize(
    ("behaviour", "error_class"),
    [
        (Behaviour(**QUICK, error_percent=100, healthy_first=1), "http_500"),
        (Behaviour(**QUICK, mid_error_percent=100, healthy_first=1), "error_event"),
        (Behaviour(**QUICK, truncated=1, healthy_first=1), "truncated"),
        (Behaviour(**QUICK, empty=1, healthy_first=1), "empty"),
        (Behaviour(**QUICK, json_answer=1, healthy_first=1), "not_a_stream"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_of_failure_has_its_class_and_leaves_no_latency(
    world: World, behaviour: Behaviour, error_class: str
) -> None:
    finished = world.run(behaviour, small_workload(requests=4))
    assert {group["class"]: group["count"] for group in finished.result["errors"]} == {error_class: 4}
    assert finished.result["errors"][0]["sample"]
    for metric in finished.result["metrics"].values():
        assert metric.get("p50") is None
        assert metric.get("value") is None


def test_a_role_only_chunk_is_not_the_first_token(world: World) -> None:
    finished = world.run(Behaviour(ttft_ms=40, gap_ms=1, role_first=1))
    assert finished.result["metrics"]["ttft.any.v1"]["min"] >= 40


def test_reasoning_is_a_first_token_but_not_visible_content(world: World) -> None:
    finished = world.run(Behaviour(ttft_ms=5, gap_ms=10, reasoning=1))
    metrics = finished.result["metrics"]
    assert metrics["ttfo.v1"]["min"] >= 5 + 4 * 10
    assert metrics["ttft.any.v1"]["min"] < metrics["ttfo.v1"]["min"]


def test_four_tokens_a_chunk_make_gaps_of_chunks_and_tpot_of_tokens(world: World) -> None:
    finished = world.run(Behaviour(ttft_ms=5, gap_ms=4, tokens_per_chunk=4), small_workload(max_tokens=16))
    metrics = finished.result["metrics"]
    assert metrics["gap.chunk.v1"]["n"] == 8 * 3
    assert metrics["tpot.excl.v1"]["mean"] * 15 == pytest.approx(metrics["gap.chunk.v1"]["mean"] * 3)
    assert finished.result["tokens"] == {
        "prompt": 8 * 17, "output": 8 * 16, "cached_prompt": None, "chunks": 8 * 4, "discarded_chunks": 0,
    }  # fmt: skip


def test_without_usage_tokens_are_unknown_and_throughput_is_missing_not_zero(world: World) -> None:
    finished = world.run(Behaviour(**QUICK, usage=0))
    assert finished.code == ExitCode.INVALID
    assert "no_usage" in finished.reason_codes
    assert finished.result["tokens"]["output"] is None
    assert finished.result["metrics"]["tput.wall.v1"]["value"] is None
    assert finished.result["metrics"]["ttft.any.v1"]["p50"] is not None


def test_crlf_and_comments_read_like_any_other_stream(world: World) -> None:
    assert world.run(Behaviour(**QUICK, crlf=1)).result["counts"]["ok"] == 8


def test_a_cold_start_is_reported_with_the_warm_up_and_not_measured(world: World) -> None:
    behaviour = Behaviour(ttft_ms=1, gap_ms=0.5, slow_first=5, slow_ms=300)
    finished = world.run(behaviour, small_workload(warmup_requests=4))
    assert finished.result["warmup"]["ttft_max_ms"] >= 300
    assert finished.result["metrics"]["ttft.any.v1"]["p50"] < 300


def test_a_server_that_never_answers_is_ended_by_the_watchdog(world: World) -> None:
    finished = world.run(Behaviour(**QUICK, silent=1, healthy_first=1), watchdog_s=0.3)
    assert finished.code == ExitCode.WATCHDOG
    assert finished.result["counts"] == {"planned": 8, "ok": 0, "failed": 0, "cancelled": 8}
    assert finished.progress["state"] == "watchdog"


def test_a_request_that_takes_too_long_is_a_timeout(world: World) -> None:
    finished = world.run(
        Behaviour(**QUICK, silent=1, healthy_first=1), small_workload(requests=2), request_timeout_s=0.2
    )
    assert finished.result["errors"][0]["class"] == "timeout"


def test_half_of_128_at_once_failing_still_ends(world: World) -> None:
    workload = small_workload(concurrency=128, requests=256)
    finished = world.run(Behaviour(**QUICK, mid_error_percent=50, healthy_first=1), workload)
    assert finished.result["counts"] == {"planned": 256, "ok": 128, "failed": 128, "cancelled": 0}


def test_nothing_listening_fails_the_probe_and_measures_nothing(world: World) -> None:
    finished = world.run(Behaviour(), base_url="http://127.0.0.1:9")
    assert finished.code == ExitCode.PROBE_FAILED
    assert finished.result["probe"]["error_class"] == "connect"
    assert finished.result["metrics"] is None


def test_a_model_the_server_does_not_know_fails_the_probe(world: World) -> None:
    finished = world.run(Behaviour(), model="nope")
    assert finished.code == ExitCode.PROBE_FAILED
    assert finished.result["probe"]["http_status"] == 404


def test_prompts_can_aim_at_tokens(world: World) -> None:
    finished = world.run(Behaviour(**QUICK), small_workload(prompt_tokens=205))
    assert finished.result["fitted_words"] == 200
    assert set(finished.columns["prompt_tokens"]) == {205}


def test_a_shared_prefix_is_shared_and_the_rest_is_not(world: World) -> None:
    finished = world.run(Behaviour(**QUICK), small_workload(kind=SHARED_PREFIX, prefix_words=50))
    assert finished.result["counts"]["ok"] == 8
    assert len(set(finished.columns["body_sha256"])) == 8


def test_goodput_counts_only_requests_within_every_limit(world: World) -> None:
    kept = world.run(Behaviour(**QUICK), slo={"ttft_ms": 60_000, "e2el_ms": 60_000}).result["metrics"]
    missed = world.run(Behaviour(ttft_ms=20, gap_ms=1), slo={"ttft_ms": 19}).result["metrics"]
    assert kept["goodput.v1"]["value"] == kept["rps.wall.v1"]["value"]
    assert missed["goodput.v1"]["value"] == 0


def test_per_request_data_has_lengths_and_hashes_but_no_text(world: World) -> None:
    finished = world.run(Behaviour(**QUICK))
    assert set(finished.columns) >= {"sent_us", "first_us", "last_us", "output_tokens", "body_bytes", "body_sha256"}
    first_word = prompts.prompt_text(small_workload(), seed=1, role=prompts.MEASURED, index=0).split()[1]
    assert f'"{first_word}' not in str(finished.columns)


def test_results_of_an_earlier_run_are_not_overwritten(world: World) -> None:
    finished = world.run(Behaviour(**QUICK))
    with pytest.raises(FileExistsError, match="folder of its own"):
        world.run(Behaviour(**QUICK), output_dir=str(finished.folder))


def test_server_counters_around_the_measured_requests_show_only_them(world: World) -> None:
    finished = world.run(Behaviour(**QUICK), small_workload(warmup_requests=4))
    assert finished.result["engine"]["difference"]["generation_tokens"] == 64
    assert finished.result["engine"]["difference"]["prefix_hit_rate"] is None
