"""The supervisor with small real programs."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.stack import supervisor as supervision
from controlplane.stack.paths import StatePaths
from controlplane.stack.process import Program
from controlplane.stack.supervisor import StartFailed, Supervisor

pytestmark = pytest.mark.slow

PATIENCE_S = 20.0


def program(paths: StatePaths, name: str, script: str, *, stage: int = 0, grace_s: float = 5) -> Program:
    """A shell script that counts as ready once it has said READY; it finds the state directory in $STATE."""
    ready = paths.root / f"{name}.ready"
    return Program(
        name=name,
        argv=("/bin/sh", "-c", script.replace("READY", f'touch "$STATE/{name}.ready"')),
        log=paths.logs / f"{name}.log",
        stage=stage,
        environment={"STATE": str(paths.root)},
        is_ready=ready.exists,
        grace_s=grace_s,
    )


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_programs_start_in_order_and_stop_in_reverse(paths: StatePaths) -> None:
    script = """trap 'echo stop NAME >> "$STATE/diary"; exit 0' TERM; READY; while :; do sleep 0.05; done"""
    with Supervisor(print) as supervisor:
        for name, stage in (("store", 0), ("web", 1)):
            supervisor.start(program(paths, name, script.replace("NAME", name), stage=stage))
            assert (paths.root / f"{name}.ready").exists()
    assert (paths.root / "diary").read_text().splitlines() == ["stop web", "stop store"]


def test_a_program_that_ends_is_started_again_and_said(paths: StatePaths) -> None:
    runs = paths.root / "runs"
    lines: list[str] = []
    with Supervisor(lines.append) as supervisor:
        supervisor.start(program(paths, "web", 'echo run >> "$STATE/runs"; READY; sleep 0.3; exit 3'))
        supervisor.run(until=lambda: len(runs.read_text().splitlines()) >= 2)
    assert lines[0].startswith("web ended (exit code 3); next start in 0.5 s. Log: ")
    assert lines[1].startswith("web started again (process ")


def test_a_program_that_cannot_start_fails_with_its_last_words(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.01)
    with pytest.raises(StartFailed, match="web ended 3 times") as caught, Supervisor(print) as supervisor:
        supervisor.start(program(paths, "web", "echo 'no such table: hosts'; exit 1"))
    assert "no such table: hosts" in caught.value.remedy


def test_a_crash_is_seen_though_a_grandchild_holds_the_log_open(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "START_TRIES", 1)
    with pytest.raises(StartFailed), Supervisor(print) as supervisor:
        supervisor.start(program(paths, "web", "sleep 60 & exit 1"))


def test_stopping_takes_the_whole_process_group_along(paths: StatePaths) -> None:
    note = paths.root / "pid"
    with Supervisor(print) as supervisor:
        supervisor.start(program(paths, "web", 'sleep 600 & echo $! > "$STATE/pid"; READY; wait'))
        grandchild = int(note.read_text())
        assert is_alive(grandchild)
    assert eventually(lambda: not is_alive(grandchild))


def test_a_program_deaf_to_its_stop_signal_is_killed_after_its_grace(paths: StatePaths) -> None:
    lines: list[str] = []
    with Supervisor(lines.append) as supervisor:
        supervisor.start(program(paths, "web", "trap '' TERM; READY; while :; do sleep 0.1; done", grace_s=0.3))
    assert lines == ["web did not stop within 0 s and was killed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_stop_signal_ends_the_run(paths: StatePaths, number: signal.Signals) -> None:
    with Supervisor(print) as supervisor:
        supervisor.start(program(paths, "web", f"READY; sleep 0.1; kill -{number} {os.getpid()}; sleep 600"))
        supervisor.run()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_supervisor_takes_its_programs_along(paths: StatePaths) -> None:
    note = paths.root / "pid"
    child = os.fork()
    if child == 0:
        with Supervisor(print) as supervisor:
            supervisor.start(program(paths, "web", 'echo $$ > "$STATE/pid"; READY; exec sleep 600'))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert eventually(lambda: not is_alive(int(note.read_text())))
