"""Where the host program works: its directory, and the machine's files it reads (tests give other ones)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from controlplane.agent.processes import Processes

DEFAULT_ROOT = "~/.local/state/vllm-controlplane-host"


@dataclass(frozen=True)
class Place:
    """`root` belongs to one control plane; two on one host use two roots and never see each other's launches."""

    root: Path
    program: Path  # this zipapp: keepers are started from it
    processes: Processes = field(default_factory=Processes)
    sys: Path = Path("/sys")
    nvidia_smi: str = "nvidia-smi"

    @property
    def launches(self) -> Path:
        return self.root / "launches"

    @property
    def tools(self) -> Path:
        return self.root / "tools"


def boot_id(proc: Path) -> str:
    """The running boot's id; "" where the kernel does not tell."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
