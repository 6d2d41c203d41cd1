"""A real vLLM whose API process is killed: seen within seconds, its orphans named and removed."""

import os
import signal
import time

import pytest

from controlplane.drivers import links
from controlplane.fleet import reconcile
from controlplane.fleet.models import Attempt, State
from controlplane.fleet.tests.vllm_world import TICK_S, VllmWorld, attempt_of, fresh

pytestmark = [pytest.mark.e2e, pytest.mark.vllm]

SEEN_WITHIN_S = 5.0


def test_a_killed_api_process_is_seen_and_its_orphans_are_named_and_removed(vllm_world: VllmWorld) -> None:
    instance = vllm_world.ready(vllm_world.launch("chat"))
    links.close()  # a restarted worker: a new host program finds the engine by its launch id
    reconcile.observe_host(vllm_world.host.pk)
    assert fresh(instance).state == State.READY

    main, *others = vllm_world.processes_of(instance)
    killed_at = time.monotonic()
    os.kill(main, signal.SIGKILL)
    while fresh(instance).state == State.READY:
        time.sleep(TICK_S)  # the beat; nothing else tells us
        reconcile.observe_host(vllm_world.host.pk)
        assert time.monotonic() - killed_at < SEEN_WITHIN_S
    seen_after_s = time.monotonic() - killed_at

    attempt = attempt_of(instance)
    assert instance.state == State.FAILED
    assert seen_after_s < SEEN_WITHIN_S
    assert (attempt.outcome, attempt.exit_signal) == (Attempt.Outcome.CRASHED, "SIGKILL")
    assert "killed from outside" in instance.reason
    assert {leftover["pid"] for leftover in attempt.leftovers} <= set(others)
    assert attempt.leftovers
    assert all(leftover["command"] for leftover in attempt.leftovers)
    assert vllm_world.processes_of(instance) == []


def test_an_engine_that_dies_under_the_api_process_is_a_crash_although_the_exit_code_is_0(
    vllm_world: VllmWorld,
) -> None:
    instance = vllm_world.ready(vllm_world.launch("chat"))
    _main, *others = vllm_world.processes_of(instance)

    for pid in others:
        os.kill(pid, signal.SIGKILL)
    vllm_world.steps(instance, until=lambda one: one.state != State.READY)
    vllm_world.steps(instance, until=lambda one: one.state == State.FAILED)

    attempt = attempt_of(instance)
    assert attempt.outcome == Attempt.Outcome.CRASHED
    assert attempt.failure_code not in {"", "stopped"}
    assert vllm_world.processes_of(instance) == []
