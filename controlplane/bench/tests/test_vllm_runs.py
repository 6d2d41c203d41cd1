"""The reference load on a real vLLM: nothing fails, its own metrics are sampled. Speeds are the machine's affair."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.bench import reconcile, services
from controlplane.bench.models import Run, Workload
from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint
from controlplane.fleet import reconcile as fleet
from controlplane.fleet.models import Instance, State
from controlplane.fleet.services import key_of
from controlplane.fleet.tests.vllm_world import VllmWorld, register
from controlplane.stack.engine import ensure_engine, ensure_model

pytestmark = [pytest.mark.e2e, pytest.mark.vllm]

PATIENCE_S = 400.0
OWN_FAULTS = {"instrument_lag", "instrument_cpu"}
"""What a busy machine may do to the client: it makes a run invalid, and says nothing about the server."""


@pytest.fixture
def vllm_world(db: None, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmWorld]:
    engine = ensure_engine()
    model = ensure_model(engine, "tiny")
    endpoint = Endpoint(root=str(tmp_path_factory.mktemp("root")))
    options: dict[str, Any] = links.call(endpoint, "engine_options", {"executable": str(engine.vllm)}, timeout_s=200)
    links.close()
    host, row = register(tmp_path / "root", engine.vllm, options)
    world = VllmWorld(host, row, model)
    yield world
    world.stop_everything()
    links.close()


def test_the_reference_load_ends_with_every_request_answered_and_the_engine_sampled(vllm_world: VllmWorld) -> None:
    instance = _ready(vllm_world.launch("bench"))
    workload = Workload.objects.get(name="seed-64x256")
    run = _carried_out(services.request_run(instance=instance, workload=workload, actor="test"))

    assert (run.ok, run.failed, run.cancelled) == (64, 0, 0), (run.errors, run.reasons)
    against = {reason["code"] for reason in run.reasons if reason["severity"] == "invalid"}
    assert against <= OWN_FAULTS, run.reasons
    assert run.output_tokens == 64 * 256
    assert run.metrics.filter(definition="ttft.any.v1", statistic="p99", value__gt=0).exists()
    series = run.data.series
    assert max(value for value in series["running"] if value is not None) > 0
    assert max(value for value in series["kv_usage"] if value is not None) > 0
    assert run.config_digest == instance.config_version.digest
    assert run.argv[1] == "serve"
    assert key_of(instance) not in str([run.spec, run.command, run.data.result])


def _ready(instance: Instance) -> Instance:
    """More patient than the fleet's own tests: there the start is the subject, here it only has to happen."""
    deadline = time.monotonic() + PATIENCE_S
    while instance.state != State.READY:
        assert time.monotonic() < deadline, instance.reason
        assert instance.state != State.FAILED, instance.reason
        wait_s = fleet.advance(instance.pk)
        instance.refresh_from_db()
        time.sleep(min(wait_s or 0.1, 1.0))
    return instance


def _carried_out(run: Run) -> Run:
    deadline = time.monotonic() + PATIENCE_S
    while not run.is_over:
        assert time.monotonic() < deadline, (run.state, run.progress)
        wait_s = reconcile.advance(run.pk)
        run.refresh_from_db()
        time.sleep(min(wait_s or 0.0, 1.0))
    return run
