"""Failures for lack of memory: at loading, at profiling, for the KV cache, at warm-up, at graph capture."""

from collections.abc import Iterable

from controlplane.configs.domain.versions import NotAVersionError, Version

from ..texts import gettext_noop as _
from ..texts import gib
from .rule import (
    Fix,
    Match,
    Rule,
    Scene,
    got_stuck,
    less_utilisation,
    more_tensor_parallel,
    more_utilisation,
    rule,
    whole,
)

_OOM = r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA [Ee]rror: out of memory"
# Frames and messages around an out-of-memory line that say what vLLM was doing.
_SAMPLER = r"warming up sampler|_dummy_sampler_run|_dummy_sampler"
_GRAPHS = (
    r"capture_model|capture_graph|_capture_cudagraphs|Capturing (?:the model for )?(?:CUDA|cuda) ?graphs|private pools"
)
_PROFILE = r"profile_run|determine_available_memory|determine_num_available_blocks|_dummy_run|profile_cudagraph"
_LOAD = r"load_model|get_model|initialize_model|make_layers|create_weights|process_weights_after_loading"
_LOADED = r"odel loading took|oading model weights took"

# KV blocks are 16 tokens on a GPU; a proposed context is rounded down to whole blocks.
_BLOCK = 16


def _in(pattern: str) -> object:
    return lambda found, scene, index: scene.near(index, pattern)


def _while_loading(found: Match, scene: Scene, index: int) -> bool:
    # A frame of loading decides; without frames, no word that the weights are in does.
    if scene.near(index, _PROFILE):
        return False
    return scene.near(index, _LOAD) or not scene.earlier(index, _LOADED)


def _spread_weights(found: Match, scene: Scene) -> Iterable[Fix]:
    return more_tensor_parallel(scene)


def _ease_sampler(found: Match, scene: Scene) -> Iterable[Fix]:
    running = int(scene.number("max_num_seqs") or 1024)
    fewer = (Fix("lower", "max_num_seqs", 256 if running > 256 else max(1, running // 2)),)
    return (*fewer, *less_utilisation(scene))


def _ease_graphs(found: Match, scene: Scene) -> Iterable[Fix]:
    return (*less_utilisation(scene), *_ease_sampler_only(scene), Fix("set", "enforce_eager", True))


def _ease_sampler_only(scene: Scene) -> tuple[Fix, ...]:
    running = int(scene.number("max_num_seqs") or 1024)
    return (Fix("lower", "max_num_seqs", 256),) if running > 256 else ()


def _ease_profile(found: Match, scene: Scene) -> Iterable[Fix]:
    context = scene.facts.max_model_len_seen or scene.number("max_model_len")
    shorter = (Fix("lower", "max_model_len", 32_768),) if context and context > 32_768 else ()
    return (*shorter, *less_utilisation(scene), *more_tensor_parallel(scene))


def _room_for_cache(found: Match, scene: Scene) -> Iterable[Fix]:
    context = scene.facts.max_model_len_seen or scene.number("max_model_len")
    shorter = (Fix("lower", "max_model_len", 4096),) if context and context > 4096 else ()
    return (*more_utilisation(scene), *shorter, *more_tensor_parallel(scene), Fix("set", "enforce_eager", True))


def _counts_others(found: Match, scene: Scene, index: int) -> bool:
    """Releases that take the whole card's use for their own (0.8.5: total minus free memory; vLLM's PR 18974)."""
    try:
        return Version.parse(scene.facts.vllm_version or "") < Version.parse("0.9.2")
    except NotAVersionError:
        return False


def fitting_context(found: Match) -> int | None:
    """The longest context the KV cache holds: vLLM's own estimate, or ours where the release prints none.

    0.8.0 has no such sentence and 0.8.5 to 0.9.0 lose the number. The cache is proportional to the context, so the
    context scales by available / needed; both are printed rounded, so the pessimistic ends are taken.
    """
    if found["estimate"]:
        return whole(found["estimate"])
    needed, available = float(found["needed"]) + 0.005, float(found["available"]) - 0.005
    if float(found["needed"]) < 0.05 or available <= 0:
        return None
    return int(whole(found["longest"]) * available / needed) // _BLOCK * _BLOCK


def _fit_cache(found: Match, scene: Scene) -> Iterable[Fix]:
    context, asked = fitting_context(found), whole(found["longest"])
    given = scene.number("kv_cache_memory_bytes")
    if context:
        yield Fix("lower", "max_model_len", context)
    if given and context:
        mib = 1024**2
        yield Fix("raise", "kv_cache_memory_bytes", -(-int(given * asked / context) // mib) * mib)
    if not given:
        yield from more_utilisation(scene, by_gib=float(found["needed"]) - float(found["available"]))
    if context and context * 2 >= asked and scene.setting("kv_cache_dtype") in {None, "auto"}:
        yield Fix("set", "kv_cache_dtype", "fp8")
    yield from more_tensor_parallel(scene)


def _fit_remedy(found: Match, scene: Scene) -> dict[str, str]:
    context = fitting_context(found)
    # A small cache is printed as "0.0 GiB needed, 0.0 GiB available": then the tokens tell more.
    is_telling = found["needed"] != found["available"]
    sizes = f"it needs {found['needed']} GiB and {found['available']} GiB is available"
    return {
        "fits": f"Lower max_model_len to {context}" if context else "Lower max_model_len",
        "why": sizes if is_telling or not context else f"it has room for {context} tokens",
    }


def _fit_tokens(found: Match, scene: Scene) -> Iterable[Fix]:
    yield Fix("lower", "max_model_len", whole(found["capacity"]))
    yield from more_utilisation(scene)
    yield from more_tensor_parallel(scene)


def _share_of_free(found: Match) -> float:
    """Free memory as a share of the card, rounded down to two decimals: the highest utilisation that starts."""
    return int(float(found["free"]) / float(found["total"]) * 100 + 1e-9) / 100


def _is_occupied(found: Match, scene: Scene, index: int) -> bool:
    return _share_of_free(found) < 0.5


def _fit_free(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("lower", "gpu_memory_utilization", _share_of_free(found)),)


def _holders(found: Match, scene: Scene) -> dict[str, str]:
    held = f" On the GPU now: {scene.holders}." if scene.holders else ""
    where = found.groupdict().get("device") or "the GPU"
    return {"holders": held, "where": where, "share": f"{_share_of_free(found):.2f}"}


def _fit_node(found: Match, scene: Scene) -> Iterable[Fix]:
    whole_gib = int(float(found["free"]) * 0.9)
    return (Fix("lower", "kv_cache_memory_bytes", f"{whole_gib}G"),) if whole_gib else ()


def _fit_mamba(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("lower", "max_num_seqs", whole(found["blocks"])),)


def _all_graphs(found: Match, scene: Scene) -> dict[str, str]:
    loaded = scene.facts.weights_bytes
    return {"loaded": f" ({gib(loaded)} of weights were in)" if loaded else ""}


_NO_CACHE = r"No available memory for the cache blocks|# (?:GPU|CUDA|cuda) blocks: 0,"

# "on device (22.76/24.0 GiB)" to 0.13, "on device cuda:0 (22.76/24.0 GiB)" from 0.14; xpu:0 on Intel.
_FREE = (
    r"Free memory on device (?:(?P<device>[\w:]+) )?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup "
    r"is less than desired GPU memory utilization \((?P<wanted>[\d.]+), (?P<wanted_gib>[\d.]+) GiB\)"
)

RULES: tuple[Rule, ...] = (
    rule(
        "kv_cache_too_small",
        r"max seq len \((?P<longest>[\d,]+)\), \(?(?P<needed>-?[\d.]+) Gi?B KV cache is needed, "
        r"which is larger than the available KV cache memory \((?P<available>-?[\d.]+) Gi?B\)"
        r"(?:.*?estimated maximum model length is (?P<estimate>[\d,]+))?",
        _("The KV cache is too small for one request of max_model_len {longest}: {why}."),
        _("{fits}, give the cache more memory, or keep it in fp8."),
        fixes=_fit_cache,
        params=_fit_remedy,
    ),
    rule(
        "kv_cache_too_small",
        r"max seq len \((?P<longest>[\d,]+)\) is larger than the maximum number of tokens that can be stored "
        r"in KV cache \((?P<capacity>[\d,]+)\)",
        _("The KV cache holds {capacity} tokens, fewer than one request of max_model_len {longest}."),
        _("Lower max_model_len to {capacity}, raise gpu_memory_utilization, or use more GPUs."),
        fixes=_fit_tokens,
    ),
    rule(
        "no_kv_memory",
        _NO_CACHE,
        _("After weights and activations nothing is left for the KV cache."),
        _(
            "Beside another server on the card, give this one the sum of both shares or use vLLM 0.9.2 or "
            "later: before, vLLM may count what others hold as its own. Else lower max_model_len, or use quantised "
            "weights or more GPUs."
        ),
        fixes=_room_for_cache,
        when=_counts_others,
        is_said_softly=True,
    ),
    rule(
        "no_kv_memory",
        _NO_CACHE,
        _("After weights and activations nothing is left for the KV cache."),
        _(
            "Lower max_model_len, use quantised weights or more GPUs; raise utilisation only where "
            "the card is otherwise empty."
        ),
        fixes=_room_for_cache,
        is_said_softly=True,
    ),
    rule(
        "gpu_occupied",
        _FREE,
        _("Only {free} of {total} GiB on {where} are free: another process holds the card.{holders}"),
        _(
            "Stop the process that holds it (a leftover EngineCore is common), wait until it is "
            "gone, or choose another GPU."
        ),
        params=_holders,
        when=_is_occupied,
    ),
    rule(
        "gpu_memory_short",
        _FREE,
        _(
            "{free} of {total} GiB on {where} are free, less than the {wanted_gib} GiB of "
            "gpu_memory_utilization {wanted}.{holders}"
        ),
        _("Lower gpu_memory_utilization to {share}, or free the card."),
        fixes=_fit_free,
        params=_holders,
    ),
    rule(
        "memory_changed_while_profiling",
        r"Error in memory profiling",
        _("Another process took or released memory of the same GPU while vLLM measured it."),
        _("Start servers on one GPU one after another, or set kv_cache_memory_bytes, which skips that measurement."),
    ),
    rule(
        "cpu_memory_short",
        r"Available memory on node (?P<node>\d+) \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*requested memory for kv "
        r"\((?P<asked>[\d.]+) GiB\)",
        _("The KV cache was given {asked} GiB, but memory node {node} has {free} of {total} GiB free."),
        _("Lower kv_cache_memory_bytes; VLLM_CPU_KVCACHE_SPACE in the environment overrides it silently."),
        fixes=_fit_node,
    ),
    rule(
        "mamba_blocks",
        r"max_num_seqs \(\d+\) exceeds available Mamba cache blocks \((?P<blocks>\d+)\)",
        _("Each running request of this model needs a state block, and there is room for {blocks}."),
        _("Lower max_num_seqs to {blocks} or less."),
        fixes=_fit_mamba,
    ),
    rule(
        "oom_wake",
        r"[Oo]ut of memory.*cumem_allocator",
        _("The server could not wake up: another process took the GPU memory while it slept."),
        _("Free the GPU, then launch again."),
    ),
    rule(
        "oom_sampler",
        rf"{_OOM}|warming up sampler",
        _(
            "The GPU ran out of memory while warming up the sampler: max_num_seqs × vocabulary needs "
            "room outside the KV cache."
        ),
        _("Lower max_num_seqs, or gpu_memory_utilization by 0.05."),
        fixes=_ease_sampler,
        when=_in(_SAMPLER),
    ),
    rule(
        "oom_graphs",
        _OOM,
        _("The GPU ran out of memory while capturing CUDA graphs."),
        _("Lower gpu_memory_utilization or max_num_seqs (fewer graphs), or set enforce_eager (slower decoding)."),
        fixes=_ease_graphs,
        when=_in(_GRAPHS),
    ),
    rule(
        "oom_loading",
        _OOM,
        _("The weights do not fit on the GPU: memory ran out while loading them."),
        _(
            "Spread the model over more GPUs (tensor_parallel_size) or use quantised weights, and "
            "check that the card is "
            "otherwise empty. Lowering gpu_memory_utilization or max_model_len cannot help."
        ),
        fixes=_spread_weights,
        when=_while_loading,
    ),
    rule(
        "oom_profiling",
        _OOM,
        _("The GPU ran out of memory in the trial run with the longest batch, after the weights were loaded{loaded}."),
        _(
            "Lower max_model_len or max_num_batched_tokens, then gpu_memory_utilization; more GPUs "
            "if the weights fill the card."
        ),
        fixes=_ease_profile,
        params=_all_graphs,
    ),
    rule(
        "multimodal_profiling",
        r"Starting profile run for multi-modal models",
        _("The process died in the trial run with the largest images or videos."),
        _("Limit them with limit_mm_per_prompt, and lower max_num_seqs and max_model_len."),
        fixes=lambda found, scene: (Fix("lower", "max_num_seqs", 16), Fix("set", "limit_mm_per_prompt", {"image": 1})),
        is_symptom=True,
        is_said_softly=True,
        when=got_stuck,
    ),
    rule(
        "host_memory_short",
        r"DefaultCPUAllocator: can't allocate memory|MemoryError|Cannot allocate memory",
        _("The host itself ran out of memory."),
        _("Free memory on the host, lower cpu_offload_gb or kv_cache_memory_bytes, or start fewer servers at a time."),
    ),
)

__all__ = ["RULES", "fitting_context"]
