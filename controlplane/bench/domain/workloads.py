"""What load a run puts on a server: immutable, named, identified by a hash of everything that shapes the requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from controlplane.bench.domain.words import WORDS

DISTINCT = "distinct"
SHARED_PREFIX = "shared_prefix"
KINDS = (DISTINCT, SHARED_PREFIX)

# Raised whenever the same (workload, seed, index) would make another request body: part of the hash.
RECIPE = "words-1"

LOWEST = {
    "concurrency": 1,
    "requests": 1,
    "max_tokens": 1,
    "prompt_words": 1,
    "prefix_words": 0,
    "warmup_requests": 0,
    "warmup_tokens": 1,
}


class InvalidWorkload(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """A workload that cannot be run; the text names the field and what it must be."""


@dataclass(frozen=True)
class Workload:
    """A closed-loop load.

    name              what people call it; not part of the hash
    kind              "distinct": no two prompts share a beginning; "shared_prefix": all begin with the same words
    concurrency       requests in flight at once
    requests          measured requests in all
    max_tokens        output tokens asked for each request
    prompt_words      words of a prompt (of its own part, when there is a shared prefix)
    prefix_words      words of the shared prefix; 0 unless kind is "shared_prefix"
    prompt_tokens     aim for this many prompt tokens instead of a fixed number of words (None: words decide);
                      the generator then asks the server twice and fits words to tokens
    ignore_eos        go on to max_tokens whatever the model says (a vLLM field), so that every run makes as many tokens
    temperature       0 makes a server's answers as repeatable as they get
    warmup_requests   sent before the measured ones, with prompts of their own; never in any number. None: one wave, so
                      that the server has seen the concurrency and every connection is open
    warmup_tokens     output tokens of each of them
    context_tokens    the smallest max_model_len the workload is sized for (a note for people, not sent)
    """

    name: str
    kind: str
    concurrency: int
    requests: int
    max_tokens: int
    prompt_words: int
    prefix_words: int = 0
    prompt_tokens: int | None = None
    ignore_eos: bool = True
    temperature: float = 0.0
    warmup_requests: int | None = None
    warmup_tokens: int = 16
    context_tokens: int = 2048

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise InvalidWorkload(problem)

    @property
    def warmup_count(self) -> int:
        return self.concurrency if self.warmup_requests is None else self.warmup_requests

    @property
    def content_hash(self) -> str:
        """SHA-256 over what shapes the requests, 64 hex digits; equal hashes make equal requests from equal seeds."""
        return _content_hash(self)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Workload:
        """Read what `to_json` wrote; raises InvalidWorkload naming every unknown or missing key."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise InvalidWorkload(f"workload: unknown key {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        needed = {"name", "kind", "concurrency", "requests", "max_tokens", "prompt_words"}
        if missing := sorted(needed - set(data)):
            raise InvalidWorkload(f"workload: missing key {', '.join(missing)}")
        return cls(**data)


@lru_cache(maxsize=64)
def _content_hash(workload: Workload) -> str:
    content = {key: value for key, value in asdict(workload).items() if key not in {"name", "context_tokens"}}
    content["recipe"] = RECIPE
    content["words"] = hashlib.sha256(" ".join(WORDS).encode()).hexdigest()
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _problems(workload: Workload) -> list[str]:
    """Say what is wrong with a workload, one sentence per field."""
    found = []
    for name, least in LOWEST.items():
        value = getattr(workload, name)
        if value is None and name == "warmup_requests":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            found.append(f"workload.{name} must be a whole number of at least {least}, not {value!r}")
    if workload.kind not in KINDS:
        found.append(f"workload.kind must be one of {', '.join(KINDS)}, not {workload.kind!r}")
    if (workload.kind == SHARED_PREFIX) != bool(workload.prefix_words):
        found.append("workload.prefix_words must be above 0 for kind shared_prefix, and 0 for kind distinct")
    if workload.prompt_tokens is not None and (
        not isinstance(workload.prompt_tokens, int) or workload.prompt_tokens < 1
    ):
        found.append(f"workload.prompt_tokens must be a whole number above 0 or null, not {workload.prompt_tokens!r}")
    return found


BUILT_IN: tuple[Workload, ...] = (
    # The reference load (mission, section 3): one wave, so total time is the time 64 simultaneous users wait.
    Workload("seed-64x256", DISTINCT, concurrency=64, requests=64, max_tokens=256, prompt_words=40),
    # Two waves, seconds on a laptop: is the server answering under load at all?
    Workload("smoke-8x32", DISTINCT, concurrency=8, requests=16, max_tokens=32, prompt_words=30),
    # Where prefix caching shows: 520 shared words are about 1,200 tokens with the demo models' vocabulary of 2,048
    # entries, 560 with a large one. Without a cache each request costs its whole prefill (about 4,000 tokens/s for the
    # 26 M model on two quiet cores), so two waves and a short warm-up keep a run near ten seconds.
    Workload(
        "shared-prefix-16x64",
        SHARED_PREFIX,
        concurrency=16,
        requests=96,
        max_tokens=64,
        prompt_words=16,
        prefix_words=520,
        warmup_requests=4,
    ),
    # Everyday chat: a paragraph in, a paragraph out, four waves.
    Workload("chat-short", DISTINCT, concurrency=16, requests=64, max_tokens=128, prompt_words=120),
)


def built_in(name: str) -> Workload:
    """The built-in workload of that name; KeyError lists the names there are."""
    for workload in BUILT_IN:
        if workload.name == name:
            return workload
    raise KeyError(f"no built-in workload {name!r}; there are {', '.join(each.name for each in BUILT_IN)}")
