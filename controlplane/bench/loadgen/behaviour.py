"""How the calibration server treats a request, written into the model name: `cal?ttft_ms=20&gap_ms=2&reasoning=1`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

PREFIX = "cal"


class UnknownBehaviour(ValueError):  # noqa: N818
    """A model name that asks for something the calibration server cannot do."""


@dataclass(frozen=True)
class Behaviour:
    """The schedule (milliseconds) and the faults.

    ttft_ms, gap_ms       first chunk after the request has been read; time between chunks, on an absolute schedule
    tokens_per_chunk      as with speculative decoding or a stream interval
    error_percent         so many of 100 requests answer HTTP 500 at once
    mid_error_percent     ... send an error object half way and drop the connection
    in_band_percent       ... send an error object half way, then [DONE], and end in good order
    healthy_first         the first so many requests are spared all faults (probe and warm-up)
    slow_first, slow_ms   the first so many requests wait slow_ms more (a cold server)
    role_first            a role-only chunk at once, before the first token
    reasoning             the first half of the tokens as reasoning
    usage                 0: never say usage
    truncated             end after the last token without finish_reason and [DONE]
    empty                 [DONE] and nothing else
    json_answer           200 with plain JSON instead of a stream
    silent                take the request and never answer
    crlf                  CRLF line ends and a comment before each event
    label                 no effect: equal behaviours with unlike labels are counted apart
    """

    ttft_ms: float = 50.0
    gap_ms: float = 10.0
    tokens_per_chunk: int = 1
    error_percent: int = 0
    mid_error_percent: int = 0
    in_band_percent: int = 0
    healthy_first: int = 0
    slow_first: int = 0
    slow_ms: float = 0.0
    role_first: int = 0
    reasoning: int = 0
    usage: int = 1
    truncated: int = 0
    empty: int = 0
    json_answer: int = 0
    silent: int = 0
    crlf: int = 0
    label: int = 0

    @classmethod
    def from_model(cls, model: str) -> Behaviour:
        name, _, query = model.partition("?")
        known = {each.name: float if isinstance(each.default, float) else int for each in fields(cls)}
        pairs = dict(parse_qsl(query, strict_parsing=bool(query)))
        if name != PREFIX or not set(pairs) <= set(known):
            raise UnknownBehaviour(f"model must be {PREFIX}?name=number&…, with names of {', '.join(known)}")
        values: dict[str, Any] = {key: known[key](value) for key, value in pairs.items()}
        return cls(**values)

    def to_model(self) -> str:
        values = ((each, getattr(self, each.name)) for each in fields(self))
        changed = {each.name: value for each, value in values if value != each.default}
        return f"{PREFIX}?{urlencode(changed)}" if changed else PREFIX

    def ideal_s(self, tokens: int) -> float:
        """How long a request of so many tokens takes when the server keeps its schedule, up to its last token."""
        chunks = -(-tokens // self.tokens_per_chunk)
        return (self.ttft_ms + (chunks - 1) * self.gap_ms) / 1e3

    def towards(self, number: int) -> Behaviour:
        """How the number-th request (from 0) is treated: the first ones are spared whatever ends an answer early."""
        spared = number < self.healthy_first
        return replace(self, truncated=0, empty=0, json_answer=0, silent=0) if spared else self

    def fault(self, number: int) -> str | None:
        """What befalls the number-th request (from 0): "error", "mid_error", "in_band" or nothing. Shares are exact."""
        position = number - self.healthy_first
        if position < 0:
            return None
        shares = {"error": self.error_percent, "mid_error": self.mid_error_percent, "in_band": self.in_band_percent}
        hit = (name for name, share in shares.items() if (position + 1) * share // 100 > position * share // 100)
        return next(hit, None)
