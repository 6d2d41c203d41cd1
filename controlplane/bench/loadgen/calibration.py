"""The calibration server: an OpenAI-compatible stream with known times, to measure the load generator against.

`python -m controlplane.bench.loadgen.calibration [PORT]` prints its port and serves on loopback until it is stopped.
The truth is what it really did (schedule plus its own lateness): GET /truth?model=…. With `CALIBRATION_API_KEY` set
it answers 401 to any other key, as vLLM does.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

from controlplane.bench.loadgen import paced
from controlplane.bench.loadgen.behaviour import Behaviour, UnknownBehaviour

KEY_VARIABLE = "CALIBRATION_API_KEY"
TEMPLATE_TOKENS = 5  # what a chat template would add to a prompt, at one token a word
FINISH = "length"
INTERNAL = "InternalServerError"


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
    """Its answers, and its ledgers by model name."""

    def __init__(self, *, api_key: str | None = None) -> None:
        self.ledgers: dict[str, Ledger] = {}
        self.keys_seen: dict[str, list[bool]] = {}  # path -> was a key sent, per call
        self._api_key = api_key
        self._routes: dict[str, Callable[[paced.Request], paced.Answer]] = {
            "/metrics": self._metrics,
            "/truth": self._truth,
            "/v1/chat/completions": self._chat,
        }

    def answer(self, request: paced.Request) -> paced.Answer:
        """Answer one request by its path."""
        route = self._routes.get(urlsplit(request.target).path)
        return route(request) if route else _json({"detail": "Not Found"}, status=404)

    def _metrics(self, request: paced.Request) -> paced.Answer:
        self._note_key(request)
        running = sum(ledger.active for ledger in self.ledgers.values())
        tokens = sum(ledger.tokens for ledger in self.ledgers.values())
        lines = [f'vllm:num_requests_running{{engine="0"}} {running}', 'vllm:num_requests_waiting{engine="0"} 0']
        lines.append(f'vllm:generation_tokens_total{{engine="0"}} {tokens}')
        return _whole("\n".join([*lines, ""]).encode(), "text/plain; charset=utf-8")

    def _truth(self, request: paced.Request) -> paced.Answer:
        model = parse_qs(urlsplit(request.target).query, keep_blank_values=True)["model"][0]
        return _json({**vars(self.ledgers.get(model, Ledger())), "keys_seen": self.keys_seen})

    def _chat(self, request: paced.Request) -> paced.Answer:
        self._note_key(request)
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return _json({"error": "Unauthorized"}, status=401)
        body = json.loads(request.body)
        try:
            behaviour = Behaviour.from_model(body["model"])
        except UnknownBehaviour as error:
            return _json({"error": {"message": str(error), "type": "NotFoundError", "code": 404}}, status=404)
        ledger = self.ledgers.setdefault(body["model"], Ledger())
        ledger.bodies.append(sha256(request.body).hexdigest()[:16])
        number, ledger.number = ledger.number, ledger.number + 1
        return _counted(_Exchange(body, behaviour.towards(number), ledger, number, request.received).answer(), ledger)

    def _note_key(self, request: paced.Request) -> None:
        self.keys_seen.setdefault(urlsplit(request.target).path, []).append("authorization" in request.headers)


def _counted(answer: paced.Answer, ledger: Ledger) -> paced.Answer:
    """The same answer, active in the ledger until it ends or its client goes away."""
    ledger.active += 1
    ledger.max_active = max(ledger.max_active, ledger.active)
    try:
        yield from answer
    finally:
        ledger.active -= 1


class _Exchange:
    """One request being answered."""

    def __init__(
        self, body: dict[str, Any], behaviour: Behaviour, ledger: Ledger, number: int, received: float
    ) -> None:
        self.body, self.behaviour = body, behaviour
        self.ledger, self.number, self.received = ledger, number, received
        self.tokens = int(body.get("max_tokens") or 16)

    def answer(self) -> paced.Answer:
        behaviour, fault = self.behaviour, self.behaviour.fault(self.number)
        if behaviour.silent:
            yield math.inf, b""
        elif fault == "error":
            yield from _json({"error": {"message": "injected", "type": INTERNAL, "code": 500}}, status=500)
        elif behaviour.json_answer:
            yield from _json({"choices": [], "usage": self._usage()})
        else:
            yield from self._stream(fault)

    def _stream(self, fault: str | None) -> paced.Answer:
        behaviour = self.behaviour
        yield 0.0, paced.head(200, "text/event-stream; charset=utf-8")
        if behaviour.role_first:
            yield 0.0, self._event(_chunk({"role": "assistant", "content": ""}))
        if not behaviour.empty:
            yield from self._tokens(fault)
        if not behaviour.truncated and fault is None:
            wants_usage = (self.body.get("stream_options") or {}).get("include_usage")
            if wants_usage and behaviour.usage and not behaviour.empty:
                usage = {"id": "cal", "object": "chat.completion.chunk", "choices": [], "usage": self._usage()}
                yield 0.0, self._event(usage)
        if not behaviour.truncated:
            yield 0.0, paced.chunk(b"data: [DONE]\r\n\r\n" if behaviour.crlf else b"data: [DONE]\n\n")
        yield 0.0, paced.END_OF_CHUNKS

    def _tokens(self, fault: str | None) -> paced.Answer:
        """Every chunk at its time, or half of them and then the fault."""
        behaviour, per_chunk = self.behaviour, self.behaviour.tokens_per_chunk
        cold_s = behaviour.slow_ms / 1e3 if self.number < behaviour.slow_first else 0.0
        start = self.received + behaviour.ttft_ms / 1e3 + cold_s
        visible, hidden = (self._event(_chunk(_text(per_chunk, is_reasoning=kind))) for kind in (False, True))
        chunks = -(-self.tokens // per_chunk)
        first = last = 0.0
        for at in range(chunks):
            due, sent = start + at * behaviour.gap_ms / 1e3, at * per_chunk
            is_reasoning = bool(behaviour.reasoning) and sent < self.tokens / 2
            if fault and sent >= self.tokens / 2:
                yield due, self._event({"error": {"message": "injected mid-stream", "type": INTERNAL, "code": 500}})
                if fault == "mid_error":
                    yield 0.0, paced.CLOSE
                return
            if at == chunks - 1:
                finish = None if behaviour.truncated else FINISH
                text = _text(self.tokens - sent, is_reasoning=is_reasoning)
                last = yield due, self._event(_chunk(text, finish=finish))
            else:
                last = yield due, hidden if is_reasoning else visible
            first = first or last
        self._enter(first, last, chunks)

    def _event(self, content: dict[str, Any]) -> bytes:
        end = b"\r\n" if self.behaviour.crlf else b"\n"
        before = b": keep-alive" + end * 2 if self.behaviour.crlf else b""
        return paced.chunk(before + b"data: " + json.dumps(content).encode() + end * 2)

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


def _json(content: dict[str, Any], *, status: int = 200) -> paced.Answer:
    return _whole(json.dumps(content).encode(), "application/json; charset=utf-8", status=status)


def _whole(content: bytes, content_type: str, *, status: int = 200) -> paced.Answer:
    yield 0.0, paced.head(status, content_type, len(content)) + content


def _chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "cal", "object": "chat.completion.chunk", "created": 1, "model": "cal", "choices": [choice]}


def _text(tokens: int, *, is_reasoning: bool) -> dict[str, str]:
    return {"reasoning_content" if is_reasoning else "content": " tic" * tokens}


def main() -> None:
    server = CalibrationServer(api_key=os.environ.get(KEY_VARIABLE))
    listening = paced.PacedServer(server.answer, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sys.stdout.write(f"{listening.port}\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        listening.serve()


if __name__ == "__main__":
    main()
