"""What machine this is (`probe`), how busy it is (`telemetry`), who speaks (`hello`)."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Optional

from controlplane.agent import gpus
from controlplane.agent.place import Place, boot_id
from controlplane.protocol.machine import Disk, Hello, Machine, ProbeRequest, Telemetry
from controlplane.protocol.wire import VERSION

_OS_RELEASE = Path("/etc/os-release")


def hello(place: Place) -> Hello:
    """Protocol, program and machine, for the driver to compare with what it expects."""
    return Hello(
        protocol=VERSION,
        digest=hashlib.sha256(place.program.read_bytes()).hexdigest(),
        python_version=platform.python_version(),
        hostname=socket.gethostname(),
        boot_id=boot_id(place.processes.proc),
        pid=os.getpid(),
        root=str(place.root),
    )


def probe(place: Place, request: ProbeRequest) -> Machine:
    """Everything about the machine that does not change from second to second."""
    memory = _memory(place)
    return Machine(
        hostname=socket.gethostname(),
        os_name=_os_name(),
        kernel=platform.release(),
        architecture=platform.machine(),
        boot_id=boot_id(place.processes.proc),
        user=getpass.getuser(),
        python_version=platform.python_version(),
        python_executable=sys.executable,
        cpu_model=_cpu_model(place),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        disks=[_disk(path) for path in dict.fromkeys([str(place.root), *request.paths])],
        gpu=gpus.report(place),
    )


def telemetry(place: Place) -> Telemetry:
    """One sample; cheap enough for once a second."""
    memory, cpu = _memory(place), _cpu_times(place)
    return Telemetry(
        at=time.time(),
        cpu_busy_s=cpu[0] if cpu else None,
        cpu_total_s=cpu[1] if cpu else None,
        load_1m=os.getloadavg()[0],
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        gpus=gpus.samples(place) if gpus.pci_cards(place.sys) else [],
    )


def _disk(path: str) -> Disk:
    """Space where `path` is or would be made."""
    nearest = Path(path).expanduser()
    try:
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        usage = shutil.disk_usage(nearest)
    except OSError as error:
        return Disk(path=path, error=error.strerror or type(error).__name__)
    return Disk(path=path, total_bytes=usage.total, free_bytes=usage.free)


def _os_name() -> str:
    for line in _lines(_OS_RELEASE):
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip().strip('"')
    return platform.system()


def _cpu_model(place: Place) -> Optional[str]:
    for line in _lines(place.processes.proc / "cpuinfo"):
        if line.startswith(("model name", "Model")):
            return line.split(":", 1)[1].strip()
    return None


def _memory(place: Place) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    found: dict[str, int] = {}
    for line in _lines(place.processes.proc / "meminfo"):
        name, _, value = line.partition(":")
        if value.strip().endswith(" kB"):
            found[name] = int(value.split()[0]) * 1024
    return found


def _cpu_times(place: Place) -> Optional[tuple[float, float]]:
    """Busy and total CPU seconds since boot, all CPUs together (first line of /proc/stat)."""
    first = _lines(place.processes.proc / "stat")[:1]
    if not first:
        return None
    ticks = [int(value) for value in first[0].split()[1:9]]  # user nice system idle iowait irq softirq steal
    per_s = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - ticks[3] - ticks[4]) / per_s, sum(ticks) / per_s


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
