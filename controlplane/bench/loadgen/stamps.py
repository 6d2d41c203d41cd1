"""Time stamps at the socket: when a request's body goes out, and when bytes of its answer come in.

Neither waits for a task's turn on the event loop. When 128 streams get their first token at once, the last of the 128
tasks runs milliseconds after its bytes have arrived: a stamp taken there would be the client's own delay.
"""

from __future__ import annotations

import functools
import time
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from controlplane.bench.domain.records import RequestRecord


class RunClock:
    """Seconds since it was made; a monotonic clock that all stamps of a run share."""

    def __init__(self) -> None:
        self._zero = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self._zero

    def at(self, stamp: float) -> float:
        """A raw `time.perf_counter()` reading as seconds of this clock."""
        return stamp - self._zero


class _StampingHandler(ResponseHandler):
    """aiohttp's connection, noting when the event loop handed it bytes."""

    read_stamp = 0.0

    def data_received(self, data: bytes) -> None:
        self.read_stamp = time.perf_counter()
        super().data_received(data)


class ReadStamp:
    """When the last bytes of one answer came off the socket."""

    def __init__(self, response: aiohttp.ClientResponse, clock: RunClock) -> None:
        # An answer that is complete already has given its connection back: then its bytes came just now.
        self._handler = response.connection.protocol if response.connection else None
        self._clock = clock

    def now(self) -> float:
        if isinstance(self._handler, _StampingHandler):
            return self._clock.at(self._handler.read_stamp)
        return self._clock()


class SendStamp:
    """Sets `sent_s` when the first bytes of the body go to the socket. When many requests leave together, aiohttp
    writes them a turn of the event loop after they were asked for: counting from there would add that turn to TTFT."""

    def __init__(self, record: RequestRecord, clock: RunClock) -> None:
        self._record, self._clock = record, clock
        self._is_sent = False

    def stamp(self) -> None:
        if not self._is_sent:
            self._is_sent = True
            self._record.sent_s = self._clock()


def stamping_connector(**options: Any) -> aiohttp.TCPConnector:
    """A connector whose connections stamp their reads.

    aiohttp has no public hook for it. `_factory` has been there since aiohttp 3.0; should it go, stamps fall back to
    the task's turn, which the calibration would show.
    """
    connector: Any = aiohttp.TCPConnector(**options)
    if hasattr(connector, "_factory"):
        connector._factory = functools.partial(_StampingHandler, loop=connector._loop)
    stamping: aiohttp.TCPConnector = connector
    return stamping


def send_trace() -> aiohttp.TraceConfig:
    """Tracing that calls the `SendStamp` given as `trace_request_ctx`."""
    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_on_chunk_sent)
    return trace


async def _on_chunk_sent(_session: aiohttp.ClientSession, context: SimpleNamespace, _sent: object) -> None:
    if isinstance(context.trace_request_ctx, SendStamp):
        context.trace_request_ctx.stamp()
