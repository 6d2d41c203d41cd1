"""What the checks see of a GPU host: memory that is held, promised, or cannot be read."""

import pytest

from controlplane.drivers.fake import FakeHost
from controlplane.fleet.models import Instance
from controlplane.fleet.reconcile.preflight import Report, check_launch
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of
from controlplane.inventory.models import Accelerator, Engine
from controlplane.inventory.tests.samples import gpu_report
from controlplane.protocol.launches import PortHolder
from controlplane.protocol.machine import GpuProcess, GpuReport


@pytest.fixture
def gpu_world(world: FakeWorld) -> FakeWorld:
    """Two H200, of which 10 GiB each are in use."""
    Engine.objects.filter(pk=world.engine.pk).update(device=Engine.Device.GPU, version="0.32.0")
    world.engine.refresh_from_db()
    world.machine.gpu = gpu_report(0, 1)
    for gpu in world.machine.gpu.gpus:
        Accelerator.objects.create(host=world.host, uuid=gpu.uuid, index=gpu.index, name=gpu.name)
    return world


def outcome(report: Report, code: str) -> tuple[str, str]:
    check = next(check for check in report.checks if check.code == code)
    return check.outcome, f"{check.sentence} {check.arithmetic}"


def launch(world: FakeWorld, *, share: float, gpus: int = 1) -> Instance:
    return world.request(
        model={"gpu_memory_utilization": share, "tensor_parallel_size": gpus}, engine={"kv_cache_memory_bytes": None}
    )


def test_a_model_that_fits_on_a_free_gpu_passes_with_its_arithmetic(gpu_world: FakeWorld) -> None:
    report = check_launch(launch(gpu_world, share=0.9))
    assert report.refusal is None
    assert outcome(report, "free_memory")[0] == "pass"
    assert outcome(report, "gpus")[1].endswith("tensor 1 × pipeline 1 × data 1 = 1")
    assert report.predicted_kv_tokens


def test_memory_that_another_holds_is_named_with_its_holder(gpu_world: FakeWorld) -> None:
    holder = GpuProcess("GPU-00000000", 4711, 100 * 1024**3, ["python", "train.py"], "alice")
    report = gpu_report(0, 1, processes=[holder])
    gpu_world.machine.gpu = GpuReport(
        status="ok",
        gpus=[type(gpu)(**{**vars(gpu), "memory_used_bytes": 100 * 1024**3}) for gpu in report.gpus],
        processes=report.processes,
    )
    found, said = outcome(check_launch(launch(gpu_world, share=0.9)), "free_memory")
    assert found == "fail"
    assert "pid 4711 (alice python train.py" in said


def test_memory_promised_to_an_earlier_launch_counts_as_used_and_the_later_makes_room(gpu_world: FakeWorld) -> None:
    first = launch(gpu_world, share=0.6, gpus=2)
    second = launch(gpu_world, share=0.6, gpus=2)
    assert outcome(check_launch(first), "free_memory")[0] == "pass"
    found, said = outcome(check_launch(second), "free_memory")
    assert found == "fail"
    assert "promised" in said


def test_a_broken_driver_is_told_apart_from_no_gpu(gpu_world: FakeWorld) -> None:
    instance = launch(gpu_world, share=0.9)
    gpu_world.machine.gpu = GpuReport(status="driver_error", message="The driver does not answer.")
    assert outcome(check_launch(instance), "gpus") == ("fail", "The driver does not answer. ")


def test_the_holder_of_a_port_is_ours_or_not(world: FakeWorld) -> None:
    serving = world.ready(port=8000)
    instance = world.request(port=8001)
    Instance.objects.filter(pk=instance.pk).update(port=8000)
    instance.port = 8000
    assert "an instance of ours" in outcome(check_launch(instance), "port")[1]
    _free(world.machine, attempt_of(serving).launch_id)
    world.machine.foreign_ports[8000] = PortHolder(8000, 4711, ["nginx"], "root")
    assert "pid 4711 (nginx), a process nobody here started" in outcome(check_launch(instance), "port")[1]


def test_an_engine_whose_options_nobody_knows_is_not_called_wrong(world: FakeWorld) -> None:
    instance = world.request()
    Engine.objects.filter(pk=world.engine.pk).update(version="")
    instance.engine.refresh_from_db()
    assert outcome(check_launch(instance), "flags")[0] == "skip"


def _free(machine: FakeHost, launch_id: str) -> None:
    machine.end(launch_id, rc=0)
