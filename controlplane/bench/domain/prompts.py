"""Request bodies, made again to the byte from (workload, seed, role, index).

A prompt is a nonce followed by the same bag of words in an order of its own. The nonce comes first, so no two prompts
share a beginning that a prefix cache could use; the bag is the same, so all prompts cost nearly the same tokens
whatever the tokenizer. Randomness is `random.Random.random` only: the one method whose sequence Python promises.
"""

from __future__ import annotations

import hashlib
import json
import random
from functools import lru_cache
from typing import Any

from controlplane.bench.domain.words import WORDS
from controlplane.bench.domain.workloads import RECIPE, SHARED_PREFIX, Workload

MEASURED = "measured"
WARMUP = "warmup"
PROBE = "probe"

NONCE_WORDS = 6
INDEX_WORDS = 2  # of those, enough for len(WORDS) ** 2 different prompts


def prompt_text(workload: Workload, *, seed: int, role: str, index: int, words: int | None = None) -> str:
    """The user message of one request. `words` overrides the size of its own part (see `fit_words`)."""
    stream = f"{workload.content_hash}/{seed}"
    own = _distinct(f"{stream}/{role}", index, workload.prompt_words if words is None else words)
    if workload.kind != SHARED_PREFIX:
        return own
    # Warm-up shares the prefix on purpose: the subject is a prefix seen before, not its first computation.
    return f"{_shared_prefix(stream, workload.prefix_words)}\n{own}"


def request_body(
    workload: Workload,
    *,
    model: str,
    seed: int,
    role: str,
    index: int,
    words: int | None = None,
    max_tokens: int | None = None,
    extra: dict[str, Any] | None = None,
) -> bytes:
    """One chat completion request as UTF-8 JSON; equal arguments give equal bytes."""
    text = prompt_text(workload, seed=seed, role=role, index=index, words=words)
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": workload.max_tokens if max_tokens is None else max_tokens,
        "temperature": workload.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if workload.ignore_eos:
        body["ignore_eos"] = True
    body.update(extra or {})
    return json.dumps(body, separators=(",", ":")).encode()


def fit_words(target_tokens: int, *, small: tuple[int, int], large: tuple[int, int]) -> int:
    """How many words make `target_tokens`, from two (words, prompt tokens) that the server counted.

    A straight line: chat template and shared prefix are its constant, tokens a word its slope. At least one word.
    """
    (words_a, tokens_a), (words_b, tokens_b) = small, large
    if words_b <= words_a or tokens_b <= tokens_a:
        raise ValueError(
            f"cannot fit words to tokens: {words_a} words cost {tokens_a}, {words_b} words cost {tokens_b}"
        )
    slope = (tokens_b - tokens_a) / (words_b - words_a)
    return max(1, round(words_a + (target_tokens - tokens_a) / slope))


@lru_cache(maxsize=8)
def _shared_prefix(stream: str, size: int) -> str:
    """Made once a run, not once a request: it is the long part."""
    return _distinct(f"{stream}/prefix", 0, size)


def _distinct(stream: str, index: int, size: int) -> str:
    """`size` words (the nonce at least) that no other index of this stream begins with."""
    digest = hashlib.sha256(f"{RECIPE}/{stream}/{index}".encode()).digest()
    rng = random.Random(int.from_bytes(digest, "big"))  # noqa: S311 - repeatable on purpose, no secret
    nonce = _index_words(index) + [WORDS[int(rng.random() * len(WORDS))] for _ in range(NONCE_WORDS - INDEX_WORDS)]
    bag = [WORDS[position * 5 % len(WORDS)] for position in range(max(0, size - NONCE_WORDS))]
    return " ".join(nonce + sorted(bag, key=lambda _: rng.random()))


def _index_words(index: int) -> list[str]:
    """The index written in base len(WORDS), lowest digit first: neighbours differ in the very first word."""
    if not 0 <= index < len(WORDS) ** INDEX_WORDS:
        raise ValueError(f"index {index} is outside 0..{len(WORDS) ** INDEX_WORDS - 1}")
    return [WORDS[index % len(WORDS)], WORDS[index // len(WORDS)]]
