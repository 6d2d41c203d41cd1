"""The real failures of vLLM 0.32: the right cause, the right line, the right sentence, the right change."""

import json
from pathlib import Path

import pytest

from controlplane.fleet.domain.diagnosis import Diagnosis, Gpu, explain, scene_of
from controlplane.fleet.domain.failures import RULES
from controlplane.fleet.domain.failures.rule import GpuProcess
from controlplane.fleet.domain.json_forms import fixes_as_json
from controlplane.fleet.domain.texts import GIB
from controlplane.fleet.tests.log_samples import DATA, diagnose, sample

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."

SAMPLES = [
    ("bad-dtype-choice", 2, "invalid_choice", 3, "--dtype does not take 'int3'.", "remove dtype"),
    ("bad-flag", 2, "unknown_flag", 5, "This vLLM does not know --no-such-flag.", "remove no_such_flag"),
    (
        "swap-space",
        2,
        "unknown_flag",
        5,
        "This vLLM does not know --swap-space. It was removed in vLLM 0.18.0. It had no effect on the V1 engine, which "
        "recomputes instead of swapping to the CPU.",
        "remove swap_space",
    ),
    (
        "bad-quantization",
        1,
        "quantization_config_missing",
        51,
        "quantization says awq, but the model's weights are not quantised that way: it has no awq config.",
        "remove quantization",
    ),
    (
        "invalid-model-path",
        1,
        "model_path_missing",
        52,
        "There is no model at /nope/model on this host (and it is not a repository name either).",
        None,
    ),
    (
        "invalid-repo-id",
        1,
        "model_not_cached",
        62,
        "some-org/some-model is not on this host, and it may not be downloaded (offline mode).",
        None,
    ),
    (
        "kv-space-too-big",
        1,
        "cpu_memory_short",
        54,
        "The KV cache was given 400.0 GiB, but memory node 0 has 18.57 of 23.54 GiB free.",
        "lower kv_cache_memory_bytes to 16G",
    ),
    (
        "kv-too-small",
        1,
        "kv_cache_too_small",
        71,
        "The KV cache is too small for one request of max_model_len 2048: it has room for 768 tokens.",
        "lower max_model_len to 768",
    ),
    (
        "mbt-lt-mml-nochunk",
        1,
        "budget_below_context",
        52,
        "max_num_batched_tokens (512) is below max_model_len (2048) while chunked prefill is off, so a long prompt "
        "could never run.",
        "set enable_chunked_prefill to true",
    ),
    (
        "mbt-lt-seqs",
        1,
        "budget_below_sequences",
        52,
        "max_num_batched_tokens (16) is below max_num_seqs (64): each running request needs one token a step.",
        "raise max_num_batched_tokens to 64",
    ),
    (
        "mml-gt-model",
        1,
        "context_above_model",
        53,
        "max_model_len 100000 is longer than the 2048 tokens the model was made for.",
        "lower max_model_len to 2,048",
    ),
    ("no-tokenizer", 1, "tokenizer_missing", 83, "The model directory has no tokenizer that can be loaded.", None),
    ("port-in-use", 1, "port_in_use", 38, "Port 18001 is already taken by another process on the host.", None),
    (
        "tp2",
        1,
        "cpu_nodes_too_few",
        55,
        "tensor_parallel_size asks for 2 CPU workers, each on its own memory node, and the host has only [0].",
        "lower tensor_parallel_size to 1",
    ),
    ("truncated-weights", 1, "weights_damaged", 104, "A weight file is damaged or was not copied to its end.", None),
    (
        "unknown-arch",
        1,
        "architecture_unknown",
        52,
        "This vLLM does not know the model architecture NoSuchForCausalLM.",
        None,
    ),
]


@pytest.mark.parametrize(("name", "exit_code", "code", "line", "sentence", "fix"), SAMPLES, ids=[s[0] for s in SAMPLES])
def test_each_real_failed_start_is_explained(
    name: str, exit_code: int, code: str, line: int, sentence: str, fix: str | None
) -> None:
    text = sample(f"{name}.full.log")
    found = diagnose(text, exit_code)
    assert (found.code, found.line_number, found.sentence) == (code, line, sentence)
    assert found.evidence_line[:60] in text.split("\n")[line - 1]
    assert found.remedy
    assert fix is None or fix in [each.label for each in found.fixes]


def test_no_real_sample_is_left_out() -> None:
    assert {path.name.removesuffix(".full.log") for path in (DATA / "logs").glob("*.full.log")} == {
        s[0] for s in SAMPLES
    }


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("kill-sigkill-engine.log", "engine_died"),
        ("kill-sigkill-worker.log", "worker_died"),
        ("illegal-instruction.log", "illegal_instruction"),
        ("kill-group-sigterm-inflight.log", "terminated"),
        ("kill-sigterm-inflight-then-2nd-sigterm.log", "terminated"),
        ("sigterm-drain-timeout30.log", "terminated"),
        ("sigterm-inflight-hang.log", "terminated"),
        ("sigterm-inflight-hang-2.log", "terminated"),
    ],
)
def test_exit_code_0_without_a_stop_is_a_failure_and_with_one_is_none(name: str, code: str) -> None:
    found = diagnose(sample(name), 0)
    assert (found.code, found.is_failure) == (code, True)
    asked = explain(log_text=sample(name), exit_code=0, stop_requested=True)
    assert (asked.code, asked.is_failure) == ("stopped", False)


@pytest.mark.parametrize(
    ("worker_exit_code", "code"),
    [("None", "worker_died"), ("-9", "worker_died"), ("-4", "illegal_instruction"), ("-7", "native_crash")],
)
def test_how_a_worker_ended_tells_what_ended_it(worker_exit_code: str, code: str) -> None:
    log = (
        "(EngineCore pid=1) ERROR 11-29 17:12:01 [multiproc_executor.py:315] Worker proc VllmWorker-0 died "
        f"unexpectedly (exit code: {worker_exit_code}), shutting down executor."
    )
    assert diagnose(log, 0).code == code


@pytest.mark.parametrize("exit_code", [None, 0, 1, -9, 137, 143])
def test_a_stop_that_was_asked_for_is_never_a_failure(exit_code: int | None) -> None:
    log = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    assert not explain(log_text=log, exit_code=exit_code, stop_requested=True).is_failure


@pytest.mark.parametrize(
    ("exit_code", "signal"), [(-9, "9"), (137, "9"), (143, "15"), (139, "11"), (-6, "6"), (-31, "31")]
)
def test_a_signal_is_named_when_the_log_names_no_cause(exit_code: int, signal: str) -> None:
    found = diagnose("INFO 01-01 00:00:00 [a.py:1] Loading weights took 3.0 seconds", exit_code)
    assert (found.code, found.params["signal"]) == ("killed", signal)
    assert "after the weights" in found.sentence


def test_a_cause_in_the_log_is_told_before_the_signal() -> None:
    assert diagnose("torch.OutOfMemoryError: CUDA out of memory.", -9).code == "oom_loading"


def test_errors_before_the_server_was_up_do_not_explain_its_end() -> None:
    log = "OSError: [Errno 98] Address already in use\nINFO:     Application startup complete.\nbye\n"
    assert diagnose(log, 1).code == "unknown"


def test_warnings_and_deprecations_are_passed_over() -> None:
    log = (
        "(APIServer pid=9) WARNING 11-29 12:19:08 [u.py:1] This can cause fd limit errors like `OSError: [Errno 24] "
        "Too many open files`.\nWARNING 11-29 12:19:08 [u.py:1] --swap-space is deprecated: "
        "PermissionError\nRuntimeError: odd\n"
    )
    found = diagnose(log)
    assert (found.code, found.evidence_line) == ("unknown", "RuntimeError: odd")


def test_an_unknown_failure_shows_the_first_error_of_an_inner_process_and_says_so() -> None:
    log = (
        "(APIServer pid=1) ERROR 11-29 12:00:00 [a.py:1] something vague\n"
        "(EngineCore pid=2) ERROR 11-29 12:00:01 [core.py:1] EngineCore failed to start.\n"
        "(EngineCore pid=2) ERROR 11-29 12:00:01 [core.py:1] FrobnicationError: out of frobs\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    found = diagnose(log)
    assert (found.code, found.line_number) == ("unknown", 3)
    assert found.evidence_line == "FrobnicationError: out of frobs"
    assert "no known cause" in found.sentence


def test_a_log_without_its_beginning_is_explained_by_what_a_wrapper_repeats() -> None:
    log = (
        "RuntimeError: Worker failed with error 'Available memory on node 0 (18.57/23.54 GiB) on kv cache allocation "
        "is less than requested memory for kv (400.0 GiB).', please check the stack trace above for the root cause\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    assert diagnose(log).code == "cpu_memory_short"


def test_running_out_of_memory_in_the_trial_run_is_told_by_its_frames_alone() -> None:
    log = 'Traceback (most recent call last):\n  File "x.py", line 1, in profile_run\n' + OUT_OF_MEMORY
    assert diagnose(log).code == "oom_profiling"


def test_an_empty_log_is_explained_without_a_line() -> None:
    found = diagnose("", 1)
    assert (found.code, found.line_number, found.evidence_line) == ("unknown", None, "")
    assert "exit code 1" in found.sentence


def test_a_launch_that_took_too_long_names_the_step_it_hung_in() -> None:
    log = "INFO 01-01 00:00:00 [a.py:1] GPU KV cache size: 5,000 tokens\nINFO 01-01 00:00:01 [a.py:1] Warming up\n"
    found = diagnose(log, None, timed_out_after_s=600.0)
    assert found.code == "launch_timeout"
    assert found.sentence == (
        "The server did not get ready within 600 s; it was stopped in warm-up, after the KV cache was made."
    )
    assert found.evidence_line == "Warming up"


@pytest.mark.parametrize(
    "message",
    [
        "TimeoutError: Timed out waiting for engines to sendinitial message on input socket.",
        "TimeoutError: Timed out waiting for engines to send initial message on input socket.",
        "TimeoutError: Timed out waiting for engine core processes to start. Waited 600s (configured by X).",
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
    ],
)
def test_vllms_own_start_limit_is_known_in_every_release(message: str) -> None:
    assert diagnose(message).code == "start_timeout"


def test_the_missing_estimate_of_0_8_5_is_computed() -> None:
    log = (
        "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 "
        "GiB KV cache is needed, "
        "which is larger than the available KV cache memory (2.00 GiB). Based on the available memory, Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )
    content = {"model": {"gpu_memory_utilization": 0.85, "tensor_parallel_size": 1}}
    gpus = [Gpu("GPU-1", 80 * GIB, 0), Gpu("GPU-2", 80 * GIB, 0)]
    labels = [fix.label for fix in diagnose(log, content=content, gpus=gpus).fixes]
    assert labels == [
        "lower max_model_len to 16,320",
        "raise gpu_memory_utilization to 0.88",
        "raise tensor_parallel_size to 2",
    ]


def test_the_gb_of_0_8_0_is_understood_too() -> None:
    log = (
        "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GB KV cache is needed, "
        "which is larger than the available KV cache memory (2.00 GB). Try increasing `gpu_memory_utilization`"
    )
    assert diagnose(log).fixes[0].label == "lower max_model_len to 16,320"


def test_a_full_card_names_who_holds_it() -> None:
    log = (
        "ValueError: Free memory on device cuda:0 (1.53/22.05 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 19.84 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    holder = GpuProcess(4242, 20 * GIB, "op", "VLLM::EngineCore", is_ours=False)
    found = diagnose(log, gpus=[Gpu("GPU-1", 22 * GIB, 20 * GIB, processes=(holder,))])
    assert found.code == "gpu_occupied"
    assert "pid 4242 (op VLLM::EngineCore, 20.00 GiB, not ours)" in found.sentence
    assert found.fixes == ()


def test_out_of_memory_while_loading_never_proposes_lower_utilisation() -> None:
    found = diagnose("torch.OutOfMemoryError: CUDA out of memory.", gpus=[Gpu(f"GPU-{n}", GIB, 0) for n in range(4)])
    assert [fix.label for fix in found.fixes] == ["raise tensor_parallel_size to 2"]
    assert "cannot help" in found.remedy


def test_an_inner_port_that_is_taken_is_told_from_the_http_port() -> None:
    log = "(EngineCore_DP0 pid=7) ERROR 11-29 12:00:00 [core.py:1] OSError: [Errno 98] Address already in use"
    assert diagnose(log).code == "internal_port_in_use"


def unknown_flags(flags: str, **engine: object) -> Diagnosis:
    return diagnose(f"vllm: error: unrecognized arguments: {flags}", 2, content={"engine": engine})


def test_a_removed_flag_is_replaced_by_what_took_over() -> None:
    found = unknown_flags("--task embed", task="embed")
    assert found.sentence == (
        "This vLLM does not know --task. It was removed in vLLM 0.13.0. It was split into runner (generate or pooling) "
        "and convert."
    )
    assert fixes_as_json(found.fixes) == [
        {
            "label": 'replace task by runner = "pooling", convert = "embed"',
            "verb": "replace",
            "section": "engine",
            "key": "task",
            "value": None,
            "also": [
                {"section": "engine", "key": "runner", "value": "pooling"},
                {"section": "engine", "key": "convert", "value": "embed"},
            ],
        }
    ]


def test_several_removed_flags_are_each_named_and_share_their_table() -> None:
    found = unknown_flags(
        "--eplb-window-size 5 --no-such-flag --eplb-step-interval=9", eplb_window_size=5, eplb_step_interval=9
    )
    assert found.sentence == (
        "This vLLM does not know --eplb-window-size, --no-such-flag, --eplb-step-interval. "
        "--eplb-window-size was removed in vLLM 0.12.0. The single eplb_ options are one table now. "
        "--eplb-step-interval was removed in vLLM 0.12.0. The single eplb_ options are one table now."
    )
    table = "eplb_config = { window_size = 5, step_interval = 9 }"
    assert [fix.label for fix in found.fixes] == [
        f"replace eplb_window_size by {table}",
        "remove no_such_flag",
        f"replace eplb_step_interval by {table}",
    ]


@pytest.mark.parametrize(
    ("flags", "engine"),
    [
        ("--task=embed", {}),  # not in the config: something else added it
        ("--rope-theta 1000000", {"rope_theta": 1e6}),  # how it is written depends on the build
        ("--guided-decoding-disable-fallback", {"guided_decoding_disable_fallback": True}),  # until 0.17.1 only
        ("--num-scheduler-steps 8", {"num_scheduler_steps": 8}),  # nothing takes its place
    ],
)
def test_a_removed_flag_without_a_certain_successor_can_only_be_taken_out(
    flags: str, engine: dict[str, object]
) -> None:
    assert [fix.verb for fix in unknown_flags(flags, **engine).fixes] == ["remove"]


def test_keys_do_not_get_into_a_diagnosis() -> None:
    found = diagnose("vllm serve: error: unrecognized arguments: --api-key sk-very-secret-key --foo", 2)
    assert "very-secret" not in repr(found)


CASES = json.loads((DATA / "failure_cases.json").read_text())


@pytest.mark.parametrize("case", CASES["cases"], ids=[f"{case['id']}-{case['code']}" for case in CASES["cases"]])
def test_failures_from_public_threads_get_their_code(case: dict[str, object]) -> None:
    log = "\n".join(case["log"])  # type: ignore[arg-type]
    found = diagnose(log, case["exit_code"])  # type: ignore[arg-type]
    assert found.code == case["code"]
    assert found.sentence
    assert found.remedy
    assert case.get("fix") is None or case["fix"] in [fix.label for fix in found.fixes]
    assert str(case.get("remedy", "")) in found.remedy


EXCUSED = CASES["not_a_failed_start"]


@pytest.mark.parametrize("number", [number for number, case in EXCUSED.items() if "log" in case])
def test_no_rule_fires_on_what_a_case_that_is_no_failed_start_writes(number: str) -> None:
    scene = scene_of("\n".join(EXCUSED[number]["log"]))
    fired = [rule.code for index in range(len(scene.lines)) for rule in RULES if rule.match(scene, index)]
    assert fired == []


def test_every_case_is_either_covered_or_says_why_not() -> None:
    covered = {case["id"] for case in CASES["cases"]}
    excused = {int(number) for number, case in EXCUSED.items() if case["why"]}
    assert not covered & excused
    assert len(covered | excused) == 135
    page = (Path(__file__).parents[3] / "docs" / "reference" / "failures.md").read_text()
    assert f"Of 135 failures collected from public threads {len(covered)} are" in " ".join(page.split())
    assert f"the other {len(excused)} are" in " ".join(page.split())


def test_every_rule_can_be_rendered_with_what_its_pattern_gives() -> None:
    """A template that names a group the rule does not deliver would break the failure page, of all pages."""
    for rule in RULES:
        assert rule.template
        assert rule.remedy
        names = {part.split("}")[0] for part in (rule.template + rule.remedy).replace("{{", "").split("{")[1:]}
        groups = set(rule.pattern.groupindex)
        assert names <= groups or rule.params.__name__ != "_no_params", (rule.code, names - groups)


def test_the_reference_page_says_what_the_rules_say() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "failures.md").read_text()
    for code in ("stopped", "launch_timeout", "killed", "exited", "unknown"):
        assert f"| `{code}` |" in page
    for rule in RULES:
        template, remedy = (
            text.replace("|", "\\|").replace("{{", "{").replace("}}", "}") for text in (rule.template, rule.remedy)
        )
        assert f"| `{rule.code}` | {template} | {remedy} |" in page
