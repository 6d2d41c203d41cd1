"""Run the checks and test rings one after the other; called by bin/test, which sees to everything they need.

Each ring is a pytest process of its own with a JUnit file, from which its tests are counted. A ring that runs no test,
or does not come to its end, has failed. The last line sums up: `N passed, N failed` (`, N skipped` if there are any).
"""

# ruff: noqa: T201
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent

LINT = (
    ("ruff check", ["ruff", "check"]),
    ("ruff format", ["ruff", "format", "--check"]),
    ("mypy", ["mypy"]),
    ("import contracts", ["lint-imports"]),
)

_E2E_MARKS = "e2e or ssh or vllm or browser"


@dataclass(frozen=True)
class Ring:
    """`marks` is pytest's -m; `processes` > 1 spreads the ring over xdist workers."""

    name: str
    marks: str
    limit_s: int
    processes: int = 1


RINGS = {
    "default": (Ring("default", f"not slow and not ({_E2E_MARKS})", limit_s=900, processes=2),),
    "slow": (Ring("slow", f"slow and not ({_E2E_MARKS})", limit_s=1200),),
    # Playwright's synchronous API leaves an event loop running, which breaks asyncio.run() in any later test.
    "e2e": (
        Ring("e2e", f"({_E2E_MARKS}) and not browser", limit_s=2400),
        Ring("e2e browser", "browser", limit_s=1200),
    ),
}


@dataclass(frozen=True)
class Outcome:
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float


def main(wanted: str) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` below takes the running ring along
    outcomes: list[Outcome] = []
    if wanted in {"lint", "all"}:
        outcomes += [run_tool(name, argv) for name, argv in LINT]
    environment = dict(os.environ)
    for name in RINGS if wanted == "all" else {wanted} & RINGS.keys():
        if name == "e2e":
            engine, found = make_engine()
            outcomes.append(engine)
            environment.update(found)
        outcomes += [run_ring(ring, environment) for ring in RINGS[name]]
    print_summary(outcomes)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def run_tool(name: str, argv: list[str]) -> Outcome:
    """A check counts as one test."""
    headline(name)
    began = time.monotonic()
    command = [str(TOOLS / argv[0]), *argv[1:]]
    status = subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, check=False).returncode
    return Outcome(name, int(status == 0), int(status != 0), 0, time.monotonic() - began)


def make_engine() -> tuple[Outcome, dict[str, str]]:
    """Have the real vLLM and its models before the ring starts; the tests find them by the variables answered here."""
    headline("engine")
    began = time.monotonic()
    argv = [sys.executable, "-m", "controlplane.stack", "install_cpu_engine", "--model", "tiny", "--model", "small"]
    done = subprocess.run(
        [*argv, "--json"], cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        return Outcome("engine", 0, 1, 0, seconds), {}
    answer = json.loads(done.stdout)
    return Outcome("engine", 1, 0, 0, seconds), {
        "CONTROLPLANE_E2E_VLLM": answer["vllm"],
        "CONTROLPLANE_E2E_TINY_MODEL": answer["models"]["tiny"],
        "CONTROLPLANE_E2E_SMALL_MODEL": answer["models"]["small"],
    }


def run_ring(ring: Ring, environment: dict[str, str]) -> Outcome:
    headline(ring.name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vcp-ring-") as folder:
        report = Path(folder) / "report.xml"
        argv = [sys.executable, "-m", "pytest", "-q", "-m", ring.marks, f"--junitxml={report}", "--durations=5"]
        # worksteal: each process keeps to neighbours, so what a test leaves in memory serves the next.
        argv += ["-n", str(ring.processes), "--dist", "worksteal"] if ring.processes > 1 else ["-p", "no:xdist"]
        status = run_limited(argv, environment, ring.limit_s)
        passed, failed, skipped = count(report)
    if status != 0 and not failed:
        print(f"ring {ring.name}: pytest ended with {status} and no failed test: that is a failure", flush=True)
        failed = 1
    if not passed and not failed:
        print(f"ring {ring.name} ran no test: that is a failure", flush=True)
        failed = 1
    return Outcome(ring.name, passed, failed, skipped, time.monotonic() - began)


def run_limited(argv: list[str], environment: dict[str, str], limit_s: int) -> int:
    """The exit status; past the limit the whole process group is killed."""
    process = subprocess.Popen(argv, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, process_group=0)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"not done after {limit_s} s: stopped", flush=True)
        return 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def count(report: Path) -> tuple[int, int, int]:
    """Passed, failed (with errors) and skipped tests of a JUnit file; all 0 when pytest did not get to write it."""
    if not report.exists():
        return 0, 0, 0
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314  # our own pytest wrote it
    tests = failed = skipped = 0
    for suite in suites:
        tests += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return max(0, tests - failed - skipped), failed, skipped


def headline(text: str) -> None:
    print(f"\n=== {text}", flush=True)


def print_summary(outcomes: list[Outcome]) -> None:
    print(f"\n{'':<18}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}")
    for outcome in outcomes:
        print(f"{outcome.name:<18}{outcome.passed:>8}{outcome.failed:>8}{outcome.skipped:>8}{outcome.seconds:>9.1f}")
    passed, failed, skipped = (sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
