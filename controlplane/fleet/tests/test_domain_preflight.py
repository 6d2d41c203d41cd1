"""Preflight: one sentence, its arithmetic and its cure for each check."""

from dataclasses import replace

import pytest

from controlplane.fleet.domain.failures.rule import Gpu, GpuProcess
from controlplane.fleet.domain.memory import ModelFacts, estimate
from controlplane.fleet.domain.preflight import Check, Facts, PortHolder, checks, may_launch
from controlplane.fleet.domain.texts import GIB

MODEL = ModelFacts(
    weights_bytes=15 * GIB,
    layers=32,
    attention_heads=28,
    kv_heads=4,
    head_dim=128,
    hidden_size=3584,
    intermediate_size=18_944,
    vocab_size=152_064,
    max_positions=32_768,
)
CONTENT: dict[str, dict[str, object]] = {
    "server": {"host": "127.0.0.1", "port": 8000},
    "model": {"max_model_len": 8192, "tensor_parallel_size": 2, "gpu_memory_utilization": 0.9},
    "batching": {"max_num_seqs": 128, "max_num_batched_tokens": 8192},
}
CARDS = (Gpu("GPU-a", 24 * GIB, 0, 0, "L4"), Gpu("GPU-b", 24 * GIB, 0, 1, "L4"))
GOOD = Facts(
    content=CONTENT,
    engine_version="0.32.0",
    kind="gpu",
    flag_problems=(),
    model=MODEL,
    has_tokenizer=True,
    has_chat_template=True,
    port=8000,
    gpus=CARDS,
    gpus_on_host=2,
    estimate=estimate(MODEL, CONTENT, memory_total_bytes=24 * GIB, engine_version="0.32.0"),
    disk_free_bytes=100 * GIB,
)


def check(code: str, **changes: object) -> Check:
    return next(found for found in checks(replace(GOOD, **changes)) if found.code == code)  # type: ignore[arg-type]


def content(**sections: dict[str, object]) -> dict[str, dict[str, object]]:
    return {name: {**CONTENT.get(name, {}), **sections.get(name, {})} for name in {*CONTENT, *sections}}


def test_a_good_launch_passes_every_check() -> None:
    found = checks(GOOD)
    assert [each.outcome for each in found] == ["pass"] * len(found)
    assert may_launch(found)
    assert [each.code for each in found] == [
        "flags",
        "model",
        "context",
        "port",
        "gpus",
        "heads",
        "batch",
        "memory",
        "free_memory",
        "disk",
        "exposure",
    ]


def test_what_was_not_looked_at_is_skipped_and_says_so() -> None:
    found = checks(Facts(content={"server": {"host": "127.0.0.1"}}, engine_version="0.32.0", kind="cpu"))
    assert {each.outcome for each in found} <= {"skip", "pass", "fail"}
    assert all(each.sentence for each in found)
    assert may_launch(found)


@pytest.mark.parametrize(
    ("code", "changes", "outcome", "words"),
    [
        ("flags", {"flag_problems": ("--swap-space is gone since 0.18.",)}, "fail", "--swap-space is gone since 0.18."),
        ("flags", {"flag_problems": None}, "skip", "probe the host"),
        ("model", {"model_error": "There is no /data/m."}, "fail", "There is no /data/m."),
        ("model", {"has_tokenizer": False}, "fail", "no tokenizer"),
        ("model", {"has_chat_template": False}, "warn", "chat template"),
        ("port", {"port_holder": PortHolder(77, "nginx")}, "fail", "Port 8000 is held by pid 77 (nginx)"),
        ("port", {"port_holder": PortHolder(77, "vllm", is_ours=True)}, "fail", "an instance of ours"),
        ("port", {"port_known": False}, "skip", "Nobody could look"),
        ("gpus", {"gpus": CARDS[:1]}, "fail", "needs 2 GPUs, 1 is chosen"),
        ("gpus", {"gpu_problem": "The driver does not answer."}, "fail", "The driver does not answer."),
        ("disk", {"disk_free_bytes": GIB}, "warn", "nearly full"),
        ("disk", {"disk_free_bytes": 10 * GIB, "download_bytes": 15 * GIB}, "fail", "nearly full"),
        ("disk", {"disk_free_bytes": None}, "skip", "not known"),
        ("free_memory", {"gpus": ()}, "skip", "No GPU"),
        ("memory", {"estimate": None}, "skip", "cannot be estimated"),
    ],
)
def test_each_check_says_what_is_wrong(code: str, changes: dict[str, object], outcome: str, words: str) -> None:
    found = check(code, **changes)
    assert found.outcome == outcome
    assert words in found.sentence


def test_heads_that_do_not_split_get_a_size_that_does() -> None:
    found = check("heads", content=content(model={"tensor_parallel_size": 8}))
    assert (found.outcome, found.arithmetic) == ("fail", "28 / 8 = 3.5")
    assert found.fixes[0].label == "lower tensor_parallel_size to 7"


def test_a_context_above_the_models_is_refused_unless_it_is_overridden() -> None:
    long = content(model={"max_model_len": 100_000})
    assert check("context", content=long).fixes[0].label == "lower max_model_len to 32,768"
    assert check("context", content={**long, "engine": {"hf_overrides": "{}"}}).outcome == "pass"


def test_batch_limits_that_contradict_each_other_are_refused() -> None:
    few = check("batch", content=content(batching={"max_num_batched_tokens": 16}))
    assert (few.outcome, few.arithmetic) == ("fail", "16 < 128")
    whole = check("batch", content=content(batching={"max_num_batched_tokens": 512, "enable_chunked_prefill": False}))
    assert [fix.label for fix in whole.fixes] == [
        "set enable_chunked_prefill to true",
        "raise max_num_batched_tokens to 8,192",
    ]


def test_a_model_that_does_not_fit_is_refused_with_the_whole_arithmetic() -> None:
    wide = content(model={"max_model_len": 32_768, "tensor_parallel_size": 1})
    tight = estimate(MODEL, wide, memory_total_bytes=20 * GIB, engine_version="0.32.0")
    found = check("memory", content=wide, estimate=tight)
    assert found.outcome == "fail"
    assert "15.00 GiB on disk" in found.arithmetic
    assert found.remedy


def test_memory_promised_to_another_launch_counts_as_used() -> None:
    assert check("free_memory").outcome == "pass"
    found = check("free_memory", reserved_bytes={"GPU-b": 10 * GIB})
    assert found.outcome == "fail"
    assert "10.00 GiB promised = 14.00 GiB free" in found.arithmetic
    assert found.fixes[0].label == "lower gpu_memory_utilization to 0.58"


def test_who_holds_the_memory_is_named() -> None:
    holder = GpuProcess(4242, 20 * GIB, "op", "VLLM::EngineCore", is_ours=False)
    busy = Gpu("GPU-a", 24 * GIB, 23 * GIB, 0, "L4", (holder,))
    found = check("free_memory", gpus=(busy, CARDS[1]))
    assert "pid 4242 (op VLLM::EngineCore, 20.00 GiB, not ours)" in found.sentence
    assert found.fixes == (), "a utilisation of 0.04 is no cure"


@pytest.mark.parametrize(
    ("host", "has_key", "outcome"),
    [
        ("127.0.0.1", False, "pass"),
        ("localhost", True, "pass"),
        ("0.0.0.0", True, "warn"),
        ("0.0.0.0", False, "fail"),
        ("10.0.0.5", False, "fail"),
        (None, False, "fail"),
    ],
)
def test_an_open_port_without_a_key_is_refused(host: str | None, has_key: bool, outcome: str) -> None:
    assert check("exposure", content=content(server={"host": host}), has_api_key=has_key).outcome == outcome


def test_one_failure_is_enough_to_refuse_the_launch() -> None:
    assert not may_launch(checks(replace(GOOD, model_error="gone")))
