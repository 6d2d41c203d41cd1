"""What an option that went away becomes: from the value it had to what is written instead."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Write:
    """An option to set below [engine]; with `key` only that key of an option that is a table.

    `until` is the newest release whose sources were seen to read it that way; None: all that have the option.
    """

    dest: str
    value: Any
    key: str | None = None
    until: str | None = None


Rewrite = Callable[[Any], tuple[Write, ...] | None]
"""From a value to what stands in for it: () where the option can go without a loss, None where a person decides."""

_TASKS: dict[str, tuple[Write, ...]] = {
    "auto": (),
    "generate": (Write("runner", "generate"),),
    "transcription": (Write("runner", "generate"),),
    "draft": (Write("runner", "draft"),),
    "embed": (Write("runner", "pooling"), Write("convert", "embed")),
    "embedding": (Write("runner", "pooling"), Write("convert", "embed")),
    "classify": (Write("runner", "pooling"), Write("convert", "classify")),
    "reward": (Write("runner", "pooling"), Write("convert", "reward")),
    # Whether scores come from classification or from embeddings was, and is, decided by the architecture.
    "score": (Write("runner", "pooling"),),
}
# The part of 0.8's guided_decoding_backend after the colon, `xgrammar:no-fallback,…`.
_BACKEND_OPTIONS = {
    "no-fallback": "disable_fallback",
    "disable-any-whitespace": "disable_any_whitespace",
    "no-additional-properties": "disable_additional_properties",
}
_STRUCTURED_OUTPUTS_UNTIL = {"disable_fallback": "0.17.1"}
# Later builds may have either of two generations of transformers, which read rope settings from different places.
ROPE_UNTIL = "0.11.2"
# Fields of the pooler's table that 0.9 and 0.33 both have; normalize and softmax became another one in between.
_LASTING_POOLER_KEYS = frozenset(
    {"pooling_type", "step_tag_id", "returned_token_ids", "dimensions", "enable_chunked_processing", "max_embed_len"}
)


def drop(value: Any) -> tuple[Write, ...]:
    """Nothing of it is left to be set."""
    return ()


def ask(value: Any) -> None:
    """What it did cannot be had any more, or has no one answer."""


def ask_if_on(value: Any) -> tuple[Write, ...] | None:
    """Off was the default; what being on meant cannot be had any more."""
    return None if value else ()


def drop_if_on(value: Any) -> tuple[Write, ...] | None:
    """On is what another option means by itself; off cannot be said beside it."""
    return () if value is True else None


def rename(dest: str) -> Rewrite:
    """The same value under another name."""
    return lambda value: (Write(dest, value),)


def if_on(*writes: Write) -> Rewrite:
    """A switch whose being on is written in another way; off was the default."""
    return lambda value: {True: writes, False: ()}.get(value) if isinstance(value, bool) else None


def if_off(*writes: Write) -> Rewrite:
    """A switch whose being on has become the default."""
    return lambda value: {True: (), False: writes}.get(value) if isinstance(value, bool) else None


def into(table: str, key: str, *, until: str | None = None) -> Rewrite:
    """The same value as a key of a table."""
    return lambda value: (Write(table, value, key, until),)


def of_task(value: Any) -> tuple[Write, ...] | None:
    """`task` as 0.12 itself translated it."""
    return _TASKS.get(str(value))


def of_draft_model(value: Any) -> tuple[Write, ...] | None:
    """The name `[ngram]` never was a model but the method."""
    is_method = value in ("[ngram]", "ngram")
    return (Write("speculative_config", "ngram" if is_method else value, "method" if is_method else "model"),)


def of_graph_sizes(value: Any) -> tuple[Write, ...] | None:
    """Sizes. One number alone was the largest of a series up to 0.11.0 and a list of one size after it: which of the
    two was meant nobody can know."""
    is_list = isinstance(value, list) and len(value) > 1
    return (Write("cudagraph_capture_sizes", value),) if is_list else None


def of_pooler(value: Any) -> tuple[Write, ...] | None:
    """The same table, as long as no key of it was renamed since."""
    table = as_table(value)
    is_lasting = table is not None and _LASTING_POOLER_KEYS.issuperset(table)
    return (Write("pooler_config", table),) if is_lasting else None


def of_rope_scaling(value: Any) -> tuple[Write, ...] | None:
    """As 0.11.0 itself put it into hf_overrides."""
    table = as_table(value)
    return None if table is None else (Write("hf_overrides", table, "rope_scaling", ROPE_UNTIL),)


def of_guided_backend(value: Any) -> tuple[Write, ...] | None:
    """`xgrammar`, or `xgrammar:no-fallback,disable-any-whitespace` as 0.8 took it."""
    backend, _, rest = str(value).partition(":")
    words = [word.strip() for word in rest.split(",") if word.strip()]
    if any(word not in _BACKEND_OPTIONS for word in words):
        return None
    keys = [_BACKEND_OPTIONS[word] for word in words]
    return (_structured("backend", backend), *(_structured(key, True) for key in keys))


def if_on_structured(key: str) -> Rewrite:
    """A switch that is a key of structured_outputs_config."""
    return if_on(_structured(key, True))


def as_table(value: Any) -> dict[str, Any] | None:
    """A table, which may stand in a file as JSON text; None when it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return dict(value) if isinstance(value, dict) else None


def _structured(key: str, value: Any) -> Write:
    return Write("structured_outputs_config", value, key, _STRUCTURED_OUTPUTS_UNTIL.get(key))
