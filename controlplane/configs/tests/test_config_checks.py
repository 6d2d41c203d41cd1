"""A config is checked against the vLLM that it is to run on."""

import re
from itertools import pairwise
from typing import Any

import pytest

from controlplane.configs.domain.catalogue import catalogue
from controlplane.configs.domain.checking import check, moved_defaults, what_breaks
from controlplane.configs.domain.document import read
from controlplane.configs.domain.problem import Problem
from controlplane.configs.domain.removals import REMOVALS

from .samples import document, operator_document

MODEL = {"model": {"model_path": "m"}}


def checked(engine: dict[str, Any], version: str) -> tuple[Problem, ...]:
    return check({**MODEL, "engine": engine}, flags=catalogue().flags(version), version=version)


def only(engine: dict[str, Any], version: str) -> Problem:
    found = checked(engine, version)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("version", ["0.8.0", "0.8.5", "0.12.0", "0.17.1"])
def test_the_operators_file_runs_up_to_0_17(version: str) -> None:
    assert check(operator_document(), flags=catalogue().flags(version), version=version) == ()


@pytest.mark.parametrize("version", ["0.18.0", "0.18.1", "0.33.0"])
def test_swap_space_is_refused_from_0_18_with_the_reason(version: str) -> None:
    found = check(operator_document(), flags=catalogue().flags(version), version=version)
    assert found == (
        Problem(
            code="removed",
            line=26,
            column=1,
            key="[scheduler] swap_space",
            message="vLLM has no --swap-space since 0.18.0; 0.17.1 was the last with it.",
            remedy=f"{REMOVALS['swap_space'].note} Remove the key.",
            fix=(("scheduler", "swap_space", None),),
        ),
    )


def test_the_offered_fix_makes_the_config_right() -> None:
    subject, flags = operator_document(), catalogue().flags("0.33.0")
    (problem,) = check(subject, flags=flags, version="0.33.0")
    fixed = subject.with_values({(section, key): value for section, key, value in problem.fix})
    assert check(fixed, flags=flags, version="0.33.0") == ()


def test_a_removed_flag_names_what_replaces_it() -> None:
    found = only({"task": "embed"}, "0.13.0")
    assert (found.code, found.replacement) == ("removed", "runner")
    assert found.message == "vLLM has no --task since 0.13.0; 0.12.0 was the last with it."
    assert found.remedy == (
        "It was split into runner (generate or pooling) and convert. "
        'Write runner = "pooling" and convert = "embed" below [engine].'
    )


def test_a_replacement_that_this_version_lacks_is_not_offered() -> None:
    assert only({"max_seq_len_to_capture": 8192}, "0.11.0").replacement is None
    assert only({"max_seq_len_to_capture": 8192}, "0.11.1").replacement == "cudagraph_capture_sizes"


def test_the_opposite_spelling_of_a_new_release_does_not_bring_an_old_flag_back() -> None:
    """0.33 has `--disable-log-requests` again, as the opposite of `--enable-log-requests`."""
    found = only({"disable_log_requests": True}, "0.33.0")
    assert (found.code, found.replacement) == ("removed", "enable_log_requests")


def test_a_flag_of_a_newer_release_is_refused() -> None:
    found = only({"shutdown_timeout": 30}, "0.17.1")
    assert (found.code, found.message) == (
        "too_new",
        "--shutdown-timeout came with vLLM 0.18.0; this engine is 0.17.1.",
    )


def test_an_unknown_flag_gets_the_nearest_known_one() -> None:
    found = only({"enforce-eagr": True}, "0.33.0")
    assert (found.code, found.replacement) == ("unknown_flag", "enforce_eager")
    assert found.message == "vLLM 0.33.0 has no --enforce-eagr, and no known release had it."


def test_a_negated_name_is_turned_around() -> None:
    assert only({"no_async_scheduling": True}, "0.33.0").replacement == "async_scheduling = false"


def test_a_deprecated_flag_is_only_warned_about() -> None:
    found = only({"disable_log_requests": True}, "0.16.0")
    assert (found.code, found.severity, found.replacement) == ("deprecated", "warning", "enable_log_requests")
    assert found.message == "--disable-log-requests is deprecated in vLLM 0.16.0. It is gone in 0.17.0."


def test_a_wrong_choice_names_the_right_ones() -> None:
    found = check({"model": {"model_path": "m", "dtype": "fp16"}}, flags=catalogue().flags("0.33.0"), version="0.33.0")
    assert [(p.code, p.remedy) for p in found] == [
        ("wrong_choice", "Write one of auto, bfloat16, float, float16, float32, half.")
    ]
    assert only({"logprobs_mode": "RAW-logits"}, "0.33.0").replacement == "raw_logits"


def test_a_choice_that_came_later_is_refused_earlier() -> None:
    assert only({"kv_cache_dtype": "nvfp4"}, "0.17.1").code == "wrong_choice"
    assert checked({"kv_cache_dtype": "nvfp4"}, "0.33.0") == ()


@pytest.mark.parametrize(
    "engine",
    [
        {"seed": 1},
        {"max_num_scheduled_tokens": "8k"},
        {"speculative_config": {"method": "ngram"}},
        {"speculative_config": '{"method": "ngram"}'},
        {"cudagraph_capture_sizes": [1, 2, 4]},
        {"lora_modules": ["a=/b", {"name": "c", "path": "/d"}]},
        {"middleware": ["a.b"]},
        {"hf_token": True},
        {"hf_overrides": {"rope_theta": 1e6}},
        {"optimization_level": 2},
        {"cpu_offload_gb": 4},
        {"allowed_origins": ["*"]},
        {"limit_mm_per_prompt": {"image": 2}},
        {"max_lora_rank": 16},
    ],
)
def test_values_are_taken_as_vllm_takes_them(engine: dict[str, Any]) -> None:
    assert checked(engine, "0.33.0") == ()


@pytest.mark.parametrize(
    "engine",
    [
        {"seed": "one"},
        {"seed": 1.5},
        {"enforce_eager": "true"},
        {"enforce_eager": 1},
        {"speculative_config": "ngram"},
        {"cudagraph_capture_sizes": ["a"]},
        {"max_num_scheduled_tokens": "8 thousand"},
        {"revision": ["a"]},
    ],
)
def test_values_that_vllm_would_refuse_are_refused(engine: dict[str, Any]) -> None:
    assert only(engine, "0.33.0").code == "wrong_type"


def test_a_switch_that_can_only_be_turned_on_is_not_silently_left_on() -> None:
    found = checked({"use_v2_block_manager": False}, "0.9.2")
    assert [(p.code, p.severity) for p in found] == [("deprecated", "warning"), ("wrong_choice", "error")]


def test_a_config_without_a_model_is_refused() -> None:
    found = check({"server": {"port": 1}}, flags=catalogue().flags("0.33.0"), version="0.33.0")
    assert [p.code for p in found] == ["no_model"]


def test_an_option_that_only_this_build_lacks_is_said_to_be_so() -> None:
    flags = {dest: flag for dest, flag in catalogue().flags("0.33.0").items() if dest != "watermark"}
    found = check({**MODEL, "engine": {"watermark": 0.1}}, flags=flags, version="0.33.0")
    assert [(p.code, p.message) for p in found] == [
        ("not_in_build", "This build of vLLM 0.33.0 has no --watermark, though the release does.")
    ]


def test_what_would_break_is_told_for_all_configs_at_once() -> None:
    good = document('[model]\nmodel_path = "m"\n').content
    broken = what_breaks({1: operator_document().content, 2: good}, "0.18.0")
    assert list(broken) == [1]
    assert [(p.code, p.line) for p in broken[1]] == [("removed", None)]


def test_a_moved_default_is_told_unless_the_config_sets_the_value() -> None:
    moved = [p.key for p in moved_defaults(MODEL, before="0.19.1", after="0.20.2")]
    assert "gpu_memory_utilization" in moved
    fixed = {"model": {"model_path": "m", "gpu_memory_utilization": 0.9}}
    assert "gpu_memory_utilization" not in [p.key for p in moved_defaults(fixed, before="0.19.1", after="0.20.2")]


@pytest.mark.parametrize(
    ("before", "after", "option", "message"),
    [
        ("0.19.1", "0.20.0", "gpu_memory_utilization", "The default is 0.92 in vLLM 0.20.0; it was 0.9 in 0.19.1."),
        ("0.10.0", "0.10.1", "disable_log_requests", "The default is true in vLLM 0.10.1; it was false in 0.10.0."),
        (
            "0.9.2",
            "0.10.0",
            "model",
            'The default is "Qwen/Qwen3-0.6B" in vLLM 0.10.0; it was "facebook/opt-125m" in 0.9.2.',
        ),
        ("0.8.4", "0.8.5", "enable_lora", "The default is no value in vLLM 0.8.5; it was false in 0.8.4."),
        ("0.8.4", "0.8.5", "limit_mm_per_prompt", "The default is {} in vLLM 0.8.5; it was no value in 0.8.4."),
        ("0.31.0", "0.32.0", "allowed_origins", 'The default is [] in vLLM 0.32.0; it was ["*"] in 0.31.0.'),
        (
            "0.8.5.post1",
            "0.9.0",
            "compilation_config",
            "The default is what CompilationConfig has by itself in vLLM 0.9.0; it was no value in 0.8.5.post1.",
        ),
        (
            "0.29.0",
            "0.30.0",
            "prefix_cache_retention_interval",
            "The default is 0 in vLLM 0.30.0; it was no value in 0.29.0.",
        ),
    ],
)
def test_a_moved_default_is_written_as_a_config_writes_it(before: str, after: str, option: str, message: str) -> None:
    told = {problem.key: problem.message for problem in moved_defaults({}, before=before, after=after)}
    assert told[option] == message


def test_no_moved_default_is_told_in_python() -> None:
    releases = catalogue().releases
    told = [p.message for pair in pairwise(releases) for p in moved_defaults({}, before=pair[0], after=pair[1])]
    assert len(told) > 50
    assert [text for text in told if re.search(r"\b(?:None|True|False)\b|'|<", text)] == []


def test_a_file_with_errors_is_checked_as_far_as_it_can_be_read() -> None:
    reading = read(b'[model]\nmodel_path = "m"\nquantization = null\n[scheduler]\nswap_space = 4\n')
    found = check(reading, flags=catalogue().flags("0.33.0"), version="0.33.0")
    assert [(p.code, p.line) for p in found] == [("removed", 5)]
