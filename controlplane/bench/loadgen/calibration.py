"""The calibration server: an OpenAI-compatible stream with known times, to measure the load generator against.

`python -m controlplane.bench.loadgen.calibration [PORT]` prints its port and serves on loopback until it is stopped.
The truth is what it really did (schedule plus its own lateness): GET /truth?model=…. With `CALIBRATION_API_KEY` set
it answers 401 to any other key, as vLLM does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from aiohttp import web

from controlplane.bench.loadgen.behaviour import Behaviour, UnknownBehaviour

KEY_VARIABLE = "CALIBRATION_API_KEY"
TEMPLATE_TOKENS = 5  # what a chat template would add to a prompt, at one token a word
FINISH = "length"


@dataclass
class Ledger:
    """What the server did for one model name; times in seconds of its clock, one entry per finished request."""

    number: int = 0
    active: int = 0
    max_active: int = 0
    tokens: int = 0
    received: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)


class CalibrationServer:
    """The application and its ledgers by model name."""

    def __init__(self, *, api_key: str | None = None) -> None:
        self.ledgers: dict[str, Ledger] = {}
        self.keys_seen: dict[str, list[bool]] = {}  # path -> was a key sent, per call
        self._api_key = api_key
        self._routes = {"/metrics": self._metrics, "/truth": self._truth, "/v1/chat/completions": self._chat}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request by its path."""
        if route := self._routes.get(request.path):
            return await route(request)
        return web.json_response({"detail": "Not Found"}, status=404)

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        self._note_key(request)
        running = sum(ledger.active for ledger in self.ledgers.values())
        tokens = sum(ledger.tokens for ledger in self.ledgers.values())
        lines = [f'vllm:num_requests_running{{engine="0"}} {running}', 'vllm:num_requests_waiting{engine="0"} 0']
        lines.append(f'vllm:generation_tokens_total{{engine="0"}} {tokens}')
        return web.Response(text="\n".join(lines) + "\n")

    async def _truth(self, request: web.BaseRequest) -> web.Response:
        ledger = self.ledgers.get(request.query["model"], Ledger())
        return web.json_response({**vars(ledger), "keys_seen": self.keys_seen})

    async def _chat(self, request: web.BaseRequest) -> web.StreamResponse:
        received = request.protocol.arrived_s if isinstance(request.protocol, _StampingHandler) else time.perf_counter()
        self._note_key(request)
        if self._api_key and request.headers.get("Authorization") != f"Bearer {self._api_key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        body = await request.json()
        try:
            behaviour = Behaviour.from_model(body["model"])
        except UnknownBehaviour as error:
            return web.json_response(
                {"error": {"message": str(error), "type": "NotFoundError", "code": 404}}, status=404
            )
        ledger = self.ledgers.setdefault(body["model"], Ledger())
        ledger.bodies.append(sha256(await request.read()).hexdigest()[:16])
        number, ledger.number = ledger.number, ledger.number + 1
        ledger.active += 1
        ledger.max_active = max(ledger.max_active, ledger.active)
        try:
            return await _Exchange(request, body, behaviour, ledger, number, received).answer()
        finally:
            ledger.active -= 1

    def _note_key(self, request: web.BaseRequest) -> None:
        self.keys_seen.setdefault(request.path, []).append("Authorization" in request.headers)


class _StampingHandler(web.RequestHandler):
    """Notes when bytes came off the socket. A wave of 128 requests waits some 20 ms for the handlers' turns: without
    this stamp, that wait of the server's would be taken for the client's."""

    __slots__ = ("arrived_s",)

    arrived_s: float

    def data_received(self, data: bytes) -> None:
        self.arrived_s = time.perf_counter()
        super().data_received(data)


class _StampingServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _StampingHandler(self, loop=self._loop, **self._kwargs)


class _Exchange:
    """One request being answered."""

    def __init__(
        self,
        request: web.BaseRequest,
        body: dict[str, Any],
        behaviour: Behaviour,
        ledger: Ledger,
        number: int,
        received: float,
    ) -> None:
        self.request, self.body, self.behaviour = request, body, behaviour
        self.ledger, self.number, self.received = ledger, number, received
        self.tokens = int(body.get("max_tokens") or 16)
        self.stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})

    async def answer(self) -> web.StreamResponse:
        behaviour = self.behaviour = self.behaviour.towards(self.number)
        fault = behaviour.fault(self.number)
        if behaviour.silent:
            await asyncio.sleep(3600)
        if fault == "error":
            return web.json_response(
                {"error": {"message": "injected", "type": "InternalServerError", "code": 500}}, status=500
            )
        if behaviour.json_answer:
            return web.json_response({"choices": [], "usage": self._usage()})
        await self.stream.prepare(self.request)
        if behaviour.role_first:
            await self._send(_chunk({"role": "assistant", "content": ""}))
        if not behaviour.empty and not await self._send_tokens(fault):
            return self.stream
        if not behaviour.truncated:
            await self._send_ending()
        await self.stream.write_eof()
        return self.stream

    async def _send_tokens(self, fault: str | None) -> bool:
        """Every chunk at its time; False when a fault has ended the stream."""
        behaviour, per_chunk = self.behaviour, self.behaviour.tokens_per_chunk
        cold_s = behaviour.slow_ms / 1e3 if self.number < behaviour.slow_first else 0.0
        start = self.received + behaviour.ttft_ms / 1e3 + cold_s
        visible, hidden = _chunk(_text(per_chunk, is_reasoning=False)), _chunk(_text(per_chunk, is_reasoning=True))
        chunks = -(-self.tokens // per_chunk)
        first = last = 0.0
        for at in range(chunks):
            await _until(start + at * behaviour.gap_ms / 1e3)
            sent = at * per_chunk
            if fault and sent >= self.tokens / 2:
                await self._break(fault)
                return False
            is_reasoning = bool(behaviour.reasoning) and sent < self.tokens / 2
            if at == chunks - 1:
                finish = None if behaviour.truncated else FINISH
                await self._send(_chunk(_text(self.tokens - sent, is_reasoning=is_reasoning), finish=finish))
            else:
                await self._send(hidden if is_reasoning else visible)
            last = time.perf_counter()
            first = first or last
        self._enter(first, last, chunks)
        return True

    async def _break(self, fault: str) -> None:
        await self._send({"error": {"message": "injected mid-stream", "type": "InternalServerError", "code": 500}})
        if fault == "in_band":
            await self.stream.write(b"data: [DONE]\n\n")
            await self.stream.write_eof()
        elif self.request.transport:
            # Close, not abort: what was written still arrives, then the connection ends without the last HTTP chunk.
            self.request.transport.close()

    async def _send_ending(self) -> None:
        wants_usage = (self.body.get("stream_options") or {}).get("include_usage")
        if wants_usage and self.behaviour.usage and not self.behaviour.empty:
            await self._send({"id": "cal", "object": "chat.completion.chunk", "choices": [], "usage": self._usage()})
        await self.stream.write(b"data: [DONE]\r\n\r\n" if self.behaviour.crlf else b"data: [DONE]\n\n")

    async def _send(self, event: dict[str, Any] | bytes) -> None:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        end = b"\r\n" if self.behaviour.crlf else b"\n"
        before = b": keep-alive" + end * 2 if self.behaviour.crlf else b""
        await self.stream.write(before + b"data: " + data + end * 2)

    def _enter(self, first: float, last: float, chunks: int) -> None:
        ledger = self.ledger
        ledger.received.append(self.received)
        ledger.first.append(first)
        ledger.last.append(last)
        ledger.chunks.append(chunks)
        ledger.tokens += self.tokens

    def _usage(self) -> dict[str, int]:
        prompt = TEMPLATE_TOKENS + sum(len(str(message["content"]).split()) for message in self.body["messages"])
        return {"prompt_tokens": prompt, "completion_tokens": self.tokens, "total_tokens": prompt + self.tokens}


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return json.dumps(
        {"id": "cal", "object": "chat.completion.chunk", "created": 1, "model": "cal", "choices": [choice]}
    ).encode()


def _text(tokens: int, *, is_reasoning: bool) -> dict[str, str]:
    return {"reasoning_content" if is_reasoning else "content": " tic" * tokens}


async def _until(due: float) -> None:
    """Sleep until `due`, never less: uvloop rounds to milliseconds and would wake up to half of one too early."""
    while (wait := due - time.perf_counter()) > 0:  # noqa: ASYNC110 - for a time, not for an event
        await asyncio.sleep(max(wait, 0.001))


async def start_server(server: CalibrationServer, port: int = 0) -> tuple[web.ServerRunner, int]:
    """Serve on loopback; port 0 lets the kernel choose. Gives the runner (call `cleanup`) and the port."""
    runner = web.ServerRunner(_StampingServer(server.handle, access_log=None, handler_cancellation=True))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    return runner, int(runner.addresses[0][1])


async def _serve(port: int) -> None:
    server = CalibrationServer(api_key=os.environ.get(KEY_VARIABLE))
    runner, actual = await start_server(server, port)
    sys.stdout.write(f"{actual}\n")
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415 - optional

        uvloop.install()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))


if __name__ == "__main__":
    main()
