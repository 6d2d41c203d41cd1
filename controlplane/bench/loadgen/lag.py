"""Was the client itself the bottleneck? The lag of its event loop, and the CPU it used."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from array import array
from typing import Any

from controlplane.bench.domain.metrics import percentile

PERIOD_S = 0.010


class LagProbe:
    """Every 10 ms, on an absolute schedule, note how late the loop was. A context around what is measured.

    A thread rings, and the loop hears it as it hears tokens: through a socket, not through a timer of its own.
    """

    def __init__(self) -> None:
        self.lags = array("d")
        self.cpu_s = 0.0
        self.wall_s = 0.0

    def __enter__(self) -> LagProbe:
        self._loop = asyncio.get_running_loop()
        self._heard, self._bell = socket.socketpair()
        self._heard.setblocking(False)
        self._bell.setblocking(False)
        self._is_over = False
        self._loop.add_reader(self._heard, self._tick)
        self._cpu_start = time.process_time()
        self._start = self._due = time.perf_counter()
        self._thread = threading.Thread(target=self._ring, args=(self._start,), name="lag-probe", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = time.process_time() - self._cpu_start
        self.wall_s = time.perf_counter() - self._start
        self._is_over = True
        self._thread.join()
        self._loop.remove_reader(self._heard)
        self._heard.close()
        self._bell.close()

    def _ring(self, due: float) -> None:
        ring, sleep, clock = self._bell.send, time.sleep, time.perf_counter  # 100 times a second: looked up once
        while not self._is_over:
            with contextlib.suppress(BlockingIOError):  # hundreds are unheard: the next one that is heard counts them
                ring(b".")
            due += PERIOD_S
            sleep(max(0.0, due - clock()))

    def _tick(self) -> None:
        self._heard.recv(4096)
        now = time.perf_counter()
        # Every ring that a stall swallowed counts with its own lateness, else a long stall would be one value in p99.
        while self._due <= now:
            self.lags.append(now - self._due)
            self._due += PERIOD_S

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
