from __future__ import annotations

import ast
import io
import json
import zipfile
from dataclasses import replace

import pytest

from controlplane.bench.domain import bundle, prompts
from controlplane.bench.domain.spec import InvalidSpec, RunSpec, parse_spec
from controlplane.bench.domain.words import WORDS
from controlplane.bench.domain.workloads import BUILT_IN, InvalidWorkload, Workload, built_in

SEED = built_in("seed-64x256")
SHARED = built_in("shared-prefix-16x64")
RECIPE_EXAMPLE = "above able left sight travel color add able all"


def texts(workload: Workload, *, seed: int = 1, role: str = prompts.MEASURED, count: int = 200) -> list[str]:
    return [prompts.prompt_text(workload, seed=seed, role=role, index=index) for index in range(count)]


def test_no_word_is_listed_twice() -> None:
    assert len(WORDS) == len(set(WORDS))


@pytest.mark.parametrize("workload", BUILT_IN, ids=lambda each: each.name)
def test_a_built_in_workload_survives_json_and_keeps_its_hash(workload: Workload) -> None:
    again = Workload.from_json(json.loads(json.dumps(workload.to_json())))
    assert again == workload
    assert again.content_hash == workload.content_hash


def test_the_hash_is_of_the_load_not_of_its_name() -> None:
    assert replace(SEED, name="other").content_hash == SEED.content_hash
    assert replace(SEED, max_tokens=128).content_hash != SEED.content_hash


def test_the_reference_load_is_64_at_once_with_256_tokens_each() -> None:
    assert (SEED.concurrency, SEED.requests, SEED.max_tokens, SEED.ignore_eos) == (64, 64, 256, True)


def test_the_same_seed_makes_the_same_bytes_and_another_seed_other_ones() -> None:
    def body(seed: int) -> bytes:
        return prompts.request_body(SEED, model="m", seed=seed, role=prompts.MEASURED, index=3)

    assert body(1) == body(1)
    assert body(1) != body(2)


def test_the_recipe_of_prompts_has_not_changed_unnoticed() -> None:
    """A change here changes every stored comparison: raise RECIPE with it."""
    assert prompts.prompt_text(replace(SEED, prompt_words=9), seed=1, role=prompts.MEASURED, index=2) == RECIPE_EXAMPLE


def test_no_two_prompts_begin_with_the_same_word_within_the_first_hundreds() -> None:
    assert len({text.split()[0] for text in texts(SEED, count=len(WORDS))}) == len(WORDS)


def test_warm_up_prompts_are_never_measured_prompts() -> None:
    assert not set(texts(SEED)) & set(texts(SEED, role=prompts.WARMUP))


def test_all_prompts_of_a_workload_are_the_same_number_of_words() -> None:
    assert {len(text.split()) for text in texts(SEED)} == {40}


def test_a_shared_prefix_is_identical_to_the_character_and_changes_with_the_seed() -> None:
    prefixes = {text.split("\n")[0] for text in texts(SHARED) + texts(SHARED, role=prompts.WARMUP)}
    assert len(prefixes) == 1
    assert len(prefixes.pop().split()) == SHARED.prefix_words
    assert texts(SHARED, seed=2)[0].split("\n")[0] != texts(SHARED)[0].split("\n")[0]
    assert len({text.split("\n")[1] for text in texts(SHARED)}) == 200


def test_words_are_fitted_to_tokens_by_a_straight_line() -> None:
    assert prompts.fit_words(1010, small=(50, 110), large=(250, 510)) == 500
    with pytest.raises(ValueError, match="cannot fit"):
        prompts.fit_words(100, small=(50, 0), large=(250, 0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"concurrency": 0}, "workload.concurrency must be a whole number of at least 1"),
        ({"kind": "open"}, "workload.kind must be one of"),
        ({"prefix_words": 5}, "prefix_words"),
        ({"max_tokens": True}, "workload.max_tokens"),
        ({"prompt_tokens": 0}, "workload.prompt_tokens"),
    ],
)
def test_a_workload_that_cannot_be_run_says_which_field(change: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidWorkload, match=said):
        Workload.from_json({**SEED.to_json(), **change})


def spec(**changes: object) -> dict[str, object]:
    made = RunSpec("http://h:8000/v1/", "m", SEED, seed=1, output_dir="out")
    return {**json.loads(json.dumps(made.to_json())), **changes}


def test_a_spec_survives_its_file() -> None:
    again = parse_spec(json.dumps(spec(gpu_uuids=["GPU-1"])))
    assert again.gpu_uuids == ("GPU-1",)
    assert again.request_url == "http://h:8000/v1/chat/completions"
    assert again.metrics_address == "http://h:8000/metrics"
    assert parse_spec(json.dumps(spec(metrics_url=""))).metrics_address is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_url": "h:8000"}, "base_url must look like"),
        ({"base_url": "http://user:secret@h"}, "no user, password"),
        ({"seed": "1"}, "seed"),
        ({"watchdog_s": 0}, "watchdog_s"),
        ({"error_budget": 2}, "error_budget"),
        ({"slo": {"tftt_ms": 1}}, "tftt_ms"),
        ({"api_key": "x"}, "unknown key api_key"),
        ({"workload": 7}, "workload must be"),
    ],
)
def test_a_spec_that_cannot_be_run_says_which_key(change: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        parse_spec(json.dumps(spec(**change)))


def test_the_zipapp_is_the_same_bytes_every_time() -> None:
    assert bundle.build_loadgen() == bundle.build_loadgen()


def test_everything_in_the_zipapp_is_syntax_of_python_3_9() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle.build_loadgen())) as archive:
        assert "controlplane/bench/loadgen/run.py" in archive.namelist()
        for name in archive.namelist():
            ast.parse(archive.read(name), filename=name, feature_version=(3, 9))
