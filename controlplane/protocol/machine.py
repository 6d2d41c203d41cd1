"""What a machine is and how busy it is. Figures that cannot be read are None, never 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional


@dataclass(frozen=True)
class ProbeRequest:
    """`probe`: `paths` are directories whose disk space is wanted besides the root's."""

    paths: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Disk:
    """Space of the file system that holds `path` (or the nearest directory above it that exists)."""

    path: str
    total_bytes: Optional[int] = None
    free_bytes: Optional[int] = None  # for this user
    error: Optional[str] = None


@dataclass(frozen=True)
class Gpu:
    uuid: str
    index: int
    name: str
    memory_total_bytes: Optional[int] = None
    memory_used_bytes: Optional[int] = None
    driver_version: Optional[str] = None
    compute_capability: Optional[str] = None
    utilization_percent: Optional[float] = None
    power_w: Optional[float] = None
    temperature_c: Optional[float] = None
    pci_bus_id: Optional[str] = None


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds GPU memory. `nonce` is set when some control plane launched it: compare it with your own."""

    gpu_uuid: str
    pid: int
    memory_bytes: Optional[int] = None
    command: list[str] = field(default_factory=list)  # redacted
    user: Optional[str] = None
    nonce: Optional[str] = None


@dataclass(frozen=True)
class GpuReport:
    """`status`: ok, none (no GPU), tools_missing (GPU, no nvidia-smi), driver_error (see `message`)."""

    status: str
    message: str = ""
    remedy: str = ""
    pci_cards: int = 0
    gpus: list[Gpu] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)


@dataclass(frozen=True)
class Machine:
    """The answer to `probe`."""

    hostname: str
    os_name: str  # as /etc/os-release calls it
    kernel: str
    architecture: str
    boot_id: str
    user: str
    python_version: str
    python_executable: str
    cpu_model: Optional[str]
    cpu_count: Optional[int]  # logical CPUs this user may use
    memory_total_bytes: Optional[int]
    memory_available_bytes: Optional[int]
    disks: list[Disk]
    gpu: GpuReport


@dataclass(frozen=True)
class GpuSample:
    uuid: str
    utilization_percent: Optional[float] = None
    memory_used_bytes: Optional[int] = None
    power_w: Optional[float] = None
    sm_clock_mhz: Optional[float] = None
    temperature_c: Optional[float] = None


@dataclass(frozen=True)
class Telemetry:
    """The answer to `telemetry`. CPU times are cumulative: the load is the difference of two samples."""

    at: float  # Unix time
    cpu_busy_s: Optional[float]  # all CPUs together, since boot
    cpu_total_s: Optional[float]
    load_1m: Optional[float]
    memory_total_bytes: Optional[int]
    memory_available_bytes: Optional[int]
    gpus: list[GpuSample]


@dataclass(frozen=True)
class Hello:
    """The answer to `hello`: who is speaking."""

    protocol: int
    digest: str  # SHA-256 of the program file
    python_version: str
    hostname: str
    boot_id: str
    pid: int
    root: str
