"""A run from the request to its numbers, on a pretended host: every end it can have."""

import gzip
import json

import pytest
from django.utils import timezone

from controlplane.bench import reconcile
from controlplane.bench.domain import outcome
from controlplane.bench.models import Run, Workload
from controlplane.bench.reconcile.advancing import plan_next, whole
from controlplane.bench.reconcile.claiming import claim
from controlplane.bench.services import cancel_run
from controlplane.bench.tests.fake_bench import BenchWorld
from controlplane.bench.tests.results import failed_request, good_request
from controlplane.core.errors import Conflict
from controlplane.core.models import Event
from controlplane.fleet.services import key_of, request_stop
from controlplane.fleet.tests.fake_world import attempt_of

HEADLINES = ("output_throughput", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "e2el_ms_p99")


def test_a_run_goes_from_queued_over_running_to_finished_with_its_numbers(world: BenchWorld) -> None:
    run = world.request(seed=7, note=" first look ")
    assert (run.state, run.planned, run.note) == ("queued", 16, "first look")

    assert world.step(run) == 1.0
    assert run.state == "running"
    assert run.started_at
    world.end(run)
    assert world.step(run) is None

    assert (run.state, run.ok, run.failed, run.cancelled) == ("finished", 16, 0, 0)
    assert all(getattr(run, name) for name in HEADLINES)
    assert run.ttft_ms_p50 == pytest.approx(207.5)
    assert (run.gpu_status, run.gpu_utilisation_percent) == ("no_gpu", None)
    assert (run.prompt_tokens, run.output_tokens) == (800, 512)
    told = Event.objects.filter(subject_type="run").order_by("pk").values_list("name", flat=True)
    assert list(told) == ["run.requested", "run.started", "run.finished"]


def test_every_statistic_is_a_row_under_the_id_of_its_definition(world: BenchWorld) -> None:
    run = world.finished()
    rows = {(row.definition, row.statistic): row for row in run.metrics.all()}
    assert {"p50", "p90", "p95", "p99"} <= {statistic for at, statistic in rows if at == "gap.chunk.v1"}
    assert rows["tpot.excl.v1", "p99"].value == run.tpot_ms_p99
    assert rows["tput.wall.v1", "value"].unit == "tok/s"
    assert rows["goodput.v1", "value"].value is None, "no SLO was set: not measured is not zero"


def test_series_requests_and_the_raw_result_are_kept(world: BenchWorld) -> None:
    run = world.finished(gpu_percent=63.0, prefix_hits=50.0)
    data = run.data
    assert data.result["run_id"] == str(run.pk)
    assert data.series["running"][-1] == 8
    assert data.series["prefix_hit_share"][-1] == 0.5
    assert data.series["gpu_utilisation_percent"] == [63.0, 63.0]
    assert run.gpu_utilisation_percent == 63.0
    assert data.requests is not None
    assert len(json.loads(gzip.decompress(bytes(data.requests)))["body_sha256"]) == 16


def test_the_load_generator_is_told_everything_but_the_key(world: BenchWorld) -> None:
    run = world.started(seed=99)
    spec, key = world.spec(run), key_of(world.instance)
    start = next(params for verb, params in world.machine.calls if verb == "start" and params["kind"] == "job")
    assert spec["base_url"] == f"http://127.0.0.1:{world.instance.port}"
    assert (spec["model"], spec["seed"], spec["workload"]["name"]) == ("qwen", 99, "smoke-8x32")
    assert spec["output_dir"] == f"/nowhere/root/launches/{run.job_id}"
    assert start["argv"][0] == "/opt/vllm/bin/python"
    assert start["secret_env"] == {"LOADGEN_API_KEY": key}
    run.refresh_from_db()
    assert run.spec == spec
    assert key not in json.dumps([start["argv"], spec, run.spec, run.command])


def test_a_run_remembers_what_it_measured(world: BenchWorld) -> None:
    run = world.finished()
    attempt = attempt_of(world.instance)
    assert run.attempt == attempt
    assert run.argv == attempt.argv
    assert run.config_digest == world.instance.config_version.digest
    assert run.engine_version == "0.32.0+cpu"
    assert run.host == world.instance.host


def test_runs_have_seeds_of_their_own_unless_told(world: BenchWorld) -> None:
    first, second = world.request(), world.request()
    assert first.seed != second.seed


def test_only_one_run_at_a_time_measures_an_instance(world: BenchWorld) -> None:
    first, second = world.started(), world.request()
    assert world.step(second) is None
    assert second.state == "queued"
    world.end(first)
    world.step(first)
    world.step(second)
    assert second.state == "running"


def test_an_instance_that_is_not_ready_cannot_be_measured(world: BenchWorld) -> None:
    request_stop(world.instance, actor="test")
    with pytest.raises(Conflict, match="about to be stopped"):
        world.request()
    assert not Run.objects.exists()


def test_a_run_whose_instance_stops_before_its_turn_fails_with_that_reason(world: BenchWorld) -> None:
    run = world.request()
    request_stop(world.instance, actor="test")
    assert world.step(run) is None
    assert (run.state, run.reasons[0]["code"]) == ("failed", "instance_not_serving")


def test_progress_is_live(world: BenchWorld) -> None:
    run = world.started()
    progress = {"phase": "measure", "ok": 3, "failed": 1, "running": 8, "output_tokens": 120, "elapsed_s": 2.0}
    world.machine.leave(run.job_id, {"progress.json": json.dumps(progress).encode()})
    assert world.step(run) == 1.0
    assert run.progress == {**progress, "measuring_since_s": 2.0}
    later = {**progress, "elapsed_s": 4.0, "output_tokens": 500}
    world.machine.leave(run.job_id, {"progress.json": json.dumps(later).encode()})
    world.step(run)
    assert run.progress["measuring_since_s"] == 2.0


def test_a_gated_run_is_invalid_with_its_reasons_and_errors_by_class(world: BenchWorld) -> None:
    run = world.started()
    world.end(run, rc=4, failed=2)
    world.step(run)
    assert (run.state, run.ok, run.failed) == ("invalid", 14, 2)
    assert "failed_requests" in {reason["code"] for reason in run.reasons}
    assert run.errors == [{"class": "http_500", "count": 2, "sample": "engine is dead", "first_index": 14}]


def test_a_failed_probe_is_a_failed_run_with_the_answer_it_got_and_no_numbers(world: BenchWorld) -> None:
    run = world.started()
    probe = failed_request(0, error_class="http_401", sample="Unauthorized")
    world.end(run, rc=3, state=outcome.PROBE_FAILED, probe=probe, requests=[])
    world.step(run)
    assert (run.state, run.ok, run.cancelled) == ("failed", 0, 16)
    assert run.reasons[0]["sentence"] == "The first request failed, so nothing was measured."
    assert run.errors[0]["sample"] == "Unauthorized"
    assert run.output_throughput is None
    assert not run.metrics.exists()


def test_an_engine_that_ends_during_the_run_leaves_no_numbers(world: BenchWorld) -> None:
    run = world.started()
    world.end_engine(world.instance)
    assert world.step(run) == 1.0, "the load generator is asked to end first"
    world.step(run)
    assert (run.state, run.reasons[0]["code"]) == ("failed", "engine_ended")
    assert not run.metrics.exists()


def test_an_engine_that_ended_before_the_load_generator_did_spoils_even_a_good_looking_result(
    world: BenchWorld,
) -> None:
    run = world.started()
    world.end_engine(world.instance)
    world.end(run)
    world.step(run)
    assert (run.state, run.reasons[0]["code"]) == ("failed", "engine_ended")


def test_an_engine_that_is_stopped_after_the_run_does_not_spoil_it(world: BenchWorld) -> None:
    run = world.started()
    world.end(run)
    world.end_engine(world.instance)
    world.step(run)
    assert run.state == "finished"


def test_cancelling_a_queued_run_ends_it_at_once(world: BenchWorld) -> None:
    run = world.request()
    assert cancel_run(run, actor="ann")
    assert (run.state, run.ok, run.cancelled) == ("cancelled", 0, 16)
    assert not cancel_run(run, actor="ann")


def test_cancelling_a_running_run_asks_the_load_generator_and_keeps_honest_counts(world: BenchWorld) -> None:
    run = world.started()
    assert cancel_run(run, actor="ann")
    assert run.state == "running"
    world.step(run)
    assert ("stop", run.job_id) in {(verb, params.get("launch_id")) for verb, params in world.machine.calls}
    world.end(run, rc=6, state=outcome.STOPPED, requests=[good_request(index, tokens=32) for index in range(3)])
    world.step(run)
    assert (run.state, run.ok, run.failed, run.cancelled) == ("cancelled", 3, 0, 13)
    assert run.output_throughput is None


def test_a_load_generator_that_was_killed_after_a_cancellation_is_cancelled_all_the_same(world: BenchWorld) -> None:
    run = world.started()
    cancel_run(run, actor="ann")
    world.step(run)
    world.step(run)
    assert (run.state, run.cancelled) == ("cancelled", 16)


def test_a_load_generator_without_a_result_fails_the_run_with_its_last_words(world: BenchWorld) -> None:
    run = world.started()
    world.machine.print_log(run.job_id, "Traceback …\nModuleNotFoundError: No module named 'asyncio'\n")
    world.machine.end(run.job_id, rc=1)
    world.step(run)
    assert run.state == "failed"
    assert "No module named 'asyncio'" in run.reasons[0]["sentence"]
    assert "exit code 1" in run.reasons[0]["sentence"]


def test_a_job_that_vanished_fails_the_run(world: BenchWorld) -> None:
    run = world.started()
    world.machine.end(run.job_id)
    world.machine.answer("remove", {"launch_id": run.job_id})
    world.step(run)
    assert (run.state, run.reasons[0]["code"]) == ("failed", "job_vanished")


def test_a_host_that_restarted_is_no_running_job(world: BenchWorld) -> None:
    run = world.started()
    world.machine.reboot()
    world.step(run)
    assert run.state == "failed"


def test_a_silent_host_says_nothing_about_the_run(world: BenchWorld) -> None:
    run = world.started()
    world.machine.go_offline()
    assert world.step(run) == 5.0
    assert run.state == "running"
    world.machine.is_online = True
    world.end(run)
    world.step(run)
    assert run.state == "finished"


def test_a_host_that_refuses_the_start_ends_the_run_with_its_words(world: BenchWorld) -> None:
    run = world.request()
    Run.objects.filter(pk=run.pk).update(job_id="not/a/launch/id")
    world.step(run)
    assert (run.state, run.reasons[0]["code"]) == ("failed", "start_refused")
    assert "malformed" in run.reasons[0]["sentence"]


def test_a_worker_that_dies_between_claim_and_start_is_followed_by_one_that_starts(world: BenchWorld) -> None:
    run = world.request()
    assert claim(whole().get(pk=run.pk))
    world.step(run)
    assert run.started_at
    assert [params["launch_id"] for verb, params in world.machine.calls if verb == "start"].count(run.job_id) == 1


def test_two_workers_cannot_start_two_runs_of_one_instance(world: BenchWorld) -> None:
    first, second = world.request(), world.request()
    assert claim(whole().get(pk=first.pk))
    assert not claim(whole().get(pk=second.pk)), "the database refuses what a stale look would allow"
    second.refresh_from_db()
    assert (second.state, second.argv) == ("queued", [])


def test_a_cancellation_that_comes_in_the_middle_of_a_step_is_not_put_off(world: BenchWorld) -> None:
    run = world.started()
    read_before = Run.objects.get(pk=run.pk)
    cancel_run(run, actor="ann")
    plan_next(read_before, 5.0)
    run.refresh_from_db()
    assert (run.is_cancel_requested, run.step_due_at) == (True, None)


def test_two_messages_make_one_chain(world: BenchWorld) -> None:
    run = world.started()
    assert run.step_due_at is not None
    assert run.step_due_at > timezone.now()
    calls = len(world.machine.calls)
    assert reconcile.advance(run.pk) is None
    assert len(world.machine.calls) == calls


def test_the_built_in_workloads_are_there_after_a_migration(db: None) -> None:
    assert Workload.objects.filter(is_built_in=True).count() == 4
