"""Once a second during the run: what the server and the GPUs say about themselves."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from controlplane.bench.domain import gpu_samples
from controlplane.bench.domain.gpu_samples import GpuReading
from controlplane.bench.loadgen.client import TIMEOUTS
from controlplane.bench.loadgen.connection import HttpClient
from controlplane.bench.loadgen.framing import BadAnswer
from controlplane.protocol.engine_metrics import EngineSample, difference, has_restarted, parse_metrics

METRICS_TIMEOUT_S = 5.0


class _Document:
    """An answer that is read as a whole."""

    def __init__(self) -> None:
        self.status = 0
        self.content = bytearray()

    def sent(self, at: float) -> None:
        """Of no interest here."""

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.status = status

    def body(self, data: bytes, at: float) -> None:
        self.content += data


class EngineSampler:
    """Reads /metrics on an absolute schedule. A reading that fails is counted and leaves a hole, never a zero."""

    def __init__(self, client: HttpClient, url: str, *, clock: Callable[[], float]) -> None:
        self._client, self._url, self._clock = client, url, clock
        self.times_s: list[float] = []
        self.samples: list[EngineSample] = []
        self.missed = 0
        self.last_error: str | None = None

    async def sample(self) -> None:
        asked_s = self._clock()
        document = _Document()
        try:
            await self._client.request("GET", self._url, document, timeout_s=METRICS_TIMEOUT_S)
        except (*TIMEOUTS, OSError, BadAnswer) as error:
            self._miss(f"{type(error).__name__}: {error}")
            return
        if document.status != 200:
            self._miss(f"HTTP {document.status}")
            return
        self.times_s.append(asked_s)
        self.samples.append(parse_metrics(document.content.decode("utf-8", "replace")))

    def _miss(self, error: str) -> None:
        self.missed += 1
        self.last_error = error

    async def run(self, period_s: float) -> None:
        """Sample until cancelled."""
        due_s = self._clock()
        while True:
            await self.sample()
            due_s = max(due_s + period_s, self._clock())
            await asyncio.sleep(due_s - self._clock())

    def in_flight(self, window: tuple[float, float] | None) -> tuple[float, ...]:
        """running + waiting at every sample inside a window of run time (seconds)."""
        if window is None:
            return ()
        inside = (sample for at, sample in self._rows() if window[0] <= at <= window[1])
        return tuple(each.running + (each.waiting or 0) for each in inside if each.running is not None)

    def is_restarted(self) -> bool:
        return has_restarted(self.samples)

    def report(self) -> dict[str, Any]:
        """Series by column, and what the counters grew by from first to last sample."""
        rows = [asdict(sample) for sample in self.samples]
        series = {name: [row[name] for row in rows] for name in asdict(EngineSample())}
        grown = difference(self.samples[0], self.samples[-1]) if len(self.samples) > 1 else None
        times = [round(at, 3) for at in self.times_s]
        return {
            "t_s": times,
            "series": series,
            "difference": grown,
            "missed": self.missed,
            "last_error": self.last_error,
        }

    def _rows(self) -> list[tuple[float, EngineSample]]:
        return list(zip(self.times_s, self.samples))  # noqa: B905 - Python 3.9; both grow together


class GpuSampler:
    """Reads one long-lived nvidia-smi. `status` is "ok", or says why there is nothing (see gpu_samples)."""

    def __init__(self, *, uuids: tuple[str, ...], clock: Callable[[], float]) -> None:
        self._uuids, self._clock = set(uuids), clock
        self._process: asyncio.subprocess.Process | None = None
        self.status = gpu_samples.OFF
        self.detail: str | None = None
        self.times_s: list[float] = []
        self.readings: list[GpuReading] = []

    async def start(self, period_s: float) -> None:
        """Start nvidia-smi, if there is one. Before anything is measured: a fork stops the event loop for a while."""
        program = shutil.which("nvidia-smi")
        if program is None:
            self.status = gpu_samples.NO_GPU
            return
        self.status = gpu_samples.NVIDIA_SMI_FAILED
        _, *options = gpu_samples.query_command(period_s=period_s)
        pipe, merged = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        try:
            self._process = await asyncio.create_subprocess_exec(program, *options, stdout=pipe, stderr=merged)
        except OSError as error:
            self.detail = str(error)

    async def run(self) -> None:
        """Read until cancelled, or until nvidia-smi ends; returns at once when there is none."""
        process = self._process
        if process is None:
            return
        try:
            await self._read(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise RuntimeError("nvidia-smi was started without a pipe")
        async for raw in process.stdout:
            line = raw.decode("utf-8", "replace").strip()
            reading = gpu_samples.parse_reading(line)
            if reading is None:
                self.detail = self.detail or line[:300]
            elif not self._uuids or reading.uuid in self._uuids:
                self.status = "ok"
                self.times_s.append(self._clock())
                self.readings.append(reading)

    def report(self) -> dict[str, Any]:
        """Per GPU: series by column and the mean utilisation and largest memory of the run."""
        gpus: dict[str, dict[str, Any]] = {}
        for at, reading in zip(self.times_s, self.readings):  # noqa: B905 - Python 3.9; both grow together
            row = asdict(reading)
            gpu = gpus.setdefault(reading.uuid, {"index": row["index"], "t_s": [], "series": {}})
            gpu["t_s"].append(round(at, 3))
            for name in ("utilisation_percent", "memory_used_bytes", "memory_total_bytes", "power_w", "sm_clock_mhz"):
                gpu["series"].setdefault(name, []).append(row[name])
        used = [each.utilisation_percent for each in self.readings if each.utilisation_percent is not None]
        mean = sum(used) / len(used) if used else None
        return {"status": self.status, "detail": self.detail, "utilisation_mean_percent": mean, "gpus": gpus}
