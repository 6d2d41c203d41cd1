"""What is checked before anything is started, each check with its arithmetic, its cure and the change that is the cure.

Every check is a function from `Facts` to one `Check`; `checks` runs them all, in the order of the page. A launch is
refused when one fails; a warning needs the operator's eyes but no decision; `skip` says why a check could not be made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from . import config_values as config
from .config_values import Content
from .failures.rule import Fix, Gpu
from .memory import MemoryEstimate, ModelFacts
from .placing import gpus_needed
from .texts import gettext_noop as _
from .texts import gib, grouped

Outcome = Literal["pass", "warn", "fail", "skip"]

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
# Room for logs, compile caches and temporary files of one instance.
_DISK_RESERVE_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Check:
    """One line of the preflight."""

    code: str
    label: str
    outcome: Outcome
    sentence: str
    arithmetic: str = ""
    remedy: str = ""
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True)
class PortHolder:
    """Who listens on the port now. `is_ours` when an instance of this control plane does."""

    pid: int | None
    command: str = ""
    is_ours: bool = False


@dataclass(frozen=True)
class Facts:
    """All that preflight looks at; gathered by the caller. None means "not looked at", which becomes a skipped check.

    `flag_problems` are the config checker's sentences against this engine, empty when it found none. `gpus` are the
    chosen ones; `gpus_on_host` counts all. `reserved_bytes` is memory promised to launches that are not visible on the
    GPU yet, by UUID. `port_holder` is None when the port is free; `port_known` False when nobody could look.
    `download_bytes` is what still has to be fetched, 0 for a model that is there.
    """

    content: Content
    engine_version: str
    kind: Literal["gpu", "cpu"]
    flag_problems: Sequence[str] | None = None
    model: ModelFacts | None = None
    model_error: str = ""
    has_tokenizer: bool | None = None
    has_chat_template: bool | None = None
    port: int | None = None
    port_known: bool = True
    port_holder: PortHolder | None = None
    gpus: Sequence[Gpu] = ()
    gpus_on_host: int | None = None
    gpu_problem: str = ""
    reserved_bytes: dict[str, int] = field(default_factory=dict)
    estimate: MemoryEstimate | None = None
    disk_free_bytes: int | None = None
    download_bytes: int | None = 0
    has_api_key: bool = False


def checks(facts: Facts) -> tuple[Check, ...]:
    """Run every check, in the order of the page."""
    return tuple(check(facts) for check in _CHECKS)


def may_launch(found: Sequence[Check]) -> bool:
    """True when nothing failed."""
    return all(check.outcome != "fail" for check in found)


def _flags(facts: Facts) -> Check:
    label = _("Flags")
    if facts.flag_problems is None:
        return Check("flags", label, "skip", _("The engine's option list is not known yet; probe the host."))
    if not facts.flag_problems:
        return Check("flags", label, "pass", f"vLLM {facts.engine_version} knows every flag.")
    count = len(facts.flag_problems)
    sentence = " ".join(facts.flag_problems)
    return Check(
        "flags", label, "fail", sentence, f"{count} problem{'s' if count > 1 else ''}", _("Correct the config.")
    )


def _model(facts: Facts) -> Check:
    label = _("Model")
    if facts.model_error:
        return Check(
            "model", label, "fail", facts.model_error, remedy=_("Correct model_path, or copy the model there.")
        )
    if facts.model is None:
        return Check("model", label, "skip", _("The model's files were not read."))
    if facts.has_tokenizer is False and config.word(facts.content, "tokenizer_path") is None:
        return Check(
            "model",
            label,
            "fail",
            _("The model directory has no tokenizer."),
            remedy=_("Copy the tokenizer files there, or set tokenizer_path."),
        )
    if facts.has_chat_template is False and config.word(facts.content, "chat_template") is None:
        return Check(
            "model",
            label,
            "warn",
            _("The tokenizer has no chat template: chat requests will be refused with 400."),
            remedy=_("Set chat_template, or use /v1/completions only."),
        )
    size = gib(facts.model.weights_bytes)
    return Check("model", label, "pass", f"Weights of {size} are on the host.")


def _context(facts: Facts) -> Check:
    label = _("Context length")
    asked = config.integer(facts.content, "max_model_len")
    longest = facts.model.max_positions if facts.model else None
    if asked is None or longest is None:
        return Check("context", label, "skip", _("max_model_len or the model's own limit is not known."))
    arithmetic = f"{grouped(asked)} of at most {grouped(longest)} tokens"
    if asked <= longest or config.value(facts.content, "hf_overrides") is not None:
        return Check("context", label, "pass", _("The model can use the whole context."), arithmetic)
    return Check(
        "context",
        label,
        "fail",
        f"max_model_len {grouped(asked)} is longer than the model was made for.",
        arithmetic,
        _("Lower it, or set the rope parameters of the model card with hf_overrides."),
        (Fix("lower", "max_model_len", longest),),
    )


def _port(facts: Facts) -> Check:
    label = _("Port")
    if facts.port is None or not facts.port_known:
        return Check("port", label, "skip", _("Nobody could look whether the port is free."))
    holder = facts.port_holder
    if holder is None:
        return Check("port", label, "pass", f"Port {facts.port} is free.")
    who = f"pid {holder.pid}" if holder.pid else "a process we may not see"
    named = f"{who} ({holder.command})" if holder.command else who
    kind = "an instance of ours" if holder.is_ours else "a process nobody here started"
    return Check(
        "port",
        label,
        "fail",
        f"Port {facts.port} is held by {named}, {kind}.",
        remedy=_("Choose another port, or stop what holds it."),
    )


def _gpu_count(facts: Facts) -> Check:
    label = _("GPUs")
    if facts.kind == "cpu":
        return Check("gpus", label, "skip", _("A CPU build uses no GPU."))
    if facts.gpu_problem:
        return Check(
            "gpus", label, "fail", facts.gpu_problem, remedy=_("Repair the driver, then probe the host again.")
        )
    needed, chosen = gpus_needed(facts.content), len(facts.gpus)
    sizes = " × ".join(f"{kind} {_size(facts.content, kind)}" for kind in ("tensor", "pipeline", "data"))
    arithmetic = f"{sizes} = {needed}"
    if chosen == needed:
        return Check("gpus", label, "pass", f"{chosen} of {facts.gpus_on_host or chosen} GPUs chosen.", arithmetic)
    fixes = (Fix("set", "tensor_parallel_size", chosen),) if chosen and needed == _size(facts.content, "tensor") else ()
    return Check(
        "gpus",
        label,
        "fail",
        f"The config needs {needed} GPU{'s' if needed > 1 else ''}, {chosen} {'is' if chosen == 1 else 'are'} chosen.",
        arithmetic,
        _("Choose as many GPUs as the parallel sizes multiply to."),
        fixes,
    )


def _heads(facts: Facts) -> Check:
    label = _("Attention heads")
    tensor = _size(facts.content, "tensor")
    if facts.model is None:
        return Check("heads", label, "skip", _("The model's files were not read."))
    heads = facts.model.attention_heads
    arithmetic = f"{heads} / {tensor} = {heads / tensor:g}"
    if heads % tensor == 0:
        return Check("heads", label, "pass", _("The heads split evenly."), arithmetic)
    fitting = max(size for size in range(1, tensor) if heads % size == 0)
    return Check(
        "heads",
        label,
        "fail",
        f"{heads} attention heads cannot be split over {tensor} GPUs.",
        arithmetic,
        _("Use a tensor_parallel_size that divides the heads."),
        (Fix("lower", "tensor_parallel_size", fitting),),
    )


def _batch(facts: Facts) -> Check:
    """The two contradictions vLLM refuses at start."""
    label = _("Batch limits")
    budget = config.integer(facts.content, "max_num_batched_tokens")
    running = config.integer(facts.content, "max_num_seqs")
    context = config.integer(facts.content, "max_model_len") or (facts.model.max_positions if facts.model else None)
    if budget is None:
        return Check("batch", label, "skip", _("max_num_batched_tokens is left to vLLM."))
    if running is not None and budget < running:
        return Check(
            "batch",
            label,
            "fail",
            _("max_num_batched_tokens is below max_num_seqs: each running request needs one token a step."),
            f"{grouped(budget)} < {grouped(running)}",
            _("Raise max_num_batched_tokens."),
            (Fix("raise", "max_num_batched_tokens", running),),
        )
    if config.switch(facts.content, "enable_chunked_prefill") is False and context and budget < context:
        return Check(
            "batch",
            label,
            "fail",
            _("Without chunked prefill max_num_batched_tokens must reach max_model_len."),
            f"{grouped(budget)} < {grouped(context)}",
            _("Switch chunked prefill on, or raise max_num_batched_tokens."),
            (Fix("set", "enable_chunked_prefill", True), Fix("raise", "max_num_batched_tokens", context)),
        )
    return Check("batch", label, "pass", _("The limits agree with each other."), f"{grouped(budget)} tokens a step")


def _memory(facts: Facts) -> Check:
    label = _("Memory")
    found = facts.estimate
    if found is None:
        return Check("memory", label, "skip", _("Without the model's facts memory cannot be estimated."))
    arithmetic = "; ".join(f"{line.label}: {line.formula}" for line in found.lines)
    if found.fits is False:
        sentence = f"The model does not fit as configured: {gib(found.shortfall_bytes)} are missing."
        return Check("memory", label, "fail", sentence, arithmetic, " ".join(found.advice), _memory_fixes(found))
    if found.predicted_kv_tokens is None:
        return Check(
            "memory", label, "warn", _("The weights fit; the KV cache is not estimated for this model."), arithmetic
        )
    tokens, times = grouped(found.predicted_kv_tokens), found.predicted_max_concurrency
    often = f", {times:.1f} requests of full length at once" if times is not None else ""
    return Check("memory", label, "pass", f"About {tokens} tokens of KV cache{often} (estimate).", arithmetic)


def _memory_fixes(found: MemoryEstimate) -> tuple[Fix, ...]:
    tokens = found.predicted_kv_tokens or 0
    if tokens and found.max_model_len and tokens < found.max_model_len and found.longest_context:
        return (Fix("lower", "max_model_len", found.longest_context),)
    return ()


def _free_memory(facts: Facts) -> Check:
    """vLLM refuses to start when less is free than its share of the card; the promised counts as used."""
    label = _("Free GPU memory")
    if facts.kind == "cpu" or not facts.gpus or facts.estimate is None:
        return Check("free_memory", label, "skip", _("No GPU is chosen."))
    wanted = facts.estimate.claimed_bytes
    tight = [(gpu, _free(facts, gpu)) for gpu in facts.gpus if _free(facts, gpu) < wanted]
    worst, free = min(tight or [(gpu, _free(facts, gpu)) for gpu in facts.gpus], key=lambda pair: pair[1])
    arithmetic = (
        f"{worst.name or worst.uuid}: {gib(worst.total_bytes)} − {gib(worst.used_bytes)} used − "
        f"{gib(facts.reserved_bytes.get(worst.uuid, 0))} promised = {gib(free)} free; {gib(wanted)} wanted"
    )
    if not tight:
        return Check("free_memory", label, "pass", _("Every chosen GPU has the memory free."), arithmetic)
    held = "; ".join(str(process) for process in worst.processes)
    share = int(free / worst.total_bytes * 100) / 100
    can_shrink = config.integer(facts.content, "kv_cache_memory_bytes") is None and share >= 0.1
    return Check(
        "free_memory",
        label,
        "fail",
        f"{len(tight)} chosen GPU{'s have' if len(tight) > 1 else ' has'} too little free memory."
        + (f" Held by {held}." if held else ""),
        arithmetic,
        _("Choose another GPU, stop what holds the memory, or lower gpu_memory_utilization."),
        (Fix("lower", "gpu_memory_utilization", share),) if can_shrink else (),
    )


def _disk(facts: Facts) -> Check:
    label = _("Disk")
    if facts.disk_free_bytes is None or facts.download_bytes is None:
        return Check("disk", label, "skip", _("Free disk space is not known."))
    needed = facts.download_bytes + _DISK_RESERVE_BYTES
    arithmetic = (
        f"{gib(facts.download_bytes)} to fetch + {gib(_DISK_RESERVE_BYTES)} reserve ≤ {gib(facts.disk_free_bytes)}"
    )
    if needed <= facts.disk_free_bytes:
        return Check("disk", label, "pass", f"{gib(facts.disk_free_bytes)} are free.", arithmetic)
    # Without a download only logs and caches are at stake, and they may still fit.
    outcome: Outcome = "fail" if facts.download_bytes else "warn"
    return Check(
        "disk", label, outcome, _("The disk is nearly full."), arithmetic.replace("≤", ">"), _("Make room first.")
    )


def _exposure(facts: Facts) -> Check:
    label = _("Exposure")
    host = config.word(facts.content, "host")
    where = host or "every address"
    if host in _LOOPBACK:
        return Check("exposure", label, "pass", f"It listens on {host} only.")
    if facts.has_api_key:
        return Check(
            "exposure",
            label,
            "warn",
            f"It listens on {where}. The key guards /v1 only; /metrics, /tokenize and /version answer anyone.",
            remedy=_("Keep the port inside your network, or set host to 127.0.0.1."),
            fixes=(Fix("set", "host", "127.0.0.1"),),
        )
    return Check(
        "exposure",
        label,
        "fail",
        f"It listens on {where} without a key: whoever reaches the port uses the model.",
        remedy=_("Set api_key to a secret, or host to 127.0.0.1."),
        fixes=(Fix("set", "host", "127.0.0.1"),),
    )


def _free(facts: Facts, gpu: Gpu) -> int:
    return gpu.free_bytes - facts.reserved_bytes.get(gpu.uuid, 0)


def _size(content: Content, kind: str) -> int:
    return max(1, config.integer(content, f"{kind}_parallel_size") or 1)


_CHECKS = (
    _flags,
    _model,
    _context,
    _port,
    _gpu_count,
    _heads,
    _batch,
    _memory,
    _free_memory,
    _disk,
    _exposure,
)
