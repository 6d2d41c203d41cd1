"""Was the client itself the bottleneck? The lag of its event loop, and the CPU it used."""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import Any

from controlplane.bench.domain.metrics import percentile

PERIOD_S = 0.010


class LagProbe:
    """Every 10 ms, on an absolute schedule, note how late the loop was. A context around what is measured."""

    def __init__(self) -> None:
        self.lags = array("d")
        self.cpu_s = 0.0
        self.wall_s = 0.0

    def __enter__(self) -> LagProbe:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle
        self._cpu_start = time.process_time()
        self._start = self._due = time.perf_counter()
        self._handle = self._loop.call_soon(self._tick)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.cancel()
        self.cpu_s = time.process_time() - self._cpu_start
        self.wall_s = time.perf_counter() - self._start

    def _tick(self) -> None:
        now = time.perf_counter()  # not the loop's own clock: uvloop's stands still while callbacks run
        # Every tick that a stall swallowed counts with its own lateness, else a long stall would be one value in p99.
        while self._due <= now:
            self.lags.append(now - self._due)
            self._due += PERIOD_S
        self._handle = self._loop.call_later(self._due - now, self._tick)

    def summary(self) -> dict[str, Any]:
        """lag_*_ms of the loop; cpu_share of one core."""
        ordered = sorted(self.lags)
        shares = {"lag_p50_ms": 50, "lag_p95_ms": 95, "lag_p99_ms": 99, "lag_max_ms": 100}
        lags = {name: percentile(ordered, share) for name, share in shares.items()}
        return {
            **{name: None if lag is None else lag * 1e3 for name, lag in lags.items()},
            "cpu_s": self.cpu_s,
            "cpu_share": self.cpu_s / self.wall_s if self.wall_s else None,
        }
