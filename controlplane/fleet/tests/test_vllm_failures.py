"""Launches that cannot work, on a real vLLM: refused beforehand where that can be known, explained where it cannot.

The checks are overridden to show that the log's own words lead to the same sentence. Two fail at a time: each is an
import of vLLM long.
"""

import socket
from typing import Any

import pytest

from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.tests.vllm_world import VllmWorld, attempt_of

pytestmark = [pytest.mark.e2e, pytest.mark.vllm]

NO_MODEL: dict[str, Any] = {"model": {"model_path": "/no/such/model"}}
UNKNOWN_FLAG: dict[str, Any] = {"engine": {"no_such_flag": "1"}}
WRONG_DTYPE: dict[str, Any] = {"model": {"dtype": "int3"}}
SMALL_CACHE: dict[str, Any] = {"engine": {"kv_cache_memory_bytes": 1_000_000}}  # seven blocks of 128 tokens

WHY = "to see what vLLM says"


def has_failed(instance: Instance) -> bool:
    return instance.state == State.FAILED


@pytest.mark.parametrize(
    ("sections", "code", "words"),
    [
        (NO_MODEL, "model", "/no/such/model"),
        (UNKNOWN_FLAG, "flags", "no_such_flag"),
        (WRONG_DTYPE, "flags", "dtype"),
        (SMALL_CACHE, "memory", "does not fit"),
    ],
    ids=["model path", "unknown flag", "dtype", "cache too small"],
)
def test_what_cannot_work_is_refused_before_anything_is_started(
    vllm_world: VllmWorld, sections: dict[str, Any], code: str, words: str
) -> None:
    refused = vllm_world.launch("refused", **sections)

    vllm_world.steps(refused, until=has_failed)

    attempt = attempt_of(refused)
    assert (attempt.outcome, attempt.failure_code, attempt.launched_at) == (Attempt.Outcome.REFUSED, code, None)
    assert words in refused.reason
    assert attempt.remedy


def test_a_port_that_somebody_has_is_refused_and_the_holder_named(vllm_world: VllmWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        refused = vllm_world.launch("port", port=holder.getsockname()[1])

        vllm_world.steps(refused, until=has_failed)

    assert attempt_of(refused).failure_code == "port"
    assert "is held by pid" in refused.reason


def test_an_overridden_launch_of_a_missing_model_and_of_an_unknown_flag_is_explained(vllm_world: VllmWorld) -> None:
    no_model = vllm_world.launch("no-model", override_reason=WHY, **NO_MODEL)
    unknown_flag = vllm_world.launch("no-flag", override_reason=WHY, **UNKNOWN_FLAG)

    vllm_world.steps(no_model, unknown_flag, until=has_failed)

    model, flag = attempt_of(no_model), attempt_of(unknown_flag)
    assert (model.outcome, model.exit_code, model.failure_code) == ("failed", 1, "model_path_missing")
    assert (
        no_model.reason == "There is no model at /no/such/model on this host (and it is not a repository name either)."
    )
    assert (flag.outcome, flag.exit_code, flag.failure_code) == ("failed", 2, "unknown_flag")
    assert unknown_flag.reason == "This vLLM does not know --no-such-flag."
    assert [fix["label"] for fix in flag.fixes] == ["remove no_such_flag"]
    assert {check["outcome"] for check in flag.preflight if check["code"] == "flags"} == {"fail"}
    assert flag.failure_line_number


def test_an_overridden_launch_with_a_wrong_dtype_and_with_too_small_a_cache_is_explained(vllm_world: VllmWorld) -> None:
    wrong_dtype = vllm_world.launch("dtype", override_reason=WHY, **WRONG_DTYPE)
    small_cache = vllm_world.launch("cache", override_reason=WHY, **SMALL_CACHE)

    vllm_world.steps(wrong_dtype, small_cache, until=has_failed)

    dtype, cache = attempt_of(wrong_dtype), attempt_of(small_cache)
    assert (dtype.exit_code, dtype.failure_code) == (2, "invalid_choice")
    assert wrong_dtype.reason == "--dtype does not take 'int3'."
    assert (cache.exit_code, cache.failure_code) == (1, "kv_cache_too_small")
    assert small_cache.reason.startswith("The KV cache is too small for one request of max_model_len 2048")
    assert {"max_model_len", "kv_cache_memory_bytes"} <= {fix["key"] for fix in cache.fixes}


def test_a_port_taken_while_vllm_starts_is_explained(vllm_world: VllmWorld) -> None:
    late = vllm_world.launch("late-port")
    vllm_world.steps(late, until=lambda one: one.state == State.STARTING)

    with socket.create_server(("127.0.0.1", late.port)):
        vllm_world.steps(late, until=has_failed)

    assert attempt_of(late).failure_code == "port_in_use"
    assert late.reason == f"Port {late.port} is already taken by another process on the host."
