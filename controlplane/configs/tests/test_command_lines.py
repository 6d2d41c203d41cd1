"""A config becomes a command line in one place, to the letter."""

from typing import Any

import pytest

from controlplane.configs.domain.argv import (
    CannotRenderError,
    Content,
    Managed,
    SecretRef,
    command_line,
    environment,
    render,
    variables,
)
from controlplane.configs.domain.catalogue import catalogue

from .samples import operator_document

MODEL: dict[str, Any] = {"model_path": "org/model"}


def rendered(engine: dict[str, Any], version: str = "0.33.0") -> list[str]:
    argv = render({"model": MODEL, "engine": engine}, flags=catalogue().flags(version), managed=Managed())
    assert argv[:2] == ["serve", "org/model"]
    return argv[2:]


@pytest.mark.parametrize("version", ["0.8.5", "0.17.1"])
def test_the_operators_file_to_the_letter(version: str) -> None:
    content = operator_document().content
    assert render(content, flags=catalogue().flags(version), managed=Managed()) == [
        "serve",
        "/data/models/Qwen2.5-32B-Instruct",
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
        "--served-model-name",
        "qwen2.5-32b-instruct",
        "--tokenizer",
        "/data/models/Qwen2.5-32B-Instruct",
        "--dtype",
        "auto",
        "--quantization",
        "awq",
        "--max-model-len",
        "8192",
        "--gpu-memory-utilization",
        "0.9",
        "--tensor-parallel-size",
        "2",
        "--trust-remote-code",
        "--max-num-seqs",
        "128",
        "--max-num-batched-tokens",
        "8192",
        "--enable-chunked-prefill",
        "--enable-prefix-caching",
        "--scheduling-policy",
        "fcfs",
        "--swap-space",
        "8",
    ]


def test_an_option_that_this_vllm_lacks_is_never_rendered() -> None:
    with pytest.raises(CannotRenderError, match="This vLLM has no --swap-space"):
        render(operator_document().content, flags=catalogue().flags("0.18.1"), managed=Managed())


def test_a_config_without_a_model_is_not_rendered() -> None:
    with pytest.raises(CannotRenderError, match="names no model"):
        render({"server": {"port": 1}}, flags=catalogue().flags("0.33.0"), managed=Managed())


def test_the_launcher_decides_on_host_and_port() -> None:
    content: Content = {"server": {"host": "0.0.0.0", "port": 8000}, "model": MODEL}
    argv = render(content, flags=catalogue().flags("0.33.0"), managed=Managed(host="127.0.0.1", port=41001))
    assert argv == ["serve", "org/model", "--host", "127.0.0.1", "--port", "41001"]


@pytest.mark.parametrize(("version", "off"), [("0.33.0", ["--no-trust-remote-code"]), ("0.8.5", [])])
def test_a_switch_is_turned_off_as_the_version_can(version: str, off: list[str]) -> None:
    content: Content = {"model": {**MODEL, "trust_remote_code": False}}
    assert render(content, flags=catalogue().flags(version), managed=Managed())[2:] == off


def test_chunked_prefill_is_turned_off_as_each_version_wants() -> None:
    content: Content = {"model": MODEL, "batching": {"enable_chunked_prefill": False}}
    versions = ("0.8.0", "0.8.5", "0.32.0", "0.33.0")
    assert {v: render(content, flags=catalogue().flags(v), managed=Managed())[2:] for v in versions} == {
        "0.8.0": ["--enable-chunked-prefill", "false"],
        "0.8.5": ["--no-enable-chunked-prefill"],
        "0.32.0": ["--no-enable-chunked-prefill"],
        "0.33.0": ["--disable-chunked-prefill"],
    }


@pytest.mark.parametrize("version", catalogue().releases)
def test_every_switch_that_may_be_on_by_itself_can_be_turned_off(version: str) -> None:
    flags = catalogue().flags(version)
    by_itself = [f.dest for f in flags.values() if f.kind == "bool" and f.default is not False]
    silent = [dest for dest in by_itself if not rendered({dest: False}, version)]
    assert silent == [dest for dest in by_itself if flags[dest].only_turns_on]
    assert set(silent) <= {"use_v2_block_manager"}


@pytest.mark.parametrize(
    ("engine", "argv"),
    [
        ({"seed": 0, "enforce_eager": True}, ["--enforce-eager", "--seed", "0"]),
        ({"max-loras": 2}, ["--max-loras", "2"]),
        ({"max_num_scheduled_tokens": "8k"}, ["--max-num-scheduled-tokens", "8k"]),
        ({"cpu_offload_gb": 4.0}, ["--cpu-offload-gb", "4"]),
        ({"cpu_offload_gb": 0.5}, ["--cpu-offload-gb", "0.5"]),
        ({"speculative_config": {"n": 2, "method": "ngram"}}, ["--speculative-config", '{"method":"ngram","n":2}']),
        ({"speculative_config": '{"n": 2}'}, ["--speculative-config", '{"n": 2}']),
        ({"cudagraph_capture_sizes": [1, 2]}, ["--cudagraph-capture-sizes", "1", "2"]),
        ({"middleware": ["a.b", "c.d"]}, ["--middleware", "a.b", "--middleware", "c.d"]),
        ({"allowed_origins": ["*"]}, ["--allowed-origins", '["*"]']),
        ({"lora_modules": ["a=/b", {"name": "c"}]}, ["--lora-modules", "a=/b", '{"name":"c"}']),
        ({"hf_overrides": {"architectures": ["模型"]}}, ["--hf-overrides", '{"architectures":["模型"]}']),
        ({"hf_token": True}, ["--hf-token"]),
        ({"revision": "-x"}, ["--revision=-x"]),
        ({"async_scheduling": False}, ["--no-async-scheduling"]),
    ],
)
def test_options_below_engine_to_the_letter(engine: dict[str, Any], argv: list[str]) -> None:
    assert rendered(engine) == argv


def test_a_negative_number_cannot_be_taken_for_an_option() -> None:
    content: Content = {"model": {**MODEL, "max_model_len": -1}}
    assert render(content, flags=catalogue().flags("0.33.0"), managed=Managed())[2:] == ["--max-model-len=-1"]


def test_several_served_names_follow_one_option() -> None:
    content: Content = {"server": {"served_model_name": ["a", "b"]}, "model": MODEL}
    assert render(content, flags=catalogue().flags("0.33.0"), managed=Managed())[2:] == [
        "--served-model-name",
        "a",
        "b",
    ]


def test_what_the_control_plane_adds_is_kept_apart_and_only_where_the_version_has_it() -> None:
    managed = Managed(extra={"shutdown_timeout": 30, "enable_log_requests": False})
    line = command_line({"model": MODEL}, flags=catalogue().flags("0.18.0"), managed=managed)
    assert line.own == ("serve", "org/model")
    assert line.injected == ("--no-enable-log-requests", "--shutdown-timeout", "30")
    assert line.left_out == ()
    older = command_line({"model": MODEL}, flags=catalogue().flags("0.17.1"), managed=managed)
    assert older.injected == ("--no-enable-log-requests",)
    assert older.left_out == ("shutdown_timeout",)


def test_the_configs_own_setting_wins_over_an_added_one() -> None:
    content: Content = {"model": {**MODEL, "max_model_len": 8}, "engine": {"shutdown_timeout": 5}}
    managed = Managed(extra={"shutdown_timeout": 30, "max_model_len": 16})
    line = command_line(content, flags=catalogue().flags("0.33.0"), managed=managed)
    assert line.injected == ()
    assert line.own[2:] == ("--max-model-len", "8", "--shutdown-timeout", "5")


def test_the_key_is_a_reference_in_the_environment_and_never_an_argument() -> None:
    content = operator_document().content
    assert environment(content) == {"VLLM_API_KEY": SecretRef("prod-vllm")}
    assert str(environment(content)["VLLM_API_KEY"]) == "secret:prod-vllm"
    argv = render(content, flags=catalogue().flags("0.17.1"), managed=Managed())
    assert not [part for part in argv if "api-key" in part or "prod-vllm" in part]
    assert environment({"model": MODEL}) == {}


@pytest.mark.parametrize(
    ("model_path", "is_offline"), [("/m/qwen", True), ("~/qwen", True), ("org/model", False), (None, False)]
)
def test_every_launch_reports_no_usage_and_one_from_a_directory_asks_no_hub(
    model_path: str | None, is_offline: bool
) -> None:
    model = {} if model_path is None else {"model_path": model_path}
    expected = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    assert variables({"model": model}) == {**expected, **({"HF_HUB_OFFLINE": "1"} if is_offline else {})}
