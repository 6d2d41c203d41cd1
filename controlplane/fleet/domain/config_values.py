"""Reading single values out of a config's content, whatever section they stand in.

Content is what a config version stores: section -> key -> value. The operator's sections are those of the TOML file;
every other vLLM argument stands under `[engine]`, named as vLLM names it.
"""

import re
from collections.abc import Mapping

Content = Mapping[str, Mapping[str, object]]

ENGINE = "engine"

SECTION_OF: Mapping[str, str] = {
    "host": "server",
    "port": "server",
    "api_key": "server",
    "served_model_name": "server",
    "model_path": "model",
    "tokenizer_path": "model",
    "dtype": "model",
    "quantization": "model",
    "max_model_len": "model",
    "gpu_memory_utilization": "model",
    "tensor_parallel_size": "model",
    "trust_remote_code": "model",
    "max_num_seqs": "batching",
    "max_num_batched_tokens": "batching",
    "enable_chunked_prefill": "batching",
    "enable_prefix_caching": "batching",
    "scheduler_policy": "scheduler",
    "swap_space": "scheduler",
    "disable_log_stats": "observability",
}

# The few keys whose vLLM name differs from the operator's.
KEY_OF_FLAG: Mapping[str, str] = {
    "tokenizer": "tokenizer_path",
    "model": "model_path",
    "scheduling_policy": "scheduler_policy",
    "device_memory_utilization": "gpu_memory_utilization",
}

# vLLM reads a small suffix as decimal and a capital one as binary (its human_readable_int).
_SUFFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_AMOUNT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgtKMGT]?)\s*$")
_UNSET = {"", "null", "none", "auto"}


def section_of(key: str) -> str:
    """The section a key belongs in; `engine` for everything that is not one of the operator's own keys."""
    return SECTION_OF.get(key, ENGINE)


def value(content: Content, key: str) -> object | None:
    """The value of `key`, from its own section or from `[engine]`; None when absent or written as "null"/"none"."""
    for section in (section_of(key), ENGINE):
        found = content.get(section, {}).get(key)
        if found is not None and not (isinstance(found, str) and found.strip().lower() in {"null", "none"}):
            return found
    return None


def integer(content: Content, key: str) -> int | None:
    """`key` as a whole number, with vLLM's suffixes (1k = 1000, 1K = 1024); None when absent or not one."""
    return amount(value(content, key))


def number(content: Content, key: str) -> float | None:
    """`key` as a number; None when absent or not one."""
    found = value(content, key)
    if isinstance(found, bool) or found is None:
        return None
    try:
        return float(str(found))
    except ValueError:
        return None


def switch(content: Content, key: str) -> bool | None:
    """`key` as a switch; None when absent, so that the caller can apply the version's default."""
    found = value(content, key)
    if isinstance(found, bool):
        return found
    if isinstance(found, str) and found.lower() in {"true", "false"}:
        return found.lower() == "true"
    return None


def word(content: Content, key: str) -> str | None:
    """`key` as text; None when absent or a stand-in for "let vLLM decide" (auto, none, null)."""
    found = value(content, key)
    if found is None or str(found).strip().lower() in _UNSET:
        return None
    return str(found).strip()


def amount(raw: object) -> int | None:
    """Read 8192, "8192", "64M" or "25.6k" as a whole number; None for the rest and for -1 ("what fits")."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int | float):
        return int(raw) if raw >= 0 else None
    matched = _AMOUNT.match(raw) if isinstance(raw, str) else None
    return int(float(matched[1]) * _SUFFIX.get(matched[2], 1)) if matched else None
