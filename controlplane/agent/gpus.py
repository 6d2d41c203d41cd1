"""What nvidia-smi and the PCI bus say about GPUs.

Three answers that people mix up are kept apart: no GPU in the machine; a GPU but no driver tools; tools that cannot
talk to the driver (after an upgrade without a reboot, most often).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional

from controlplane.agent.place import Place
from controlplane.protocol.machine import Gpu, GpuProcess, GpuReport, GpuSample

_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"
_TIMEOUT_S = 15.0
_GPU_FIELDS = (
    "uuid,index,name,memory.total,memory.used,driver_version,compute_cap,utilization.gpu,power.draw,temperature.gpu,"
    "pci.bus_id"
)
_SAMPLE_FIELDS = "uuid,utilization.gpu,memory.used,power.draw,clocks.sm,temperature.gpu"
_MIB = 1024 * 1024


class _SmiError(Exception):
    """nvidia-smi is missing (`is_missing`) or failed; the text is its own."""

    def __init__(self, text: str, *, is_missing: bool = False) -> None:
        super().__init__(text)
        self.is_missing = is_missing


def report(place: Place) -> GpuReport:
    """Every GPU with its processes, or which of the three reasons there is for seeing none."""
    cards = pci_cards(place.sys)
    try:
        gpus = [_gpu(row) for row in _query(place, f"--query-gpu={_GPU_FIELDS}")]
    except _SmiError as error:
        return _why_none(error, cards)
    if not gpus and not cards:
        return GpuReport(status="none", message="This machine has no NVIDIA GPU.")
    if not gpus:
        return _why_none(_SmiError("No devices were found"), cards)
    return GpuReport(status="ok", message="", pci_cards=cards, gpus=gpus, processes=_gpu_processes(place))


def samples(place: Place) -> list[GpuSample]:
    """The figures that change from second to second; [] where there is no usable GPU."""
    try:
        rows = _query(place, f"--query-gpu={_SAMPLE_FIELDS}")
    except _SmiError:
        return []
    return [
        GpuSample(
            uuid=row[0],
            utilization_percent=_number(row[1]),
            memory_used_bytes=_mib(row[2]),
            power_w=_number(row[3]),
            sm_clock_mhz=_number(row[4]),
            temperature_c=_number(row[5]),
        )
        for row in rows
        if len(row) == len(_SAMPLE_FIELDS.split(","))
    ]


def compute_pids(place: Place) -> list[int]:
    """Processes that hold GPU memory; [] where there is no usable GPU."""
    if not pci_cards(place.sys):
        return []
    try:
        return [int(row[0]) for row in _query(place, "--query-compute-apps=pid") if row[0].isdigit()]
    except _SmiError:
        return []


def pci_cards(sys_root: Path) -> int:
    """NVIDIA display and 3D controllers on the PCI bus, whether or not a driver is loaded."""
    return sum(
        _text(device / "vendor") == _NVIDIA and _text(device / "class").startswith(_DISPLAY_CLASS)
        for device in sys_root.glob("bus/pci/devices/*")
    )


def _why_none(error: _SmiError, cards: int) -> GpuReport:
    if error.is_missing and not cards:
        return GpuReport(status="none", message="This machine has no NVIDIA GPU.")
    if error.is_missing:
        return GpuReport(
            status="tools_missing",
            message=f"{cards} NVIDIA GPU(s) on the PCI bus, but nvidia-smi is not installed.",
            remedy="Install the NVIDIA driver with its tools, then probe again.",
            pci_cards=cards,
        )
    text = str(error)
    if "mismatch" in text.lower():
        remedy = (
            "Kernel module and driver library differ, usually after an upgrade: reboot, or reload the nvidia modules."
        )
    else:
        remedy = "Run nvidia-smi on the host; load the nvidia kernel module or reinstall the driver."
    return GpuReport(status="driver_error", message=f"nvidia-smi: {text}", remedy=remedy, pci_cards=cards)


def _gpu(row: list[str]) -> Gpu:
    cells = [*row, *[""] * 11][:11]
    return Gpu(
        uuid=cells[0],
        index=int(_number(cells[1]) or 0),
        name=cells[2],
        memory_total_bytes=_mib(cells[3]),
        memory_used_bytes=_mib(cells[4]),
        driver_version=cells[5] or None,
        compute_capability=cells[6] if _number(cells[6]) is not None else None,
        utilization_percent=_number(cells[7]),
        power_w=_number(cells[8]),
        temperature_c=_number(cells[9]),
        pci_bus_id=cells[10] or None,
    )


def _gpu_processes(place: Place) -> list[GpuProcess]:
    try:
        rows = _query(place, "--query-compute-apps=gpu_uuid,pid,used_memory,process_name")
    except _SmiError:
        return []
    table = place.processes.table()
    found = []
    for row in rows:
        if len(row) < 4 or not row[1].isdigit():
            continue
        pid = int(row[1])
        mark = table[pid].nonce if pid in table else None
        found.append(
            GpuProcess(
                gpu_uuid=row[0],
                pid=pid,
                memory_bytes=_mib(row[2]),
                command=place.processes.command(pid) or [row[3]],
                user=place.processes.user(pid),
                nonce=mark,
            )
        )
    return found


def _query(place: Place, *arguments: str) -> list[list[str]]:
    """Run nvidia-smi and return its CSV rows, cells stripped."""
    try:
        done = subprocess.run(
            [place.nvidia_smi, *arguments, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise _SmiError("not installed", is_missing=True) from error
    except subprocess.TimeoutExpired as error:
        raise _SmiError(f"no answer in {_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise _SmiError(f"cannot be run: {error.strerror}") from error
    text = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        raise _SmiError(" ".join((text or done.stderr.decode("utf-8", "replace")).split()) or f"exit {done.returncode}")
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if "," in line or line.isdigit()]


def _number(cell: str) -> Optional[float]:
    """A figure, or None for "[N/A]" and its relatives."""
    try:
        return float(cell)
    except ValueError:
        return None


def _mib(cell: str) -> Optional[int]:
    number = _number(cell)
    return None if number is None else int(number * _MIB)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
