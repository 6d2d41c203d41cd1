"""How much memory a launch will need on each GPU, with the arithmetic shown line by line.

Weights and KV bytes per token follow from the model, exact to the rounding of blocks. Activations, CUDA context and
graphs are estimates, calibrated on public vLLM logs; docs/explain/memory.md names the measured points and the error.
Predicted and measured KV tokens are shown side by side on the launch page, so a wrong estimate is seen.
"""

from dataclasses import dataclass
from typing import Literal

from . import config_values as config
from .config_values import Content
from .texts import GIB, gib, grouped
from .texts import gettext_noop as _

Kind = Literal["gpu", "cpu"]
Version = tuple[int, ...]

# vLLM's default since 0.20; 0.9 before.
_UTILISATION_NEW, _UTILISATION_OLD = 0.92, 0.90
_GRAPHS_IN_BUDGET_SINCE: Version = (0, 20)
_GPU_BLOCK, _CPU_BLOCK = 16, 128
# The V1 allocator keeps one block for itself: 7 blocks of 128 tokens serve at most 768 (sample kv-too-small).
_RESERVED_BLOCKS = 1
# Cards from here on get vLLM's large defaults (1,024 sequences, 8,192 tokens a step).
_LARGE_CARD_BYTES = 70 * GIB
_HUGE_CARD_BYTES = 160 * GIB
# Sampling keeps about this many bytes per sequence and vocabulary entry at its peak (three measured points).
_SAMPLER_BYTES = 16
# CUDA context growth and libraries on one GPU; with several, NCCL and all-reduce buffers on top.
_CONTEXT_BYTES = int(0.3 * GIB)
_CONTEXT_PARALLEL_BYTES = 1 * GIB
# Graph pools, where they count inside the budget.
_GRAPH_BYTES = int(0.6 * GIB)
# Intermediate size of a dense model when config.json does not say.
_MLP_FACTOR = 3.5

_DTYPE_BYTES = {"float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0}
_KV_DTYPE_BYTES = {"fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625, "int4": 0.5}
_ONLINE_QUANTIZATION = {"fp8": 0.5}


@dataclass(frozen=True)
class ModelFacts:
    """What a model's files say. Sizes of one attention layer; `weights_bytes` is the sum of the weight files.

    `kv_lora_rank` and `qk_rope_head_dim` are set for MLA models (DeepSeek), which cache one latent a token.
    `is_hybrid` marks models with recurrent layers (Mamba, linear attention), whose cache is not proportional to tokens.
    """

    weights_bytes: int
    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    dtype: str = "bfloat16"
    intermediate_size: int | None = None
    vocab_size: int | None = None
    quantization: str | None = None
    max_positions: int | None = None
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    sliding_window: int | None = None
    is_hybrid: bool = False


@dataclass(frozen=True)
class Line:
    """One line of the arithmetic: what, how it is computed in numbers, and the result in bytes (None: not known)."""

    label: str
    formula: str
    value_bytes: int | None


@dataclass(frozen=True)
class MemoryEstimate:
    """The whole estimate, per GPU (or for the host, on a CPU build). None means "not estimated", never zero.

    `fits` is None when it cannot be told. `shortfall_bytes` is what is missing for one request of max_model_len.
    `claimed_bytes` must be free on the GPU at start; `longest_context` is the longest max_model_len that fits.
    `is_upper_bound` marks a KV size per token that the real cache stays below (sliding windows).
    """

    lines: tuple[Line, ...]
    weights_per_gpu_bytes: int
    overhead_bytes: int
    kv_available_bytes: int
    kv_bytes_per_token: float | None
    predicted_kv_tokens: int | None
    predicted_max_concurrency: float | None
    max_model_len: int | None
    fits: bool | None
    shortfall_bytes: int
    claimed_bytes: int
    longest_context: int | None
    is_upper_bound: bool
    advice: tuple[str, ...]


def estimate(
    model: ModelFacts,
    content: Content,
    *,
    memory_total_bytes: int,
    memory_free_bytes: int | None = None,
    engine_version: str,
    kind: Kind = "gpu",
    environment_kv_space_gib: int | None = None,
) -> MemoryEstimate:
    """Estimate one launch.

    `memory_total_bytes` and `memory_free_bytes` are those of the smallest chosen GPU, or of the host on a CPU build;
    free None skips the check of free memory. `environment_kv_space_gib` is VLLM_CPU_KVCACHE_SPACE, which overrides
    everything else on a CPU build.
    """
    case = _Case(model, content, memory_total_bytes, parse_version(engine_version), kind)
    weights, overhead = _weights(case), _overheads(case)
    overhead_bytes = sum(line.value_bytes or 0 for line in overhead)
    budget, available = _available(case, weights, overhead_bytes, environment_kv_space_gib)
    per_token = kv_bytes_per_token(model, content)
    lines = (weights, *overhead, *budget, _per_token_line(case, per_token))
    found = _Found(weights.value_bytes or 0, overhead_bytes, available, per_token, _block_size(case), case.context)
    shortfalls = _shortfalls(case, found, memory_free_bytes)
    return MemoryEstimate(
        lines=lines,
        weights_per_gpu_bytes=found.weights_bytes,
        overhead_bytes=overhead_bytes,
        kv_available_bytes=available,
        kv_bytes_per_token=per_token,
        predicted_kv_tokens=found.tokens,
        predicted_max_concurrency=found.concurrency,
        max_model_len=case.context,
        fits=_fits(found, shortfalls),
        shortfall_bytes=max((missing for missing, _advice in shortfalls), default=0),
        claimed_bytes=_claimed(case, found),
        longest_context=None if found.tokens is None else found.longest,
        is_upper_bound=bool(model.sliding_window),
        advice=tuple(advice for _missing, advice in shortfalls),
    )


def kv_bytes_per_token(model: ModelFacts, content: Content) -> float | None:
    """Bytes of KV cache one token takes on one GPU; None for hybrid models, whose cache is not per token.

    2 (key and value) × layers / pipeline × max(1, KV heads / tensor) × head size × bytes. MLA: one latent a layer.
    """
    if model.is_hybrid:
        return None
    layers = -(-model.layers // _pipeline(content))
    if model.kv_lora_rank:
        return layers * (model.kv_lora_rank + (model.qk_rope_head_dim or 0)) * _kv_element_bytes(model, content)
    heads = max(1, model.kv_heads // _tensor(content))
    return 2 * layers * heads * model.head_dim * _kv_element_bytes(model, content)


def kv_tokens(available_bytes: int | None, per_token: float | None, block_size: int) -> int | None:
    """Whole blocks only, as vLLM counts them: the figure of its "KV cache size" line."""
    if available_bytes is None or not per_token:
        return None
    return max(0, int(available_bytes // (per_token * block_size))) * block_size


def default_utilisation(version: Version) -> float:
    """vLLM's gpu_memory_utilization when the config names none: 0.92 from 0.20 on, 0.9 before."""
    return _UTILISATION_NEW if version >= _GRAPHS_IN_BUDGET_SINCE else _UTILISATION_OLD


def parse_version(text: str) -> Version:
    """(0, 17, 1) of "0.17.1", "0.8.5.post1" or "0.32.0+cpu"; anything unreadable counts as newest."""
    parts: list[int] = []
    for part in text.split("+", maxsplit=1)[0].split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts) or (9999,)


@dataclass(frozen=True)
class _Case:
    model: ModelFacts
    content: Content
    total_bytes: int
    version: Version
    kind: Kind

    @property
    def utilisation(self) -> float:
        return config.number(self.content, "gpu_memory_utilization") or default_utilisation(self.version)

    @property
    def sequences(self) -> int:
        large = self.kind == "gpu" and self.total_bytes >= _LARGE_CARD_BYTES
        return config.integer(self.content, "max_num_seqs") or (1024 if large else 256)

    @property
    def context(self) -> int | None:
        return config.integer(self.content, "max_model_len") or self.model.max_positions

    @property
    def batched_tokens(self) -> int:
        given = config.integer(self.content, "max_num_batched_tokens")
        if given:
            return given
        large, huge = self.total_bytes >= _LARGE_CARD_BYTES, self.total_bytes >= _HUGE_CARD_BYTES
        default = 16_384 if huge and self.version >= (0, 28) else 8192 if large else 2048
        return (
            max(default, self.context or 0)
            if config.switch(self.content, "enable_chunked_prefill") is False
            else default
        )


@dataclass(frozen=True)
class _Found:
    weights_bytes: int
    overhead_bytes: int
    available_bytes: int
    per_token: float | None
    block_size: int
    context: int | None

    @property
    def tokens(self) -> int | None:
        return kv_tokens(self.available_bytes, self.per_token, self.block_size)

    @property
    def concurrency(self) -> float | None:
        """Requests of full length at once, as vLLM prints it: blocks over blocks of one request."""
        if self.tokens is None or not self.context:
            return None
        return self.tokens / self.block_size / self.blocks_of_one

    @property
    def blocks_of_one(self) -> int:
        return -(-(self.context or 0) // self.block_size)

    @property
    def longest(self) -> int:
        """The longest context one request could have."""
        return max(0, (self.tokens or 0) - _RESERVED_BLOCKS * self.block_size)


def _tensor(content: Content) -> int:
    return max(1, config.integer(content, "tensor_parallel_size") or 1)


def _pipeline(content: Content) -> int:
    return max(1, config.integer(content, "pipeline_parallel_size") or 1)


def _block_size(case: _Case) -> int:
    return config.integer(case.content, "block_size") or (_CPU_BLOCK if case.kind == "cpu" else _GPU_BLOCK)


def _element_bytes(model: ModelFacts, content: Content) -> float:
    wanted = config.word(content, "dtype") or model.dtype
    # "auto" runs float32 checkpoints in half precision, and activations of quantised models too.
    if wanted.removeprefix("torch.") == "float32" and config.word(content, "dtype") is None:
        return 2.0
    return _DTYPE_BYTES.get(wanted.removeprefix("torch."), 2.0)


def _kv_element_bytes(model: ModelFacts, content: Content) -> float:
    wanted = config.word(content, "kv_cache_dtype")
    if wanted is None:
        return _element_bytes(model, content)
    return next((size for name, size in _KV_DTYPE_BYTES.items() if wanted.startswith(name)), 2.0)


def _weights(case: _Case) -> Line:
    model, shares = case.model, _tensor(case.content) * _pipeline(case.content)
    factor, why = 1.0, ""
    online = _ONLINE_QUANTIZATION.get(config.word(case.content, "quantization") or "")
    stored = _DTYPE_BYTES.get(model.dtype.removeprefix("torch."), 2.0)
    if model.quantization is None and online:
        factor, why = online * 2.0 / stored, " × 1/2 (quantised while loading)"
    elif model.quantization is None and _element_bytes(model, case.content) != stored:
        factor = _element_bytes(model, case.content) / stored
        why = f" × {factor:g} (stored as {model.dtype})"
    split = f" / {shares} GPUs" if shares > 1 else ""
    return Line(
        _("Weights"), f"{gib(model.weights_bytes)} on disk{why}{split}", int(model.weights_bytes * factor / shares)
    )


def _overheads(case: _Case) -> tuple[Line, ...]:
    if case.kind == "cpu":
        # vLLM's CPU worker takes the KV cache as asked and does not profile activations into it.
        return ()
    context = Line(
        _("CUDA context and communication (estimate)"),
        "0.3 GiB" if _tensor(case.content) == 1 else "1 GiB with several GPUs",
        _CONTEXT_BYTES if _tensor(case.content) == 1 else _CONTEXT_PARALLEL_BYTES,
    )
    is_eager = config.switch(case.content, "enforce_eager") is True
    counts_graphs = case.version >= _GRAPHS_IN_BUDGET_SINCE and not is_eager
    graphs = Line(_("CUDA graphs (estimate)"), "0.6 GiB, inside the budget from vLLM 0.20", _GRAPH_BYTES)
    return (_activations(case), context, graphs) if counts_graphs else (_activations(case), context)


def _activations(case: _Case) -> Line:
    """The trial run's peak: the larger of one step through a layer and the sampler on all sequences."""
    model, tokens = case.model, case.batched_tokens
    inner = (model.intermediate_size or int(_MLP_FACTOR * model.hidden_size)) // _tensor(case.content)
    width = _element_bytes(model, case.content)
    layer = int(tokens * (3 * inner + 4 * model.hidden_size) * width)
    sampler = case.sequences * (model.vocab_size or 0) * _SAMPLER_BYTES
    if sampler > layer:
        text = f"{grouped(case.sequences)} sequences × {grouped(model.vocab_size or 0)} vocabulary × {_SAMPLER_BYTES} B"
        return Line(_("Activations, at the sampler (estimate)"), text, sampler)
    text = f"{grouped(tokens)} tokens × (3 × {grouped(inner)} + 4 × {grouped(model.hidden_size)}) × {width:g} B"
    return Line(_("Activations, in a layer (estimate)"), text, layer)


def _available(
    case: _Case, weights: Line, overhead_bytes: int, environment_gib: int | None
) -> tuple[tuple[Line, ...], int]:
    """The lines of the budget, and what is left for the KV cache."""
    if case.kind == "cpu" and environment_gib:
        given = environment_gib * GIB
        return (Line(_("KV cache"), f"VLLM_CPU_KVCACHE_SPACE = {environment_gib} GiB", given),), given
    asked = config.integer(case.content, "kv_cache_memory_bytes")
    if asked:
        return (Line(_("KV cache"), "kv_cache_memory_bytes (utilisation is not used)", asked),), asked
    budget = int(case.total_bytes * case.utilisation)
    name = _("Memory vLLM may use") if case.kind == "gpu" else _("System memory vLLM may use")
    first = Line(name, f"{gib(case.total_bytes)} × {case.utilisation:g}", budget)
    left = budget - (weights.value_bytes or 0) - overhead_bytes
    text = f"{gib(budget)} − {gib(weights.value_bytes or 0)} − {gib(overhead_bytes)}"
    return (first, Line(_("Left for the KV cache"), text, left)), left


def _per_token_line(case: _Case, per_token: float | None) -> Line:
    model, content = case.model, case.content
    label = _("KV cache per token")
    if per_token is None:
        return Line(label, "not estimated: recurrent layers keep a state per request", None)
    width, layers = _kv_element_bytes(model, content), -(-model.layers // _pipeline(content))
    if model.kv_lora_rank:
        text = f"{layers} layers × ({model.kv_lora_rank} + {model.qk_rope_head_dim or 0}) × {width:g} B"
    else:
        heads = max(1, model.kv_heads // _tensor(content))
        text = f"2 × {layers} layers × {heads} KV heads × {model.head_dim} × {width:g} B"
    bound = ", at most: some layers keep a window only" if model.sliding_window else ""
    return Line(label, text + bound, int(per_token))


def _shortfalls(case: _Case, found: _Found, free_bytes: int | None) -> list[tuple[int, str]]:
    """What is missing, with the advice that cures it, the largest cause first."""
    room = found.available_bytes
    missing: list[tuple[int, str]] = []
    if room <= 0:
        missing.append((-room, _no_room(case, found)))
    elif found.per_token and found.context:
        needed = int((found.blocks_of_one + _RESERVED_BLOCKS) * found.block_size * found.per_token)
        if needed > room:
            missing.append((needed - room, _short_cache(case, found)))
    if free_bytes is not None and _claimed(case, found) > free_bytes:
        missing.append((_claimed(case, found) - free_bytes, _short_free(case, free_bytes)))
    return missing


def _fits(found: _Found, shortfalls: list[tuple[int, str]]) -> bool | None:
    if shortfalls:
        return False
    # Without a size per token or a context, "no contradiction found" is all that can be said.
    return True if found.per_token and found.context else None


def _claimed(case: _Case, found: _Found) -> int:
    """What vLLM wants free at start: its whole budget, or with kv_cache_memory_bytes the sum of the parts."""
    is_sized = config.integer(case.content, "kv_cache_memory_bytes") is not None or case.kind == "cpu"
    parts = found.weights_bytes + found.overhead_bytes + found.available_bytes
    return parts if is_sized else int(case.total_bytes * case.utilisation)


def _no_room(case: _Case, found: _Found) -> str:
    if found.weights_bytes >= case.total_bytes * case.utilisation:
        return _("The weights alone exceed the budget: use more GPUs (tensor_parallel_size) or quantised weights.")
    return _("Nothing is left for the KV cache: lower max_num_seqs or max_num_batched_tokens, or use more GPUs.")


def _short_cache(case: _Case, found: _Found) -> str:
    if found.longest <= 0:
        return _("The KV cache has room for no request: give it more memory or use more GPUs.")
    return f"Lower max_model_len to {grouped(found.longest)} or give the KV cache more memory."


def _short_free(case: _Case, free_bytes: int) -> str:
    share = int(free_bytes / case.total_bytes * 100) / 100
    is_sized = config.integer(case.content, "kv_cache_memory_bytes") is not None
    change = "kv_cache_memory_bytes" if is_sized or case.kind == "cpu" else f"gpu_memory_utilization to {share:.2f}"
    return f"Only {gib(free_bytes)} of {gib(case.total_bytes)} are free: lower {change}, or free the memory."
