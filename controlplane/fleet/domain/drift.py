"""Declared against running: the differences between two command lines, for every argument.

The order of flags does not matter, nor which spelling was used (`-tp 2`, `--tensor-parallel-size=2`,
`--tensor_parallel_size 2`), nor whether a number is written 8192 or 8K. What one side does not say is shown as such;
whether the default happens to be the same value is for the page to add, from the flag catalogue.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .config_values import amount
from .redaction import HIDDEN

# Short names that vLLM takes; the catalogue of an engine can add to them.
SHORT_NAMES: Mapping[str, str] = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-q": "quantization",
    "-sc": "speculative_config",
    "-cc": "compilation_config",
    "-O": "optimization_level",
    "-n": "nnodes",
    "-r": "node_rank",
    "-asc": "api_server_count",
    "--device-memory-utilization": "gpu_memory_utilization",
}
MODEL = "model"
# Switches never take the word after them, so the model may follow one: `vllm serve --enforce-eager MODEL`.
SWITCHES = frozenset(
    {
        "async_scheduling",
        "disable_custom_all_reduce",
        "disable_log_requests",
        "disable_log_stats",
        "enable_auto_tool_choice",
        "enable_chunked_prefill",
        "enable_expert_parallel",
        "enable_log_requests",
        "enable_lora",
        "enable_prefix_caching",
        "enable_sleep_mode",
        "enforce_eager",
        "headless",
        "trust_remote_code",
    }
)
_SECRET_NAMES = {"api_key", "hf_token"}
_PROGRAM_WORDS = {"serve"}
_LISTS = {"served_model_name", "lora_modules", "api_key"}
_MANY = 1000


@dataclass(frozen=True)
class Difference:
    """One argument that differs. None: that side does not say it. Values of keys are hidden."""

    name: str
    declared: str | None
    running: str | None


def differences(
    declared: Sequence[str],
    running: Sequence[str],
    *,
    aliases: Mapping[str, str] | None = None,
    ignored: Iterable[str] = (),
) -> tuple[Difference, ...]:
    """Compare two command lines, `vllm serve` and the interpreter before it included or not.

    `aliases` maps a flag as written ("-tp", "--tp") to its name; `ignored` names what may differ (an internal port).
    """
    known = {**SHORT_NAMES, **(aliases or {})}
    left, right = arguments(declared, aliases=known), arguments(running, aliases=known)
    skipped = set(ignored)
    return tuple(
        Difference(name, _shown(name, left.get(name)), _shown(name, right.get(name)))
        for name in sorted({*left, *right} - skipped)
        if left.get(name) != right.get(name)
    )


def arguments(argv: Sequence[str], *, aliases: Mapping[str, str] = SHORT_NAMES) -> dict[str, str]:
    """An argument list as name -> value, values in one spelling; a switch is "true" or "false"."""
    rest = _after_serve(argv)
    found: dict[str, str] = {}
    index = 0
    while index < len(rest):
        word = rest[index]
        index += 1
        if not _is_flag(word):
            # The only positional argument of `vllm serve` is the model.
            found.setdefault(MODEL, word)
            continue
        written, _equals, inline = word.partition("=")
        values = [inline] if _equals else []
        wanted = 0 if _equals else _values_of(_name(written, aliases))
        while len(values) < wanted and index < len(rest) and not _is_flag(rest[index]):
            values.append(rest[index])
            index += 1
        name, value = _named(written, values, aliases)
        found[name] = value
    return found


def _after_serve(argv: Sequence[str]) -> list[str]:
    """What follows `vllm serve`; for `python -m vllm.entrypoints...api_server` what follows the module."""
    for index, word in enumerate(argv[:6]):
        if word in _PROGRAM_WORDS or word.startswith("vllm.entrypoints") or word.endswith("api_server.py"):
            return list(argv[index + 1 :])
    return list(argv)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-")[:1].isdigit() and word not in {"-", "--"}


def _values_of(name: str) -> int:
    """How many words may follow a flag as its values."""
    if name in SWITCHES or name.removeprefix("no_") in SWITCHES:
        return 0
    return _MANY if name in _LISTS else 1


def _name(written: str, aliases: Mapping[str, str]) -> str:
    if written in aliases:
        return aliases[written]
    name = written.lstrip("-").replace("-", "_")
    return aliases.get(f"--{name.replace('_', '-')}", name)


def _named(written: str, values: list[str], aliases: Mapping[str, str]) -> tuple[str, str]:
    name = _name(written, aliases)
    if values:
        return name, ", ".join(_one_spelling(value) for value in values)
    if name.startswith("no_"):
        return name.removeprefix("no_"), "false"
    return name, "true"


def _one_spelling(text: str) -> str:
    """8192.0 and 8K as whole numbers, JSON without blanks and sorted, True as true."""
    if text.lower() in {"true", "false"}:
        return text.lower()
    if text[:1] in "{[":
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        except ValueError:
            return text
    if (whole := amount(text)) is not None and not text[-1:].isdigit():
        return str(whole)
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _shown(name: str, value: str | None) -> str | None:
    return HIDDEN if value is not None and name in _SECRET_NAMES else value
