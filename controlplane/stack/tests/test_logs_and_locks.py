import fcntl
import os
import threading
from pathlib import Path

import pytest

from controlplane.stack import locks, logs
from controlplane.stack.paths import StatePaths


def test_a_grown_log_moves_aside_while_its_program_keeps_writing(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    with path.open("ab", buffering=0) as program:
        program.write(b"old line\n" * 100)
        logs.cap([path], largest_bytes=500)
        program.write(b"new line\n")
    assert path.read_text() == "new line\n"
    assert path.with_name("web.log.1").read_text() == "old line\n" * 100


def test_a_small_log_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    path.write_text("line\n")
    logs.cap([path, tmp_path / "absent.log"], largest_bytes=500)
    assert [entry.name for entry in tmp_path.iterdir()] == ["web.log"]


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    path.write_text("".join(f"line {number}\n" for number in range(5000)))
    assert logs.tail(path, lines=2) == "line 4998\nline 4999"
    assert logs.tail(tmp_path / "absent") == "(it wrote no log)"


def test_a_second_up_is_told_the_address_of_the_first(paths: StatePaths) -> None:
    held = locks.take_locks(paths, say=print)
    locks.note_running(paths, "http://localhost:8700/")
    with pytest.raises(locks.AlreadyRunning, match=rf"http://localhost:8700/ \(process {os.getpid()}"):
        locks.take_locks(paths, say=print)
    held.supervisor.close()
    held.children.close()
    locks.take_locks(paths, say=print)


def test_programs_of_a_killed_up_are_waited_for(paths: StatePaths) -> None:
    leftover = paths.children_lock.open("a")
    fcntl.flock(leftover, fcntl.LOCK_EX)
    said: list[str] = []

    def end_when_noticed(line: str) -> None:
        said.append(line)
        threading.Thread(target=leftover.close).start()

    locks.take_locks(paths, say=end_when_noticed)
    assert said == ["Waiting for the programs of an earlier run to end"]


def test_a_torn_note_counts_as_none(paths: StatePaths) -> None:
    paths.running.write_text('{"pid": 12')
    assert locks.read_running(paths) is None
