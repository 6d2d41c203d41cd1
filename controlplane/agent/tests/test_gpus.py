"""Three different answers where people see "no GPU", and figures where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.agent import gpus
from controlplane.agent.machine import probe, telemetry
from controlplane.agent.place import Place
from controlplane.protocol.machine import ProbeRequest

GIB = 1024**3
# Answers of nvidia-smi to the queries of gpus.py, in the CSV form of driver 550; the second card is in MIG mode.
SMI = """#!/bin/sh
case "$*" in
*--query-gpu=uuid,index*)
  echo "GPU-aaaa, 0, NVIDIA H100 80GB HBM3, 81559, 40960, 550.54.15, 9.0, 37, 310.55, 54, 00000000:18:00.0"
  echo "GPU-bbbb, 1, NVIDIA H100 80GB HBM3, 81559, 1, 550.54.15, 9.0, [N/A], [Not Supported], 31, 00000000:2A:00.0" ;;
*--query-gpu=uuid,utilization*)
  echo "GPU-aaaa, 37, 40960, 310.55, 1980, 54"
  echo "GPU-bbbb, [N/A], 1, [Not Supported], 345, 31" ;;
*--query-compute-apps=gpu_uuid*) echo "GPU-aaaa, PID, 40000, python, with, commas" ;;
*--query-compute-apps=pid*) echo PID ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Place:
    """A machine without GPU and without nvidia-smi."""
    bridge = tmp_path / "sys/bus/pci/devices/0000:00:00.0"
    bridge.mkdir(parents=True)
    (bridge / "vendor").write_text("0x8086\n")
    (bridge / "class").write_text("0x060000\n")
    return Place(root=tmp_path, program=tmp_path, sys=tmp_path / "sys", nvidia_smi=str(tmp_path / "nvidia-smi"))


def add_card(machine: Place, address: str = "0000:18:00.0", kind: str = "0x030200", vendor: str = "0x10de") -> None:
    card = machine.sys / "bus/pci/devices" / address
    card.mkdir(parents=True)
    (card / "vendor").write_text(vendor + "\n")
    (card / "class").write_text(kind + "\n")


def install_smi(machine: Place, script: str) -> None:
    tool = Path(machine.nvidia_smi)
    tool.write_text(script)
    tool.chmod(0o755)


def test_a_machine_without_gpu_says_so(machine: Place) -> None:
    add_card(machine, "0000:01:00.0", kind="0x040300")  # the audio part of a card elsewhere
    add_card(machine, "0000:02:00.0", vendor="0x1002")  # another maker's

    assert gpus.report(machine).status == "none"
    assert gpus.compute_pids(machine) == []
    assert telemetry(machine).gpus == []


def test_a_gpu_without_driver_tools_is_another_answer(machine: Place) -> None:
    add_card(machine)

    report = gpus.report(machine)

    assert (report.status, report.pci_cards) == ("tools_missing", 1)
    assert "Install the NVIDIA driver" in report.remedy
    assert gpus.samples(machine) == []


def test_a_driver_mismatch_is_a_third_answer_in_nvidia_smis_words(machine: Place) -> None:
    add_card(machine)
    words = "Failed to initialize NVML: Driver/library version mismatch"
    install_smi(machine, f"#!/bin/sh\necho '{words}'; exit 18\n")

    report = gpus.report(machine)

    assert (report.status, report.message) == ("driver_error", f"nvidia-smi: {words}")
    assert "reboot" in report.remedy


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\necho 'couldn't communicate with the NVIDIA driver' >&2; exit 9\n",
        "#!/bin/sh\necho 'No devices were found'; exit 6\n",
        "#!/bin/sh\nexit 0\n",
        "not a program",
    ],
)
def test_any_other_failure_of_nvidia_smi_is_a_driver_error(machine: Place, script: str) -> None:
    add_card(machine)
    install_smi(machine, script)

    report = gpus.report(machine)

    assert report.status == "driver_error"
    assert report.message.startswith("nvidia-smi: ")
    assert report.gpus == []


def test_gpus_are_read_with_their_figures_and_unknown_ones_stay_unknown(machine: Place) -> None:
    add_card(machine)
    install_smi(machine, SMI.replace("PID", str(os.getpid())))

    report = probe(machine, ProbeRequest()).gpu
    first, second = report.gpus

    assert report.status == "ok"
    assert (first.uuid, first.index, first.name, first.compute_capability) == (
        "GPU-aaaa",
        0,
        "NVIDIA H100 80GB HBM3",
        "9.0",
    )
    assert (first.memory_total_bytes, first.memory_used_bytes) == (81559 * 1024**2, 40 * GIB)
    assert (first.utilization_percent, first.power_w, first.driver_version) == (37.0, 310.55, "550.54.15")
    assert (second.utilization_percent, second.power_w) == (None, None)


def test_processes_on_a_gpu_are_named(machine: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    add_card(machine)
    install_smi(machine, SMI.replace("PID", str(os.getpid())))

    (held,) = gpus.report(machine).processes

    assert (held.gpu_uuid, held.pid, held.memory_bytes) == ("GPU-aaaa", os.getpid(), 40000 * 1024**2)
    assert held.user
    assert "python" in held.command[0]
    assert gpus.compute_pids(machine) == [os.getpid()]


def test_a_sample_has_what_changes_from_second_to_second(machine: Place) -> None:
    add_card(machine)
    install_smi(machine, SMI)

    sample = telemetry(machine)

    assert [(gpu.uuid, gpu.utilization_percent, gpu.sm_clock_mhz) for gpu in sample.gpus] == [
        ("GPU-aaaa", 37.0, 1980.0),
        ("GPU-bbbb", None, 345.0),
    ]
    assert sample.cpu_busy_s is not None
    assert sample.cpu_total_s is not None
    assert 0 < sample.cpu_busy_s < sample.cpu_total_s


def test_the_probe_knows_the_machine_and_the_space_of_directories_yet_to_be_made(machine: Place) -> None:
    found = probe(machine, ProbeRequest(paths=[str(machine.root / "not/yet"), "/proc/self/no"]))

    assert found.cpu_count
    assert found.memory_total_bytes
    assert found.boot_id
    assert found.disks[1].free_bytes == pytest.approx(found.disks[0].free_bytes, rel=0.1)
