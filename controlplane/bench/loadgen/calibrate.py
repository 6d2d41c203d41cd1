"""Measure the load generator against the calibration server: how wrong is it, and what does it cost?

Run as `manage.py calibrate` or `python -m controlplane.bench.loadgen.calibrate`. Both sides are processes of their own,
so they share the machine as they would with a real server. The limits are those of docs/explain/benchmarking.md; exit 1
beyond them. Latencies are judged against what the server really did, throughput against its schedule, and CPU also
against the cost of a bare client (yardstick.py) that is measured beside it: seconds alone would judge the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from controlplane.bench.domain.bundle import PACKAGE_ROOT, build_loadgen
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.domain.spec import RunSpec
from controlplane.bench.domain.workloads import DISTINCT, Workload
from controlplane.bench.loadgen import calibration, yardstick
from controlplane.bench.loadgen.behaviour import Behaviour

MAX_TTFT_BIAS_MS, MAX_TTFT_BIAS_SHARE = 2.0, 0.02
MAX_TPOT_BIAS_SHARE = 0.005
MIN_THROUGHPUT_SHARE = 0.985
MAX_CPU_S_PER_1000_TOKENS = 0.025
# A machine may be slower than the one that limit was set on, where the bare client took 0.021: then this share counts.
MAX_CPU_SHARE_OF_YARDSTICK = 1.0
# With one stream the cost is that of waking up (loop, lag probe, samples), 2 % of a core whatever the tokens.
MIN_CONCURRENCY_TO_JUDGE_CPU = 32

CONCURRENCIES = (1, 32, 128)
# A server of 100 tokens a second and user, answers long enough that the ramp of the first wave does not decide.
SCHEDULE = Behaviour(ttft_ms=100.0, gap_ms=10.0)
TOKENS = 256
WAVES = 2
YARDSTICK_LABEL = 10_000
HEADING = (
    "concurrency  TTFT truth   TTFT bias  TPOT truth   TPOT bias  throughput"
    "  CPU s/1,000 tokens  bare client  lag p99\n"
)


class NoYardstick(RuntimeError):  # noqa: N818
    """The chosen Python lacks what the bare client is made of."""


@dataclass(frozen=True)
class Verdict:
    """One row: what was measured at one concurrency, and what of it is beyond the limits (empty: nothing)."""

    concurrency: int
    ttft_truth_ms: float
    ttft_bias_ms: float
    tpot_truth_ms: float
    tpot_bias_share: float
    throughput_share: float
    cpu_s_per_1000_tokens: float
    yardstick_s_per_1000_tokens: float
    lag_p99_ms: float
    beyond: tuple[str, ...]


def judge(concurrency: int, result: dict[str, Any], truth: dict[str, Any], yardstick_s: float) -> Verdict:
    """Compare a run's result with the server's ledger, less the probe and the warm-up, which came first."""
    unmeasured = 1 + concurrency
    rows = list(zip(truth["received"], truth["first"], truth["last"], strict=True))[unmeasured:]
    ttft_truth_ms = _mean([(first - received) * 1e3 for received, first, _ in rows])
    tpot_truth_ms = _mean([(last - first) * 1e3 / (TOKENS - 1) for _, first, last in rows])
    metrics, instrument = result["metrics"], result["instrument"]
    ideal = concurrency * TOKENS / SCHEDULE.ideal_s(TOKENS)
    measured = {
        "ttft_bias_ms": metrics["ttft.any.v1"]["mean"] - ttft_truth_ms,
        "tpot_bias_share": metrics["tpot.excl.v1"]["mean"] / tpot_truth_ms - 1,
        "throughput_share": metrics["tput.wall.v1"]["value"] / ideal,
        "cpu_s_per_1000_tokens": instrument["cpu_s_per_1000_tokens"],
    }
    limits = {
        "ttft_bias_ms": abs(measured["ttft_bias_ms"]) <= max(MAX_TTFT_BIAS_MS, MAX_TTFT_BIAS_SHARE * ttft_truth_ms),
        "tpot_bias_share": abs(measured["tpot_bias_share"]) <= MAX_TPOT_BIAS_SHARE,
        "throughput_share": measured["throughput_share"] >= MIN_THROUGHPUT_SHARE,
        "cpu_s_per_1000_tokens": concurrency < MIN_CONCURRENCY_TO_JUDGE_CPU
        or measured["cpu_s_per_1000_tokens"]
        <= max(MAX_CPU_S_PER_1000_TOKENS, MAX_CPU_SHARE_OF_YARDSTICK * yardstick_s),
    }
    return Verdict(
        concurrency=concurrency,
        ttft_truth_ms=ttft_truth_ms,
        tpot_truth_ms=tpot_truth_ms,
        lag_p99_ms=instrument["lag_p99_ms"],
        yardstick_s_per_1000_tokens=yardstick_s,
        beyond=tuple(name for name, is_kept in limits.items() if not is_kept),
        **measured,
    )


def calibrate(say: Callable[[str], object], *, python: str = sys.executable) -> bool:
    """Run every concurrency, say the table line by line; True when all is within the limits. `python`: the client's.

    Raises NoYardstick.
    """
    if subprocess.run([python, "-c", "import aiohttp"], check=False, capture_output=True).returncode:
        raise NoYardstick(f"{python} has no aiohttp, of which the bare client is made: name an engine's with --python")
    say(HEADING)
    is_good = True
    with tempfile.TemporaryDirectory(prefix="calibrate-") as folder, _server() as port:
        for concurrency in CONCURRENCIES:
            # The bare client before and after: what the machine does meanwhile meets both.
            before_s = _yardstick(concurrency, port, python)
            result, truth = _measure(concurrency, Path(folder), port, python)
            yardstick_s = (before_s + _yardstick(concurrency, port, python)) / 2
            verdict = judge(concurrency, result, truth, yardstick_s)
            say(_row(verdict))
            is_good = is_good and not verdict.beyond
    say("within the limits\n" if is_good else "BEYOND A LIMIT: this machine, now, is no instrument\n")
    return is_good


def _measure(concurrency: int, folder: Path, port: int, python: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of one run of the real zipapp, and the server's ledger of it."""
    model = Behaviour(SCHEDULE.ttft_ms, SCHEDULE.gap_ms, label=concurrency).to_model()
    workload = Workload("calibrate", DISTINCT, concurrency, concurrency * WAVES, TOKENS, 40)
    address, output = f"http://127.0.0.1:{port}", folder / f"run-{concurrency}"
    spec = RunSpec(address, model, workload, seed=concurrency, output_dir=str(output), gpu="off", error_budget=0)
    zipapp, spec_file = folder / "loadgen.pyz", folder / f"spec-{concurrency}.json"
    zipapp.write_bytes(build_loadgen())
    spec_file.write_text(json.dumps(spec.to_json()), encoding="utf-8")
    ended = subprocess.run([python, str(zipapp), str(spec_file)], check=False, stdout=subprocess.DEVNULL)
    if ended.returncode not in {ExitCode.VALID, ExitCode.INVALID}:
        raise RuntimeError(f"the load generator ended with {ended.returncode}, its own words are above")
    query = f"{address}/truth?model={quote(model, safe='')}"
    with urllib.request.urlopen(query, timeout=30) as answer:  # noqa: S310 - our own loopback
        truth: dict[str, Any] = json.load(answer)
    result: dict[str, Any] = json.loads((output / "result.json").read_text(encoding="utf-8"))
    return result, truth


def _yardstick(concurrency: int, port: int, python: str) -> float:
    """CPU seconds of 1,000 tokens for the bare client. Its requests have a label of their own in the ledger."""
    model = Behaviour(SCHEDULE.ttft_ms, SCHEDULE.gap_ms, label=YARDSTICK_LABEL + concurrency).to_model()
    counts = (concurrency, concurrency * WAVES, TOKENS)
    argv = [python, yardstick.__file__, f"http://127.0.0.1:{port}/v1/chat/completions", model, *map(str, counts)]
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


@contextmanager
def _server() -> Iterator[int]:
    command = [sys.executable, "-m", calibration.__name__]
    environment = {name: value for name, value in os.environ.items() if name != calibration.KEY_VARIABLE}
    process = subprocess.Popen(command, cwd=PACKAGE_ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the calibration server was started without a pipe")
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def _row(verdict: Verdict) -> str:
    cells = (
        f"{verdict.concurrency:>11}",
        f"{verdict.ttft_truth_ms:>8.2f} ms",
        f"{verdict.ttft_bias_ms:>+8.2f} ms",
        f"{verdict.tpot_truth_ms:>8.3f} ms",
        f"{verdict.tpot_bias_share:>+10.3%}",
        f"{verdict.throughput_share:>10.2%}",
        f"{verdict.cpu_s_per_1000_tokens:>18.4f}",
        f"{verdict.yardstick_s_per_1000_tokens:>11.4f}",
        f"{verdict.lag_p99_ms:>6.2f} ms",
        f"beyond: {', '.join(verdict.beyond)}" if verdict.beyond else "",
    )
    return "  ".join(cells).rstrip() + "\n"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    sys.exit(0 if calibrate(sys.stdout.write) else 1)
