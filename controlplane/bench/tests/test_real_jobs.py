"""The real load generator as a job of the real host program, against the calibration server: end to end."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.bench import reconcile, services
from controlplane.bench.domain.bundle import PACKAGE_ROOT
from controlplane.bench.domain.workloads import DISTINCT, Workload
from controlplane.bench.loadgen import calibration
from controlplane.bench.loadgen.behaviour import Behaviour
from controlplane.bench.models import Run
from controlplane.bench.models import Workload as WorkloadRow
from controlplane.configs.models import Config, ConfigVersion
from controlplane.drivers import links
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.services.keys import seal_key
from controlplane.inventory.models import Engine, Host
from controlplane.inventory.services import call_host

pytestmark = pytest.mark.slow

KEY = "calibration-key"
PATIENCE_S = 60.0


@dataclass
class JobWorld:
    """A calibration server that the host program launched, as the engine of a ready instance."""

    host: Host
    instance: Instance

    def run(self, behaviour: Behaviour, **workload: Any) -> Run:
        Instance.objects.filter(pk=self.instance.pk).update(served_model_name=behaviour.to_model())
        values = {"concurrency": 4, "requests": 8, "max_tokens": 16, "prompt_words": 12, "warmup_requests": 0}
        made = Workload("test", DISTINCT, **{**values, **workload})
        row, _ = WorkloadRow.objects.update_or_create(
            name="test", defaults={"spec": made.to_json(), "digest": made.content_hash}
        )
        return services.request_run(instance=self.instance, workload=row, actor="test")

    def steps(self, run: Run, until: Callable[[Run], bool]) -> Run:
        """What the worker does, at its pace."""
        deadline = time.monotonic() + PATIENCE_S
        while not until(run):
            assert time.monotonic() < deadline, (run.state, run.progress, run.reasons)
            wait_s = reconcile.advance(run.pk)
            run.refresh_from_db()
            time.sleep(min(wait_s or 0.0, 1.0))
        return run


@pytest.fixture
def world(db: None, tmp_path: Path) -> Iterator[JobWorld]:
    host = Host.objects.create(name="localhost", transport="local", root=str(tmp_path / "root"))
    engine = Engine.objects.create(host=host, executable=sys.executable, version="0", device=Engine.Device.CPU)
    config = Config.objects.create(name="calibration", created_by="test")
    version = ConfigVersion.objects.create(
        config=config, number=1, toml=b"", content={}, digest="d", file_digest="d", author="test"
    )
    instance = Instance(
        name="calibration-v1-1", config_version=version, host=host, engine=engine, port=1, state=State.READY,
        created_by="test", sealed_key=b"",
    )  # fmt: skip
    instance.sealed_key = seal_key(instance, KEY)
    instance.save()
    Attempt.objects.create(instance=instance, number=1, launch_id="engine-1", argv=["vllm", "serve"])
    request = {
        "launch_id": "engine-1",
        "nonce": "nonce-of-the-engine",
        "argv": [sys.executable, "-u", "-m", calibration.__name__],
        "cwd": str(PACKAGE_ROOT),
        "secret_env": {calibration.KEY_VARIABLE: KEY},
    }
    call_host(host, "start", request)
    instance.port = _printed_port(host)
    instance.save()
    yield JobWorld(host, instance)
    for launch in call_host(host, "list")["launches"]:
        assert call_host(host, "stop", {"launch_id": launch["launch_id"], "term_timeout_s": 0.5})["is_gone"]
    links.close()


def test_a_run_is_carried_out_and_its_numbers_are_the_servers_own(world: JobWorld) -> None:
    run = world.steps(world.run(Behaviour(ttft_ms=80, gap_ms=10)), until=lambda one: one.is_over)
    assert (run.ok, run.failed, run.cancelled) == (8, 0, 0), run.reasons
    assert run.state in {"finished", "invalid"}, run.reasons
    if run.state == "invalid":  # on a busy machine the client may have been late: that, and nothing else
        assert {reason["code"] for reason in run.reasons if reason["severity"] == "invalid"} <= {
            "instrument_lag",
            "instrument_cpu",
        }
    assert run.output_tokens == 8 * 16
    assert run.ttft_ms_p50 is not None
    assert run.ttft_ms_p50 >= 80
    assert run.gpu_status in {"no_gpu", "ok", "nvidia_smi_failed", "off"}
    data = run.data
    assert data.requests
    assert any(data.series["output_tokens"])
    assert data.series["running"], "the server's own metrics were sampled"
    assert KEY not in str([data.result, run.spec, run.command, run.reasons])


def test_a_run_is_cancelled_while_it_measures_and_its_counts_stay_honest(world: JobWorld) -> None:
    run = world.run(Behaviour(ttft_ms=10, gap_ms=5, silent=1, healthy_first=3))
    world.steps(run, until=lambda one: one.progress.get("phase") == "measure" and one.progress.get("ok", 0) >= 2)
    services.cancel_run(run, actor="test")
    world.steps(run, until=lambda one: one.is_over)
    assert run.state == "cancelled"
    assert run.ok is not None
    assert run.failed is not None
    assert run.cancelled is not None
    assert run.ok >= 2
    assert run.cancelled >= 1
    assert run.ok + run.failed + run.cancelled == 8
    assert not run.metrics.exists()


def test_an_engine_that_is_killed_during_the_run_leaves_a_failed_run(world: JobWorld) -> None:
    run = world.run(Behaviour(ttft_ms=10, gap_ms=5, silent=1, healthy_first=3))
    world.steps(run, until=lambda one: one.progress.get("phase") == "measure")
    call_host(world.host, "stop", {"launch_id": "engine-1", "term_timeout_s": 0.0})
    world.steps(run, until=lambda one: one.is_over)
    assert (run.state, run.reasons[0]["code"]) == ("failed", "engine_ended")


def _printed_port(host: Host) -> int:
    """The server says on its first line where it listens."""
    deadline = time.monotonic() + PATIENCE_S
    while not (text := call_host(host, "read_file", {"launch_id": "engine-1"})["text"].strip()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return int(text.split()[0])
