"""GPU readings as nvidia-smi prints them."""

from __future__ import annotations

from dataclasses import dataclass

QUERY_FIELDS = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total", "power.draw", "clocks.sm")

# Three different answers, never a guess: there is no nvidia-smi; it is there and fails; it works (a list of readings).
NO_GPU = "no_gpu"
NVIDIA_SMI_FAILED = "nvidia_smi_failed"
OFF = "off"


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment; None where the card or a MIG slice does not report it."""

    index: int
    uuid: str
    utilisation_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    sm_clock_mhz: float | None


def query_command(*, period_s: float) -> list[str]:
    """One nvidia-smi that prints a line per GPU every period; starting one each second would cost far more."""
    return [
        "nvidia-smi",
        f"--query-gpu={','.join(QUERY_FIELDS)}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={round(period_s * 1000)}",
    ]


def parse_reading(line: str) -> GpuReading | None:
    """One line of `query_command`, or None for a line that is not one."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(QUERY_FIELDS) or not cells[0].isdigit():
        return None
    return GpuReading(
        index=int(cells[0]),
        uuid=cells[1],
        utilisation_percent=_number(cells[2]),
        memory_used_bytes=_mebibytes(cells[3]),
        memory_total_bytes=_mebibytes(cells[4]),
        power_w=_number(cells[5]),
        sm_clock_mhz=_number(cells[6]),
    )


def _number(cell: str) -> float | None:
    """A number, or None for `[N/A]`, `[Not Supported]`, `[Unknown Error]`."""
    try:
        return float(cell)
    except ValueError:
        return None


def _mebibytes(cell: str) -> int | None:
    number = _number(cell)
    return None if number is None else round(number * 1024 * 1024)
