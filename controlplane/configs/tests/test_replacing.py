"""A config with options that a vLLM lost is made right: what stands in for them is written, or a person is asked."""

from typing import Any

import pytest

from controlplane.configs.domain.catalogue import catalogue, find
from controlplane.configs.domain.checking import check
from controlplane.configs.domain.document import Document, new_document
from controlplane.configs.domain.problem import Problem
from controlplane.configs.domain.removals import REMOVALS

from .samples import document

Settings = dict[str, Any]


def problems_of(subject: Document, version: str) -> tuple[Problem, ...]:
    return tuple(
        problem for problem in check(subject, flags=catalogue().flags(version), version=version) if problem.is_error
    )


def fixed(subject: Document, version: str) -> Document:
    """The config after every edit that its errors offer."""
    edits = {(section, key): value for found in problems_of(subject, version) for section, key, value in found.fix}
    return subject.with_values(edits)


def with_options(**options: Any) -> Document:
    return new_document({"model": {"model_path": "m"}, "engine": options})


def engine_of(subject: Document) -> Settings:
    return dict(subject.content.get("engine", {}))


REWRITTEN: list[tuple[str, Settings, Settings]] = [
    ("0.13.0", {"task": "embed"}, {"runner": "pooling", "convert": "embed"}),
    ("0.13.0", {"task": "score"}, {"runner": "pooling"}),
    ("0.13.0", {"task": "transcription"}, {"runner": "generate"}),
    ("0.13.0", {"task": "auto"}, {}),
    ("0.13.0", {"cuda_graph_sizes": [1, 2, 4]}, {"cudagraph_capture_sizes": [1, 2, 4]}),
    ("0.13.0", {"disable_mm_preprocessor_cache": True}, {"mm_processor_cache_gb": 0}),
    ("0.13.0", {"disable_mm_preprocessor_cache": False}, {}),
    ("0.13.0", {"enable_multimodal_encoder_data_parallel": True}, {"mm_encoder_tp_mode": "data"}),
    ("0.17.0", {"disable_log_requests": True}, {}),
    ("0.17.0", {"disable_log_requests": False}, {"enable_log_requests": True}),
    ("0.10.1", {"expand_tools_even_if_tool_choice_none": False}, {"exclude_tools_when_tool_choice_none": True}),
    ("0.10.0", {"enable_reasoning": True, "reasoning_parser": "qwen3"}, {"reasoning_parser": "qwen3"}),
    ("0.12.0", {"guided_decoding_backend": "xgrammar"}, {"structured_outputs_config": {"backend": "xgrammar"}}),
    (
        "0.12.0",
        {"guided_decoding_backend": "xgrammar:no-fallback", "guided_decoding_disable_any_whitespace": True},
        {
            "structured_outputs_config": {
                "backend": "xgrammar",
                "disable_fallback": True,
                "disable_any_whitespace": True,
            }
        },
    ),
    (
        "0.12.0",
        {"eplb_window_size": 500, "eplb_step_interval": 900, "eplb_config": {"use_async": True}},
        {"eplb_config": {"use_async": True, "window_size": 500, "step_interval": 900}},
    ),
    (
        "0.8.3",
        {"speculative_model": "[ngram]", "num_speculative_tokens": 3, "ngram_prompt_lookup_max": 4},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
    ),
    (
        "0.33.0",
        {"speculative_model": "/m/draft", "num_speculative_tokens": 3},
        {"speculative_config": {"model": "/m/draft", "num_speculative_tokens": 3}},
    ),
    (
        "0.8.3",
        {"num_speculative_tokens": 3, "speculative_config": '{"method": "mtp"}'},
        {"speculative_config": {"method": "mtp", "num_speculative_tokens": 3}},
    ),
    (
        "0.11.2",
        {"rope_scaling": '{"rope_type": "yarn", "factor": 4.0}', "rope_theta": 1e6},
        {"hf_overrides": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "rope_theta": 1e6}},
    ),
    ("0.12.0", {"override_pooler_config": {"pooling_type": "CLS"}}, {"pooler_config": {"pooling_type": "CLS"}}),
    ("0.20.0", {"use_gpu_for_pooling_score": True}, {"enable_flash_late_interaction": True}),
    ("0.33.0", {"num_scheduler_steps": 8, "preemption_mode": "swap", "seed": 1}, {"seed": 1}),
]


@pytest.mark.parametrize(("version", "before", "after"), REWRITTEN, ids=[f"{v}-{'-'.join(b)}" for v, b, _ in REWRITTEN])
def test_what_took_over_from_a_removed_option_is_written(version: str, before: Settings, after: Settings) -> None:
    result = fixed(with_options(**before), version)
    assert engine_of(result) == after
    assert problems_of(result, version) == ()


ASKED: list[tuple[str, Settings]] = [
    # gone without an equivalent
    ("0.33.0", {"prompt_adapters": ["a=/a"]}),
    ("0.33.0", {"enable_prompt_adapter": True}),
    ("0.33.0", {"enable_lora_bias": True}),
    ("0.33.0", {"calculate_kv_scales": True}),
    ("0.33.0", {"logits_processor_pattern": "a.*"}),
    ("0.33.0", {"guided_decoding_disable_fallback": True}),
    ("0.10.2", {"typical_acceptance_sampler_posterior_alpha": 0.3}),
    # which of two meanings nobody knows, or where the build decides how it is written
    ("0.13.0", {"cuda_graph_sizes": [512]}),
    ("0.12.0", {"rope_theta": 1e6}),
    ("0.10.0", {"enable_reasoning": False, "reasoning_parser": "qwen3"}),
    ("0.12.0", {"override_pooler_config": {"softmax": True}}),
    # the release lost the one option before it had the other, or the other's value
    ("0.18.0", {"use_gpu_for_pooling_score": True}),
    ("0.33.0", {"task": "reward"}),
    # the config says something else already
    ("0.13.0", {"task": "embed", "runner": "generate"}),
    ("0.12.0", {"eplb_window_size": 500, "eplb_config": {"window_size": 1000}}),
    ("0.8.3", {"num_speculative_tokens": 3, "speculative_config": '{"num_speculative_tokens": 5}'}),
]


@pytest.mark.parametrize(("version", "options"), ASKED, ids=[f"{v}-{'-'.join(o)}" for v, o in ASKED])
def test_what_has_no_one_equivalent_is_left_to_a_person_and_never_dropped(version: str, options: Settings) -> None:
    subject = with_options(**options)
    assert [problem.code for problem in problems_of(subject, version)] == ["removed"]
    assert engine_of(fixed(subject, version)) == engine_of(subject)


def test_an_undecidable_option_does_not_hold_back_the_others_of_its_table() -> None:
    subject = with_options(guided_decoding_backend="guidance", guided_decoding_disable_fallback=True)
    assert engine_of(fixed(subject, "0.33.0")) == {
        "guided_decoding_disable_fallback": True,
        "structured_outputs_config": {"backend": "guidance"},
    }


def test_each_problem_alone_writes_the_whole_table() -> None:
    subject = with_options(eplb_window_size=500, eplb_step_interval=900)
    whole = {"window_size": 500, "step_interval": 900}
    fixes = [problem.fix for problem in problems_of(subject, "0.12.0")]
    assert [{key: value for _section, key, value in fix}["eplb_config"] for fix in fixes] == [whole, whole]


def test_comments_and_all_that_is_right_stay_as_they_were_written() -> None:
    text = '# chat\n[model]\nmodel_path = "m"  # ours\n[engine]\ntask = "embed"  # old\nseed = 1\n'
    assert fixed(document(text), "0.33.0").toml == (
        '# chat\n[model]\nmodel_path = "m"  # ours\n[engine]\nseed = 1\nrunner = "pooling"\nconvert = "embed"\n'
    )


def test_the_remedy_says_what_the_fix_writes() -> None:
    (problem,) = problems_of(with_options(disable_mm_preprocessor_cache=True), "0.13.0")
    assert problem.remedy == ("The cache has a size now, and 0 is off. Write mm_processor_cache_gb = 0 below [engine].")
    (problem,) = problems_of(with_options(use_gpu_for_pooling_score=True), "0.18.0")
    assert problem.remedy == "It was renamed. Remove the key if you can do without."
    (problem,) = problems_of(with_options(rope_theta=1e6), "0.33.0")
    assert problem.remedy.endswith("Use hf_overrides.")


# A value of each removed option that is likely in a config.
VALUES: dict[str, Any] = {
    "bool": True,
    "int": 8,
    "float": 0.5,
    "str": "x",
    "size": 8,
    "json": {"a": 1},
    "list[int]": [1, 2],
    "list[str]": ["a=/a"],
    "list[float]": [1.0],
}


@pytest.mark.parametrize("dest", sorted(REMOVALS))
def test_no_fix_of_a_removed_option_makes_another_problem_in_any_release(dest: str) -> None:
    history = catalogue().history(dest)
    assert history is not None
    last = catalogue().flags(history.last_in)[dest]
    value = last.choices[0] if last.choices else VALUES[last.kind]
    options = {} if dest == "swap_space" else {dest: value}
    subject = (
        new_document({"model": {"model_path": "m"}, "engine": options})
        if options
        else document('[model]\nmodel_path = "m"\n[scheduler]\nswap_space = 4\n')
    )
    lacking = [release for release in catalogue().releases if find(dest, catalogue().flags(release)) is None]
    assert lacking
    for release in lacking:
        (problem,) = (found for found in problems_of(subject, release) if found.code in ("removed", "too_new"))
        if problem.code == "removed" and problem.fix:
            assert problems_of(fixed(subject, release), release) == (), release
