"""A real vLLM from the launch call to ready, asked, and stopped with proof."""

import pytest

from controlplane.fleet import reconcile
from controlplane.fleet.models import Attempt, State
from controlplane.fleet.tests.vllm_world import VllmWorld, attempt_of, fresh, log_of

pytestmark = [pytest.mark.e2e, pytest.mark.vllm]


def test_a_launch_becomes_ready_tells_its_kv_cache_answers_and_is_stopped_with_proof(vllm_world: VllmWorld) -> None:
    instance = vllm_world.ready(vllm_world.launch("chat"))

    attempt = attempt_of(instance)
    assert [check["outcome"] for check in attempt.preflight if check["outcome"] == "fail"] == []
    assert attempt.injected == ["--shutdown-timeout", "30"]
    assert instance.measured_kv_tokens == instance.predicted_kv_tokens
    assert instance.max_concurrency
    assert instance.ready_s

    reconcile.ask_smoke(instance.pk, "Say hello.")
    smoke = fresh(instance).smoke
    assert smoke["state"] == "answered"
    assert smoke["prompt_tokens"] > 0
    assert smoke["completion_tokens"] > 0

    reconcile.observe_host(vllm_world.host.pk)
    assert fresh(instance).metrics["running"] == 0
    assert instance.drift == []

    held = vllm_world.processes_of(instance)
    assert len(held) >= 2
    vllm_world.stopped(instance)

    assert instance.state == State.STOPPED, instance.reason
    assert attempt_of(instance).outcome == Attempt.Outcome.STOPPED
    assert attempt_of(instance).stop_report["is_gone"]
    assert vllm_world.processes_of(instance) == []
    assert "vcpi_" not in log_of(instance)
