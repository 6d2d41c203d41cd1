"""One request over HTTP: send, stamp every read, and say what became of it. Never retries."""

from __future__ import annotations

import asyncio
import hashlib

import aiohttp

from controlplane.bench.domain import records
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.domain.spec import RunSpec
from controlplane.bench.loadgen.answer import Answer
from controlplane.bench.loadgen.stamps import ReadStamp, RunClock, SendStamp, send_trace, stamping_connector

# Below uvicorn's 5 s: an idle connection is dropped here before the server drops it under a request.
KEEPALIVE_S = 2.0

# asyncio's and the built-in TimeoutError are two classes before Python 3.11; vLLM hosts may have 3.9.
TIMEOUTS = (asyncio.TimeoutError, TimeoutError)


def open_session(spec: RunSpec, api_key: str | None) -> aiohttp.ClientSession:
    """A session without a connection limit, proxy or cookies. Without a key no Authorization header is sent."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return aiohttp.ClientSession(
        connector=stamping_connector(limit=0, keepalive_timeout=KEEPALIVE_S),
        timeout=aiohttp.ClientTimeout(total=spec.request_timeout_s, sock_connect=spec.connect_timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={**headers, "Content-Type": "application/json", "Accept-Encoding": "identity"},
        trace_configs=[send_trace()],
        trust_env=False,
    )


async def exchange(
    session: aiohttp.ClientSession, url: str, body: bytes, record: RequestRecord, *, clock: RunClock
) -> None:
    """Send `body` and fill `record`. A cancelled task leaves the record cancelled and passes the cancellation on."""
    record.body_bytes = len(body)
    record.body_sha256 = hashlib.sha256(body).hexdigest()[:16]
    record.asked_s = record.sent_s = clock()
    stamp = SendStamp(record, clock)
    try:
        async with session.post(url, data=body, allow_redirects=False, trace_request_ctx=stamp) as response:
            record.http_status = response.status
            if response.status == 200 and response.content_type == "text/event-stream":
                answer = Answer(record)
                arrived, read = ReadStamp(response, clock).now, response.content.readany
                while chunk := await read():
                    answer.feed(chunk, arrived())
                answer.finish()
            else:
                await _refused(response, record)
    except TIMEOUTS:
        _fail(record, records.TIMEOUT, f"no complete answer within {session.timeout.total} s")
    except aiohttp.ClientError as error:
        began = record.http_status is not None
        _fail(record, records.DISCONNECT if began else records.CONNECT, f"{type(error).__name__}: {error}")
    finally:
        record.ended_s = clock()


async def _refused(response: aiohttp.ClientResponse, record: RequestRecord) -> None:
    sample = (await response.content.read(4 * records.SAMPLE_CHARACTERS)).decode("utf-8", "replace")
    response.close()
    _fail(record, records.NOT_A_STREAM if response.status == 200 else f"http_{response.status}", sample)


def _fail(record: RequestRecord, error_class: str, sample: str) -> None:
    """Keep the first cause: a broken connection after an error event is the error event's."""
    if not record.error_class:
        record.error_class = error_class
        record.error_sample = sample[: records.SAMPLE_CHARACTERS]
    record.status = records.FAILED
