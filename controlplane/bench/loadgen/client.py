"""One request over HTTP: send, stamp every read, and say what became of it. Never retries."""

from __future__ import annotations

import asyncio
import hashlib
import time

from controlplane.bench.domain import records
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.domain.spec import RunSpec
from controlplane.bench.loadgen.answer import Answer
from controlplane.bench.loadgen.connection import HttpClient
from controlplane.bench.loadgen.framing import BadAnswer

# asyncio's and the built-in TimeoutError are two classes before Python 3.11; vLLM hosts may have 3.9.
TIMEOUTS = (asyncio.TimeoutError, TimeoutError)
MAX_SAMPLE_BYTES = 4 * records.SAMPLE_CHARACTERS
EVENT_STREAM = "text/event-stream"


class RunClock:
    """Seconds since it was made; a monotonic clock that all stamps of a run share."""

    def __init__(self) -> None:
        self._zero = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self._zero

    def at(self, stamp: float) -> float:
        """A raw `time.perf_counter()` reading as seconds of this clock."""
        return stamp - self._zero


def open_client(spec: RunSpec, api_key: str | None) -> HttpClient:
    """Without a key no Authorization header is sent. Raises ValueError for a key that no header can carry."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return HttpClient(headers, connect_timeout_s=spec.connect_timeout_s)


async def exchange(
    client: HttpClient, url: str, body: bytes, record: RequestRecord, *, clock: RunClock, timeout_s: float
) -> None:
    """Send `body` and fill `record`. A cancelled task leaves the record cancelled and passes the cancellation on."""
    record.body_bytes = len(body)
    record.body_sha256 = hashlib.sha256(body).hexdigest()[:16]
    record.asked_s = record.sent_s = clock()
    reader = _AnswerReader(record, clock)
    try:
        await client.request("POST", url, reader, body=body, content_type="application/json", timeout_s=timeout_s)
        reader.finish()
    except TIMEOUTS as error:
        _fail(record, records.TIMEOUT, str(error) or type(error).__name__)
    except (OSError, BadAnswer) as error:
        began = record.http_status is not None
        _fail(record, records.DISCONNECT if began else records.CONNECT, f"{type(error).__name__}: {error}")
    finally:
        record.ended_s = clock()


class _AnswerReader:
    """Reads a stream of tokens into the record, and of anything else the beginning."""

    def __init__(self, record: RequestRecord, clock: RunClock) -> None:
        self._record, self._clock = record, clock
        self._answer = Answer(record)
        self._is_stream = False
        self._sample = b""

    def sent(self, at: float) -> None:
        self._record.sent_s = self._clock.at(at)

    def head(self, status: int, headers: dict[str, str]) -> None:
        self._record.http_status = status
        self._is_stream = status == 200 and headers.get("content-type", "").lower().startswith(EVENT_STREAM)

    def body(self, data: bytes, at: float) -> None:
        if self._is_stream:
            self._answer.feed(data, self._clock.at(at))
        elif len(self._sample) < MAX_SAMPLE_BYTES:
            self._sample += data

    def finish(self) -> None:
        """The answer has come to its end: decide what it was."""
        status = self._record.http_status
        if self._is_stream:
            self._answer.finish()
        else:
            sample = self._sample[:MAX_SAMPLE_BYTES].decode("utf-8", "replace")
            _fail(self._record, records.NOT_A_STREAM if status == 200 else f"http_{status}", sample)


def _fail(record: RequestRecord, error_class: str, sample: str) -> None:
    """Keep the first cause: a broken connection after an error event is the error event's."""
    if not record.error_class:
        record.error_class = error_class
        record.error_sample = sample[: records.SAMPLE_CHARACTERS]
    record.status = records.FAILED
