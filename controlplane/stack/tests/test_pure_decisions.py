"""What the stack decides without touching anything."""

import os
import sys
from pathlib import Path

import pytest

from controlplane.stack import programs, sshd, usage
from controlplane.stack.paths import StateDirectoryUnusable, StatePaths
from controlplane.stack.process import Program
from controlplane.stack.supervisor import Slot, describe_exit, restart_delay_s

PATHS = StatePaths(Path("/state"))


def test_restart_delays_double_up_to_half_a_minute() -> None:
    assert [restart_delay_s(n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 100)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_failures_in_a_row_add_up_and_a_long_run_forgives_them() -> None:
    slot = Slot(Program(name="web", argv=("x",), log=Path("/log"), stage=1), started_at=100)
    assert slot.record_exit(101) == 0.5
    assert slot.record_exit(102) == 1
    assert slot.due_at == 103
    slot.started_at = 200
    assert slot.record_exit(260) == 0.5


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL"), (-250, "killed by signal 250")],
)
def test_an_exit_status_is_told_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words


def test_the_web_process_serves_on_the_socket_it_is_given() -> None:
    program = programs.web(PATHS, {"A": "b"}, listening=7, is_ready=lambda: True, inherited_files=(5,))
    assert program.argv == (
        *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--fd", "7"),
        *("--http", "httptools", "--loop", "uvloop", "--timeout-graceful-shutdown", "3"),
        *("--no-access-log", "--no-server-header", "--log-level", "warning"),
    )
    assert program.inherited_files == (7, 5)
    assert program.environment == {"A": "b", "MALLOC_ARENA_MAX": "2"}
    assert program.log == Path("/state/log/web.log")


def test_the_worker_is_eight_threads_without_chatter() -> None:
    assert programs.worker(PATHS, {}).argv == (
        *(sys.executable, "-m", "celery", "-A", "controlplane", "worker", "-P", "threads", "-c", "8"),
        *("-n", "worker@%h", "-l", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    )


def test_the_clock_keeps_its_schedule_in_the_state_directory() -> None:
    assert programs.beat(PATHS, {}).argv == (
        *(sys.executable, "-m", "celery", "-A", "controlplane.stack.clock", "beat", "-l", "WARNING"),
        *("-S", "controlplane.stack.clock:Clock", "--pidfile="),
    )


def test_a_path_too_long_for_a_socket_is_refused_with_the_excess(tmp_path: Path) -> None:
    root = tmp_path / ("x" * 90)
    excess = len(os.fsencode(root)) + len("/run/.s.PGSQL.5432") - 103
    with pytest.raises(StateDirectoryUnusable, match=f"{excess} bytes too long") as caught:
        StatePaths(root).make()
    assert "CONTROLPLANE_STATE_DIR" in caught.value.remedy
    assert not root.exists()


def test_a_state_directory_that_cannot_be_made_says_why(paths: StatePaths) -> None:
    (paths.root / "file").write_text("")
    with pytest.raises(StateDirectoryUnusable, match="Not a directory"):
        StatePaths(paths.root / "file" / "state").make()


def test_a_family_is_the_ancestor_with_all_descendants() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 21: 20}
    assert usage.family(10, parents) == {10, 11, 12}


def test_usage_is_summed_in_the_last_row() -> None:
    text = usage.render([usage.Usage("web", 1, 50_000_000, 0.5), usage.Usage("worker", 2, 70_500_000, 1.25)])
    assert text.splitlines()[-1].split() == ["total", "3", "120.5", "1.75"]


def test_the_ssh_server_takes_one_user_by_key_from_this_machine_only() -> None:
    lines = sshd.configuration(Path("/a b"), port=2222, user="eve").splitlines()
    assert {"Port 2222", "ListenAddress 127.0.0.1", "AllowUsers eve", "PasswordAuthentication no"} <= set(lines)
    assert 'AuthorizedKeysFile "/a b/authorized_keys"' in lines
