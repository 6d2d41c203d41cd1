"""A host's nvidia-smi, played by a small program of that name on PATH."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controlplane.bench.loadgen.sampling import GpuSampler


def sample(
    monkeypatch: pytest.MonkeyPatch, folder: Path, script: str | None, *, uuids: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Report of a sampler on a host whose nvidia-smi is `script` and ends by itself (None: there is none)."""
    if script is not None:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    ticks = iter(range(100))
    sampler = GpuSampler(uuids=uuids, clock=lambda: float(next(ticks)))

    async def start_and_read() -> None:
        await sampler.start(1.0)
        await sampler.run()

    asyncio.run(start_and_read())
    return sampler.report()


TWO_GPUS = """\
echo '0, GPU-a, 80, 1000, 2000, 300.5, 1980'
echo '1, GPU-b, [N/A], 10, 2000, [N/A], 210'
echo '0, GPU-a, 90, 1100, 2000, 310.0, 1980'
"""


def test_readings_become_series_by_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = sample(monkeypatch, tmp_path, TWO_GPUS)
    assert report["status"] == "ok"
    assert report["utilisation_mean_percent"] == 85
    assert report["gpus"]["GPU-a"]["series"]["utilisation_percent"] == [80, 90]
    assert report["gpus"]["GPU-b"]["series"]["power_w"] == [None]


def test_only_the_instances_gpus_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = sample(monkeypatch, tmp_path, TWO_GPUS, uuids=("GPU-b",))
    assert set(report["gpus"]) == {"GPU-b"}
    assert report["utilisation_mean_percent"] is None


def test_a_host_without_nvidia_smi_has_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert sample(monkeypatch, tmp_path, None)["status"] == "no_gpu"


def test_an_nvidia_smi_that_fails_is_told_from_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = sample(monkeypatch, tmp_path, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    assert report["status"] == "nvidia_smi_failed"
    assert "version mismatch" in report["detail"]
