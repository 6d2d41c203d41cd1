"""What follows from what is known of a run: every combination that a host can report."""

import pytest

from controlplane.bench.domain.following import Act, Process, Target, process_of, queued_step, running_step, state_after
from controlplane.bench.domain.live import standing
from controlplane.bench.domain.order import interpreter, launch_folder, own_url
from controlplane.bench.domain.outcome import ExitCode

ALIVE = Process(is_known=True, is_alive=True)
GONE = Process(is_known=False)


def ended(at: float | None) -> Process:
    return Process(is_known=True, ended_at=at)


@pytest.mark.parametrize(
    ("target", "act"),
    [
        (Target("ready"), Act.START),
        (Target("ready", is_busy=True), Act.WAIT),
        (Target("starting"), Act.WAIT),
        (Target("pending"), Act.WAIT),
        (Target("ready", is_wanted=False), Act.FAIL),
        (Target("draining"), Act.FAIL),
        (Target("stopped"), Act.FAIL),
        (Target("failed"), Act.FAIL),
        (Target(None), Act.FAIL),
    ],
)
def test_a_queued_run_starts_only_on_a_ready_wanted_and_idle_instance(target: Target, act: Act) -> None:
    assert queued_step(target).act is act


@pytest.mark.parametrize(
    ("job", "engine", "is_started", "is_cancel_requested", "act"),
    [
        (GONE, ALIVE, False, False, Act.START),
        (GONE, GONE, False, False, Act.FAIL),
        (GONE, ALIVE, True, False, Act.FAIL),
        (GONE, ALIVE, True, True, Act.CANCEL),
        (GONE, ALIVE, False, True, Act.CANCEL),
        (ALIVE, ALIVE, True, False, Act.FOLLOW),
        (ALIVE, ALIVE, False, False, Act.FOLLOW),
        (ALIVE, ALIVE, True, True, Act.STOP),
        (ALIVE, ended(1.0), True, False, Act.STOP),
        (ALIVE, GONE, True, False, Act.STOP),
        (ended(2.0), ALIVE, True, False, Act.COLLECT),
        (ended(2.0), ended(3.0), True, False, Act.COLLECT),
        (ended(2.0), ended(1.0), True, False, Act.FAIL),
        (ended(2.0), ended(None), True, False, Act.FAIL),
        (ended(None), ended(1.0), True, False, Act.FAIL),
        (ended(None), ALIVE, True, False, Act.COLLECT),
        (ended(2.0), ended(1.0), True, True, Act.COLLECT),
    ],
)
def test_a_running_run_follows_its_two_processes(
    job: Process, engine: Process, is_started: bool, is_cancel_requested: bool, act: Act
) -> None:
    step = running_step(is_started=is_started, is_cancel_requested=is_cancel_requested, job=job, engine=engine)
    assert step.act is act


def test_a_launch_that_is_only_claimed_counts_as_alive() -> None:
    assert process_of({"state": "starting", "is_main_alive": False, "exit": None}).is_alive
    assert not process_of({"state": "lost", "is_main_alive": False, "exit": None}).is_alive
    assert process_of({"state": "lost", "is_main_alive": True, "exit": None}).is_alive


def test_every_exit_code_becomes_a_state_and_unknown_ones_are_failures() -> None:
    assert {code.name: state_after(code) for code in ExitCode} == {
        "VALID": "finished",
        "CRASHED": "failed",
        "BAD_SPEC": "failed",
        "PROBE_FAILED": "failed",
        "ERROR_BUDGET_EXCEEDED": "invalid",
        "WATCHDOG": "failed",
        "CANCELLED": "cancelled",
        "INVALID": "invalid",
    }
    assert state_after(99) == "failed"


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("10.0.0.5", "http://10.0.0.5:8000"),
        ("::", "http://[::1]:8000"),
        ("fe80::1", "http://[fe80::1]:8000"),
    ],
)
def test_a_server_is_reached_from_its_own_machine(bind: str, url: str) -> None:
    assert own_url(bind, 8000) == url


def test_the_engines_own_python_runs_the_load_generator() -> None:
    assert interpreter("/opt/vllm/bin/vllm", ["/usr/bin/python3.12", "/opt/vllm/bin/vllm"]) == "/usr/bin/python3.12"
    assert interpreter("/opt/vllm/bin/vllm", ["/opt/vllm/bin/vllm", "serve"]) == "/opt/vllm/bin/python"
    assert interpreter("/opt/vllm/bin/vllm", ["VLLM::APIServer"]) == "/opt/vllm/bin/python"
    assert interpreter("/opt/vllm/bin/vllm", []) == "/opt/vllm/bin/python"


def test_files_are_left_in_the_folder_of_the_launch() -> None:
    assert launch_folder("/srv/vcp/tools/abc-loadgen.pyz", "run-1") == "/srv/vcp/launches/run-1"


def test_what_is_left_is_told_by_tokens_else_by_requests_else_not() -> None:
    going = {"phase": "measure", "ok": 4, "failed": 1, "output_tokens": 500, "elapsed_s": 15.0, "measuring_since_s": 5}
    seen = standing(going, planned=10, planned_tokens=1000)
    assert (seen.done, seen.tokens_per_s, seen.left_s) == (5, 50.0, 10.0)
    assert standing(going, planned=10, planned_tokens=0).left_s == 10.0
    nothing = standing({"phase": "warmup", "elapsed_s": 3.0}, planned=10, planned_tokens=1000)
    assert (nothing.tokens_per_s, nothing.left_s) == (None, None)
