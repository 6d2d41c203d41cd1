"""Declared and running command lines, compared for every argument."""

import pytest

from controlplane.fleet.domain.drift import Difference, arguments, differences

DECLARED = [
    *("vllm", "serve", "/data/m", "--port", "8000", "--tensor-parallel-size", "2"),
    *("--max-model-len", "8192", "--enable-prefix-caching"),
]


@pytest.mark.parametrize(
    "running",
    [
        "vllm serve /data/m --enable-prefix-caching --max-model-len 8192 --tensor-parallel-size 2 --port 8000",
        "vllm serve --enable-prefix-caching /data/m -tp 2 --port=8000 --max_model_len 8192.0",
        "vllm serve --model /data/m --port=8000 --tensor_parallel_size=2 --max-model-len=8K --enable_prefix_caching",
        "/opt/python3 /opt/bin/vllm serve /data/m --port 8000 -tp=2 --max-model-len 8K --enable-prefix-caching",
        "python3 -m vllm.entrypoints.openai.api_server --model /data/m --port 8000 -tp 2 --max-model-len 8192 "
        "--enable-prefix-caching",
    ],
)
def test_order_and_spelling_make_no_difference(running: str) -> None:
    assert differences(DECLARED, running.split()) == ()


def test_every_kind_of_difference_is_named() -> None:
    running = [
        *("vllm", "serve", "/data/other", "--port", "8000", "--max-model-len", "4096"),
        *("--no-enable-prefix-caching", "--seed", "1"),
    ]
    assert differences(DECLARED, running) == (
        Difference("enable_prefix_caching", "true", "false"),
        Difference("max_model_len", "8192", "4096"),
        Difference("model", "/data/m", "/data/other"),
        Difference("seed", None, "1"),
        Difference("tensor_parallel_size", "2", None),
    )


def test_json_values_are_compared_by_content() -> None:
    left = ["vllm", "serve", "m", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}']
    right = ["vllm", "serve", "m", "--speculative-config", '{"num_speculative_tokens":3,"method":"ngram"}']
    assert differences(left, right) == ()


def test_a_name_list_keeps_its_order() -> None:
    left, right = ["serve", "m", "--served-model-name", "a", "b"], ["serve", "m", "--served-model-name", "b", "a"]
    assert differences(left, right) == (Difference("served_model_name", "a, b", "b, a"),)


def test_the_catalogues_aliases_can_be_added_and_internal_ports_left_out() -> None:
    left, right = (
        ["serve", "m", "--gmu", "0.9"],
        ["serve", "m", "--gpu-memory-utilization", "0.9", "--master-port", "7"],
    )
    assert differences(left, right, aliases={"--gmu": "gpu_memory_utilization"}, ignored=["master_port"]) == ()


def test_a_key_that_differs_is_named_and_not_shown() -> None:
    found = differences(["serve", "m", "--api-key", "one-secret"], ["serve", "m", "--api-key", "another-secret"])
    assert found == (Difference("api_key", "•••", "•••"),)


def test_negative_numbers_are_values() -> None:
    assert arguments(["serve", "m", "--max-model-len", "-1"])["max_model_len"] == "-1"
