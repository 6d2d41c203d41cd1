"""Reading a starting server's log: every release's form, any cut of the text, and a life in the database."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.fleet.domain.log_lines import parse, without_colour
from controlplane.fleet.domain.log_reading import LogReader, StartupFacts, read_whole
from controlplane.fleet.domain.texts import GB, GIB

LOGS = Path(__file__).parent / "data" / "logs"


def sample(name: str) -> str:
    return (LOGS / name).read_bytes().decode()


def test_the_real_cpu_log_gives_all_it_says() -> None:
    facts = read_whole(sample("startup.log"))
    assert facts.vllm_version == "0.32.0"
    assert facts.kv_cache_tokens == 1_048_576
    assert facts.max_concurrency == 512.0
    assert facts.max_model_len_seen == 2048
    assert facts.available_kv_bytes == GIB
    assert facts.weights_s == 0.06
    assert facts.weights_bytes is None, "the CPU build prints no size"
    assert facts.init_engine_s == 102.89
    assert facts.is_eager is False
    assert facts.listening_url == "http://127.0.0.1:18000"
    assert facts.startup_complete
    assert facts.engine_config_line is not None
    assert facts.engine_config_line.startswith("Initializing a V1 LLM engine (v0.32.0)")


def test_the_steps_of_the_real_log_carry_line_and_time() -> None:
    steps = read_whole(sample("startup.log")).steps
    assert [(step.name, step.seconds) for step in steps] == [
        ("started", 0.0),
        ("weights", 74.0),
        ("kv_cache", 184.0),
        ("listening", 189.0),
    ]
    lines = sample("startup.log").split("\n")
    assert "Loading weights took" in lines[steps[1].at_line - 1]
    assert "KV cache size" in lines[steps[2].at_line - 1]
    assert "Application startup complete" in lines[steps[3].at_line - 1]


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        # 0.8.0 to 0.27
        ("INFO 03-20 11:02:03 [kv_cache_utils.py:537] GPU KV cache size: 230,528 tokens", "kv_cache_tokens", 230_528),
        (
            "INFO 03-20 11:02:03 [kv_cache_utils.py:540] Maximum concurrency for 100,000 tokens per request: 2.31x",
            "max_concurrency",
            2.31,
        ),
        # 0.28 to 0.32: one line; 0.33: a device or pool name; CPU builds
        (
            "(EngineCore pid=7) INFO 11-29 11:54:34 [kv_cache_utils.py:2327] GPU KV cache size: 65,536 tokens, "
            "Maximum concurrency for 2,048 tokens per request: 32.00x",
            "max_concurrency",
            32.0,
        ),
        ("INFO 11-29 11:54:34 [x.py:1] cuda:0 KV cache size: 512 tokens, Maximum", "kv_cache_tokens", 512),
        ("INFO 11-29 11:54:34 [x.py:1] pool 0 (full) KV cache size: 512 tokens, Maximum", "kv_cache_tokens", 512),
        ("INFO 11-29 11:54:34 [x.py:1] CPU KV cache size: 65,536 tokens, Maximum", "kv_cache_tokens", 65_536),
        # V0, to 0.10
        (
            "INFO 03-25 21:32:48 [executor_base.py:108] # CUDA blocks: 2356, # CPU blocks: 2048",
            "kv_cache_tokens",
            37_696,
        ),
        ("INFO 03-25 21:32:48 executor_base.py:108] # GPU blocks: 2356, # CPU blocks: 2048", "kv_blocks", 2356),
        # weights: GB in 0.8.0, GiB from 0.8.5, "memory" from 0.11
        ("INFO 03-20 1:1 Model loading took 14.2487 GB and 5.123456 seconds", "weights_bytes", round(14.2487 * GB)),
        ("INFO 03-20 1:1 Model loading took 14.2487 GiB and 5.123456 seconds", "weights_bytes", round(14.2487 * GIB)),
        ("INFO 03-20 1:1 Model loading took 14.25 GiB memory and 5.5 seconds", "weights_s", 5.5),
        ("INFO 03-20 1:1 Loading model weights took 14.9888 GB", "weights_bytes", round(14.9888 * GB)),
        ("INFO Available KV cache memory: 53.29 GiB", "available_kv_bytes", round(53.29 * GIB)),
        ("INFO Available KV cache memory: -0.22 GiB", "available_kv_bytes", round(-0.22 * GIB)),
        ("INFO Graph capturing finished in 21 secs, took 0.53 GiB", "graph_bytes", round(0.53 * GIB)),
        ("INFO Graph capturing finished in 21 secs, took 0.53 GiB", "graph_capture_s", 21.0),
        ("INFO init engine (profile, create kv cache, warmup model) took 40.58 seconds", "init_engine_s", 40.58),
        (
            "INFO init engine (profile, create kv cache, warmup model) took 40.58 s (compilation: 9 s)",
            "init_engine_s",
            40.58,
        ),
        ("INFO vLLM API server version 0.8.5.post1", "vllm_version", "0.8.5.post1"),
        (
            "INFO Initializing a V1 LLM engine (v0.11.0) with config: model='x', max_seq_len=8192",
            "vllm_version",
            "0.11.0",
        ),
        ("INFO Initializing a V1 LLM engine (v0.11.0) with config: max_seq_len=8192,", "max_model_len_seen", 8192),
        ("INFO Starting vLLM API server on http://0.0.0.0:8000", "listening_url", "http://0.0.0.0:8000"),
        ("INFO Starting vLLM API server 0 on http://0.0.0.0:8000", "listening_url", "http://0.0.0.0:8000"),
        ("INFO Starting vLLM server on http://0.0.0.0:8000", "listening_url", "http://0.0.0.0:8000"),
        ("INFO:     Application startup complete.", "startup_complete", True),
    ],
)
def test_every_release_is_understood(line: str, field: str, value: object) -> None:
    assert getattr(read_whole(line + "\n"), field) == value


def test_v0_blocks_are_multiplied_by_the_block_size_that_was_asked_for() -> None:
    log = "INFO args: Namespace(model='x', block_size=32, port=8000)\nINFO # cuda blocks: 100, # CPU blocks: 2048\n"
    assert read_whole(log).kv_cache_tokens == 3200


def test_of_several_workers_the_largest_weights_and_the_smallest_cache_count() -> None:
    log = "".join(
        f"(Worker_TP{rank} pid={rank}) INFO 11-29 11:54:3{rank} [x.py:1] Model loading took {size} GiB and 9 seconds\n"
        f"(EngineCore_DP{rank} pid={rank}) INFO 11-29 11:54:3{rank} [x.py:1] GPU KV cache size: {tokens} tokens\n"
        for rank, size, tokens in ((0, 3.75, "1,600"), (1, 3.5, "2,000"))
    )
    facts = read_whole(log)
    assert facts.weights_bytes == round(3.75 * GIB)
    assert facts.kv_cache_tokens == 1600


# No deadline: the machine is shared, and what is tested is not speed.
@settings(deadline=None, max_examples=40)
@given(cuts=st.lists(st.integers(0, 24_000), max_size=12))
def test_any_cut_of_the_log_and_any_stay_in_the_database_gives_the_same_facts(cuts: list[int]) -> None:
    text = sample("startup-and-load-eager.log")[:24_000]
    reader, at = LogReader(), 0
    for cut in [*sorted(cuts), len(text)]:
        reader.feed(text[at:cut])
        reader = LogReader.from_state(json.loads(json.dumps(reader.to_state())))
        at = cut
    reader.finish()
    assert reader.facts == read_whole(text)
    assert reader.line_number == len(text.rstrip("\n").split("\n"))


def test_a_key_never_gets_into_the_saved_state_not_even_half_of_it() -> None:
    reader = LogReader()
    reader.feed("INFO args: Namespace(api_key='topsecr")
    state = json.dumps(reader.to_state())
    assert "topsecr" not in state
    later = LogReader.from_state(json.loads(state))
    lines = later.feed("et-rest', port=8000)\nINFO Starting vLLM server on http://x:1\n")
    assert "et-rest" not in "".join(line.text for line in lines)
    assert later.facts.listening_url == "http://x:1"


def test_the_rest_of_a_cut_key_is_not_read_either() -> None:
    reader = LogReader()
    reader.feed("INFO key sk-abcdefgh1")
    later = LogReader.from_state(reader.to_state())
    assert not later.feed("2345")
    assert "2345" not in later.feed("2345\nINFO on\n")[0].text


def test_traffic_after_startup_changes_nothing() -> None:
    reader = LogReader()
    reader.feed("INFO:     Application startup complete.\n")
    reader.feed("INFO GPU KV cache size: 12 tokens\n")
    assert reader.facts.kv_cache_tokens is None


def test_a_start_over_midnight_and_over_new_year_counts_on() -> None:
    log = "INFO 12-31 23:59:50 [a.py:1] hello\nINFO 01-01 00:00:20 [a.py:1] GPU KV cache size: 12 tokens\n"
    assert read_whole(log).steps[-1].seconds == 30.0


def test_a_state_of_an_older_release_is_read_with_defaults() -> None:
    reader = LogReader.from_state({"facts": {"kv_cache_tokens": 5, "gone": 1}})
    assert reader.facts == StartupFacts(kv_cache_tokens=5)


@pytest.mark.parametrize(
    ("raw", "process", "level", "message"),
    [
        ("ERROR 03-20 11:02:03 [core.py:343] boom", "", "error", "boom"),
        ("ERROR 03-20 11:02:03 engine.py:387] boom", "", "error", "boom"),
        ("(VllmWorker rank=1 pid=71) ERROR 03-20 11:02:03 [x.py:1] boom", "VllmWorker-1", "error", "boom"),
        ("\x1b[1;36m(EngineCore_DP0 pid=71)\x1b[0;0m INFO 03-20 11:02:03 [x.py:1] hi", "EngineCore_DP0", "info", "hi"),
        ("(APIServer pid=1) (Worker_TP0 pid=72) WARNING 03-20 11:02:03 [x.py:1] hm", "Worker_TP0", "warning", "hm"),
        ("(RayWorkerWrapper pid=9, ip=10.0.0.2) DEBUG 03-20 11:02:03 [x.py:1] d", "RayWorkerWrapper", "debug", "d"),
        ("CRITICAL 02-20 11:02:03 launcher.py:104] dead", "", "error", "dead"),
        ("INFO:     Application startup complete.", "", "info", "Application startup complete."),
        ("W1129 12:18:49.043000 822 torch/_library/triton.py:53] Triton not available", "", "warning", None),
        ("vllm serve: error: argument --dtype: invalid choice", "", "error", None),
        ("OSError: [Errno 98] Address already in use", "", "error", None),
        ("/opt/x.py:138: FutureWarning: old", "", "warning", None),
        ("", "", "info", ""),
    ],
)
def test_a_line_is_taken_apart(raw: str, process: str, level: str, message: str | None) -> None:
    line = parse(raw)
    assert (line.process, line.level) == (process, level)
    if message is not None:
        assert line.message == message


def test_the_frames_of_a_traceback_are_errors_and_what_follows_is_not() -> None:
    levels = [
        line.level
        for line in LogReader().feed(
            'Traceback (most recent call last):\n  File "x.py", line 1\n    boom()\n'
            "ValueError: no\nINFO 01-01 00:00:00 [a.py:1] x\n"
        )
    ]
    assert levels == ["error", "error", "error", "error", "info"]


def test_of_a_redrawn_progress_line_the_last_drawing_is_kept() -> None:
    assert without_colour("Loading:   0%\rLoading:  50%\rLoading: 100%") == "Loading: 100%"
