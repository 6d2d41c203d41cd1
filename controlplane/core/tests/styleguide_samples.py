"""Sample data of templates/styleguide.html: every component full, empty and failing."""

import math
from datetime import datetime, timedelta
from typing import Any

from controlplane.core.paging import Page
from controlplane.core.templatetags.figures import common_scale
from controlplane.core.templatetags.states import LOOKS

GIB = 1024**3
LOG = """\
INFO 11-29 13:20:19 [api_server.py:1977] vLLM API server version 0.32.0
INFO 11-29 13:20:21 [model.py:531] Resolved architecture: Qwen2ForCausalLM
WARNING 11-29 13:20:24 [cache.py:214] Possibly too large swap space. 8.00 GiB out of the 15.63 GiB total CPU memory.
(EngineCore pid=4711) INFO 11-29 13:20:44 [gpu_model_runner.py:2653] Model loading took 18.1 GiB and 16.2 seconds
(EngineCore pid=4711) INFO 11-29 13:20:51 [kv_cache_utils.py:1087] GPU KV cache size: 118,432 tokens
(EngineCore pid=4711) ERROR 11-29 13:20:52 [core.py:710] EngineCore failed to start.
Traceback (most recent call last):
ValueError: To serve at least one request with the models's max seq len (32768), 8.00 GiB KV cache is needed
DEBUG 11-29 13:20:53 [shutdown.py:12] waiting for workers"""


def context(now: datetime) -> dict[str, Any]:
    """The context of the style guide, with times relative to `now`."""
    return {
        "now": now - timedelta(minutes=3),
        "states": list(LOOKS),
        "square_states": ["ready", "ready", "ready", "starting", "draining", "pending", "stopped", "failed"],
        "rows": _rows(now),
        "page": Page(items=[None] * 50, number=2, size=50, total=1204, total_is_exact=True),
        "command": "vllm serve /models/qwen2.5-32b-awq --served-model-name qwen2.5-32b-instruct --max-model-len 8192 "
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.90 --enable-prefix-caching --max-num-seqs 128",
        "log": LOG.splitlines(),
        **_comparison(),
        **_charts(),
        **_operations(),
        **_texts(),
    }


def _rows(now: datetime) -> list[dict[str, Any]]:
    wave = [380 + 60 * math.sin(i / 5) + (i % 7) * 6 for i in range(60)]
    broken = [value if i < 25 or i > 32 else None for i, value in enumerate(wave)]
    names = ("name", "state", "host", "throughput", "ttft", "series", "kv", "memory", "since")
    rows = [
        ("chat-prod-0", "ready", "gpu-01", 1284.3, 412.0, wave, 0.42, 71.4 * GIB, now - timedelta(days=3)),
        ("chat-prod-1", "draining", "gpu-02", 871.0, 1260.0, broken, 0.91, 71.2 * GIB, now - timedelta(hours=5)),
        ("code-staging-0", "starting", "gpu-03", None, None, [], None, 18.1 * GIB, now - timedelta(seconds=41)),
        ("reasoning-0", "failed", "gpu-03", None, None, [500.0] * 20, 0.97, None, now - timedelta(minutes=12)),
    ]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _comparison() -> dict[str, Any]:
    names = ("parameter", "baseline", "tuned", "throughput", "low", "mid", "high", "ttft", "verdict", "pairs")
    rows = [
        ("baseline", "", "", 402.1, None, None, None, 1830.0, "", 5),
        ("enable_prefix_caching", "false", "true", 1345.2, 3.1, 3.34, 3.6, 431.0, "better", 5),
        ("max_num_batched_tokens", "4096", "8192", 419.4, 0.97, 1.04, 1.12, 1790.0, "cannot tell", 3),
        ("quantization", "none", "awq", 355.8, 0.82, 0.88, 0.93, 2110.0, "worse", 5),
    ]
    comparison: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
    return {"comparison": comparison, "scale": common_scale((row["low"], row["high"]) for row in comparison)}


def _charts() -> dict[str, Any]:
    def latencies(shift: float) -> list[float]:
        return [round(shift * (1 + 0.6 * math.tan(math.pi * (i + 1) / 210)), 1) for i in range(100)]

    seconds = list(range(60))
    return {
        "cdf": {
            "label": "TTFT",
            "unit": "ms",
            "series": [
                {"label": "baseline v7", "values": latencies(820)},
                {"label": "tuned v8", "values": latencies(260)},
            ],
        },
        "line": {
            "x": seconds,
            "x_label": "time",
            "x_unit": "s",
            "series": [
                {"label": "output", "unit": "tok/s", "values": [1200 - 900 * math.exp(-i / 6) for i in seconds]},
                {
                    "label": "waiting",
                    "unit": "requests",
                    "axis": "right",
                    "values": [max(0, 64 - 2 * i) for i in seconds],
                },
            ],
        },
        "silent": {"x": seconds, "x_label": "time", "x_unit": "s", "series": [{"label": "GPU", "values": [None] * 60}]},
        "scatter": {
            "x_label": "TTFT p99",
            "x_unit": "ms",
            "y_label": "throughput",
            "y_unit": "tok/s",
            "series": [
                {"label": "v7", "points": [[180, 96], [420, 231], [910, 342], [1830, 402]]},
                {"label": "v8", "points": [[150, 112], [190, 480], [270, 901], [431, 1345]]},
            ],
        },
    }


def _operations() -> dict[str, Any]:
    names = ("name", "state", "seconds", "summary", "detail")
    launch = [
        (
            "Preflight",
            "passed",
            0.4,
            "11 checks passed",
            "weights 18.1 GiB + KV cache 51.2 GiB + overhead 2.1 GiB ≤ 72.0 GiB",
        ),
        ("Process started", "done", 0.2, "pid 4711 on gpu-03", ""),
        ("Weights loaded", "done", 16.2, "18.1 GiB", ""),
        ("KV cache", "failed", 1.3, "8.0 GiB needed, 5.0 GiB there", LOG.splitlines()[7]),
        ("Graphs captured", "running", 4.0, "", ""),
        ("Listening", "waiting", None, "", ""),
        ("First token", "skipped", None, "", ""),
    ]
    gpu = ("label", "used", "total", "utilisation", "foreign", "unreachable")
    cells = [
        ("GPU 0: 71.4 of 80 GiB, 93 % busy", 71.4, 80, 0.93, False, False),
        ("GPU 1: 71.4 of 80 GiB, 55 % busy", 71.4, 80, 0.55, False, False),
        ("GPU 2: 30 of 80 GiB, 12 % busy", 30, 80, 0.12, False, False),
        ("GPU 3: free", 0.4, 80, 0.0, False, False),
        ("GPU 4: 60 of 80 GiB, foreign process 812 (python)", 60, 80, 0.7, True, False),
    ]
    gone = [("GPU 0: host unreachable", None, None, None, False, True)] * 4
    return {
        "launch": [dict(zip(names, step, strict=True)) for step in launch],
        "hosts": [
            {"name": name, "gpus": [dict(zip(gpu, cell, strict=True)) for cell in row]}
            for name, row in (("gpu-01", cells), ("gpu-02", gone), ("gpu-03", cells[:2]))
        ],
    }


def _texts() -> dict[str, Any]:
    problem_list = [
        {
            "line": 14,
            "column": 16,
            "message": "null is not a TOML value",
            "source_line": "quantization = null",
            "replacement": '"none"',
        },
        {
            "line": 27,
            "column": 1,
            "message": "swap_space does not exist in vLLM 0.32.0",
            "reason": "It was removed in 0.18: the V1 engine recomputes instead of swapping.",
            "remedy": "Remove the line.",
        },
        {"key": "engine.max_num_seq", "message": "Unknown key", "replacement": "max_num_seqs"},
    ]
    diff = ("kind", "left_no", "left", "right_no", "right")
    rows = [
        ("skip", None, "12 equal lines", None, None),
        ("same", 13, "[batching]", 13, "[batching]"),
        ("changed", 14, "max_num_batched_tokens = 4096", 14, "max_num_batched_tokens = 8192"),
        ("removed", 15, "swap_space = 8", None, None),
        ("added", None, None, 15, "enable_prefix_caching = true"),
        ("same", 16, "max_num_seqs = 128", 16, "max_num_seqs = 128"),
    ]
    return {"problem_list": problem_list, "diff_rows": [dict(zip(diff, row, strict=True)) for row in rows]}
