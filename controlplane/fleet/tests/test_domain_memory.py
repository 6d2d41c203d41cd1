"""The memory estimate: its arithmetic, and predicted beside measured on real servers."""

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.fleet.domain.log_reading import read_whole
from controlplane.fleet.domain.memory import (
    MemoryEstimate,
    ModelFacts,
    default_utilisation,
    estimate,
    kv_bytes_per_token,
    kv_tokens,
    parse_version,
)
from controlplane.fleet.domain.texts import GIB

LOGS = Path(__file__).parent / "data" / "logs"
TINY = ModelFacts(
    weights_bytes=3_400_000,
    layers=2,
    attention_heads=4,
    kv_heads=2,
    head_dim=64,
    hidden_size=256,
    intermediate_size=512,
    vocab_size=2048,
    max_positions=2048,
)
LLAMA_8B = ModelFacts(
    weights_bytes=int(14.99 * GIB),
    layers=32,
    attention_heads=32,
    kv_heads=8,
    head_dim=128,
    hidden_size=4096,
    intermediate_size=14_336,
    vocab_size=128_256,
    max_positions=131_072,
)
QWEN_1_5B = ModelFacts(
    weights_bytes=int(2.88 * GIB),
    layers=28,
    attention_heads=12,
    kv_heads=2,
    head_dim=128,
    hidden_size=1536,
    intermediate_size=8960,
    vocab_size=151_936,
    max_positions=32_768,
)


def on_cpu(**engine: object) -> MemoryEstimate:
    content: dict[str, dict[str, object]] = {"model": {"max_model_len": 2048}, "engine": engine}
    return estimate(TINY, content, memory_total_bytes=int(23.54 * GIB), engine_version="0.32.0", kind="cpu")


def on_gpu(
    model: ModelFacts = LLAMA_8B,
    total_gib: float = 80,
    version: str = "0.32.0",
    free_gib: float | None = None,
    **model_keys: object,
) -> MemoryEstimate:
    return estimate(
        model,
        {"model": model_keys},
        memory_total_bytes=int(total_gib * GIB),
        memory_free_bytes=None if free_gib is None else int(free_gib * GIB),
        engine_version=version,
    )


@pytest.mark.parametrize(
    ("log", "given"),
    [("startup.log", 2**30), ("startup-and-load-eager.log", "1G"), ("kill-sigkill-engine.log", "64M")],
)
def test_predicted_kv_tokens_are_those_the_real_cpu_server_measured(log: str, given: object) -> None:
    measured = read_whole((LOGS / log).read_bytes().decode())
    predicted = on_cpu(kv_cache_memory_bytes=given)
    assert predicted.predicted_kv_tokens == measured.kv_cache_tokens
    assert predicted.predicted_max_concurrency == measured.max_concurrency
    assert predicted.fits is True


def test_the_cache_that_vllm_refused_is_refused_with_vllms_own_number() -> None:
    """Sample kv-too-small: 1,000,000 bytes, "the estimated maximum model length is 768"."""
    refused = on_cpu(kv_cache_memory_bytes=1_000_000)
    assert refused.fits is False
    assert refused.longest_context == 768
    assert refused.shortfall_bytes == (16 + 1) * 128 * 1024 - 1_000_000
    assert refused.advice == ("Lower max_model_len to 768 or give the KV cache more memory.",)


def test_the_environment_overrides_the_config_on_a_cpu_build() -> None:
    content = {"engine": {"kv_cache_memory_bytes": "64M"}}
    found = estimate(
        TINY,
        content,
        memory_total_bytes=24 * GIB,
        engine_version="0.32.0",
        kind="cpu",
        environment_kv_space_gib=1,
    )
    assert found.predicted_kv_tokens == 1_048_576


@pytest.mark.parametrize(
    ("model", "available_gib", "measured"),
    [
        # vLLM's own lines on GPUs: "Available KV cache memory" beside "GPU KV cache size" (or V0 blocks × 16)
        (QWEN_1_5B, 120.53, 4_513_888),
        (LLAMA_8B, 4.60, 37_696),
    ],
)
def test_bytes_per_token_agree_with_gpu_logs_to_the_rounding_of_their_gib(
    model: ModelFacts, available_gib: float, measured: int
) -> None:
    per_token = kv_bytes_per_token(model, {})
    low = kv_tokens(int((available_gib - 0.005) * GIB), per_token, 16)
    high = kv_tokens(int((available_gib + 0.005) * GIB), per_token, 16)
    assert low is not None
    assert high is not None
    assert low <= measured <= high


def test_the_whole_estimate_comes_close_to_a_measured_h200() -> None:
    """Qwen 1.5B, 0.19.1, utilisation 0.9: 120.53 GiB for the cache. One of the points the constants rest on."""
    found = on_gpu(QWEN_1_5B, total_gib=139.8, version="0.19.1", gpu_memory_utilization=0.9)
    assert found.kv_available_bytes / GIB == pytest.approx(120.53, rel=0.005)


@pytest.mark.parametrize(
    ("sequences", "tokens", "measured_gib"),
    # Llama 3 8B, V1: peak of the trial run as vLLM printed it (0.8-0.10 and 0.19 on 80 GB cards)
    [(1024, 8192, 1.89)],
)
def test_activations_come_close_to_what_vllm_printed(sequences: int, tokens: int, measured_gib: float) -> None:
    found = on_gpu(LLAMA_8B, max_num_seqs=sequences, max_num_batched_tokens=tokens)
    activations = next(line for line in found.lines if line.label.startswith("Activations"))
    assert activations.value_bytes is not None
    assert activations.value_bytes / GIB == pytest.approx(measured_gib, rel=0.1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, 131_072),
        ({"model": {"tensor_parallel_size": 2}}, 65_536),
        # more GPUs than KV heads: every GPU keeps one head
        ({"model": {"tensor_parallel_size": 16}}, 16_384),
        ({"engine": {"pipeline_parallel_size": 4}}, 32_768),
        ({"engine": {"kv_cache_dtype": "fp8"}}, 65_536),
        ({"engine": {"kv_cache_dtype": "fp8_e5m2"}}, 65_536),
        ({"engine": {"kv_cache_dtype": "auto"}}, 131_072),
        ({"model": {"dtype": "float32"}}, 262_144),
        ({"model": {"dtype": "auto"}}, 131_072),
    ],
)
def test_bytes_per_token_follow_the_config(content: dict[str, dict[str, object]], expected: int) -> None:
    assert kv_bytes_per_token(LLAMA_8B, content) == expected


def test_an_mla_model_keeps_one_latent_a_token_on_every_gpu() -> None:
    deepseek = replace(LLAMA_8B, layers=61, kv_heads=128, kv_lora_rank=512, qk_rope_head_dim=64)
    assert kv_bytes_per_token(deepseek, {}) == 61 * 576 * 2
    assert kv_bytes_per_token(deepseek, {"model": {"tensor_parallel_size": 8}}) == 61 * 576 * 2


def test_a_hybrid_model_is_not_estimated_and_says_so() -> None:
    found = on_gpu(replace(LLAMA_8B, is_hybrid=True))
    assert (found.kv_bytes_per_token, found.predicted_kv_tokens, found.fits) == (None, None, None)
    assert "not estimated" in found.lines[-1].formula


def test_a_sliding_window_makes_an_upper_bound() -> None:
    assert on_gpu(replace(LLAMA_8B, sliding_window=4096)).is_upper_bound
    assert not on_gpu().is_upper_bound


def test_weights_are_split_and_converted() -> None:
    stored_wide = replace(LLAMA_8B, dtype="float32", weights_bytes=32 * GIB)
    assert on_gpu(stored_wide).weights_per_gpu_bytes == 16 * GIB
    assert on_gpu(stored_wide, tensor_parallel_size=2).weights_per_gpu_bytes == 8 * GIB
    assert on_gpu(LLAMA_8B, quantization="fp8").weights_per_gpu_bytes == LLAMA_8B.weights_bytes // 2
    awq = replace(LLAMA_8B, quantization="awq", weights_bytes=5 * GIB)
    assert on_gpu(awq, quantization="awq").weights_per_gpu_bytes == 5 * GIB


@pytest.mark.parametrize(
    ("version", "share"), [("0.8.5.post1", 0.90), ("0.19.1", 0.90), ("0.20.2", 0.92), ("0.33.0", 0.92)]
)
def test_the_default_share_follows_the_version(version: str, share: float) -> None:
    assert default_utilisation(parse_version(version)) == share
    budget = next(line for line in on_gpu(version=version).lines if line.label.startswith("Memory vLLM may use"))
    assert budget.value_bytes == int(80 * GIB * share)


def test_graphs_count_inside_the_budget_from_0_20_and_never_when_eager() -> None:
    def counts(version: str, content: dict[str, dict[str, object]]) -> bool:
        found = estimate(LLAMA_8B, content, memory_total_bytes=80 * GIB, engine_version=version)
        return any(line.label.startswith("CUDA graphs") for line in found.lines)

    assert not counts("0.19.1", {})
    assert counts("0.20.2", {})
    assert not counts("0.20.2", {"engine": {"enforce_eager": True}})


def test_weights_larger_than_the_card_are_told_apart_from_a_small_cache() -> None:
    found = on_gpu(replace(LLAMA_8B, weights_bytes=140 * GIB))
    assert found.fits is False
    assert found.advice[0].startswith("The weights alone exceed the budget")
    assert found.predicted_kv_tokens == 0


def test_a_card_in_use_is_refused_with_the_share_that_would_start() -> None:
    found = on_gpu(total_gib=24, free_gib=22.76, gpu_memory_utilization=0.97, max_model_len=8192)
    assert found.fits is False
    assert (
        found.advice[-1]
        == "Only 22.76 GiB of 24.00 GiB are free: lower gpu_memory_utilization to 0.94, or free the memory."
    )


def test_a_context_that_does_not_fit_gets_the_longest_that_does() -> None:
    found = on_gpu(total_gib=24, max_model_len=131_072)
    assert found.fits is False
    assert found.longest_context is not None
    again = on_gpu(total_gib=24, max_model_len=found.longest_context)
    assert again.fits is True
    assert on_gpu(total_gib=24, max_model_len=found.longest_context + 16).fits is False


def test_every_line_shows_its_formula() -> None:
    formulas = {line.label: line.formula for line in on_gpu(tensor_parallel_size=2, gpu_memory_utilization=0.9).lines}
    assert formulas["Weights"] == "14.99 GiB on disk / 2 GPUs"
    assert formulas["Memory vLLM may use"] == "80.00 GiB × 0.9"
    assert formulas["KV cache per token"] == "2 × 32 layers × 4 KV heads × 128 × 2 B"


@pytest.mark.parametrize(("text", "version"), [("0.17.1", (0, 17, 1)), ("0.32.0+cpu", (0, 32, 0)), ("dev", (9999,))])
def test_versions_are_read(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version
