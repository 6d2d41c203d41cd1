"""Which processes belong to a launch: by verified identity, never by number alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from controlplane.agent.processes import Identity, Process, Processes, members, send

LAUNCH = Identity(pid=100, start_ticks=5000, pgid=100, nonce="ours-1234", keeper_pid=90, keeper_start_ticks=4990)


def process(pid: int, *, ppid: int = 1, group: int = 0, start: int = 6000, nonce: str | None = None) -> Process:
    return Process(pid=pid, ppid=ppid, pgid=group or pid, sid=group or pid, start_ticks=start, rss_bytes=1, nonce=nonce)


MAIN = process(100, ppid=90, start=5000, nonce="ours-1234")
KEEPER = process(90, start=4990)


def pids(*table: Process, identity: Identity = LAUNCH, not_ours: tuple[int, ...] = ()) -> list[int]:
    found = members(identity, {entry.pid: entry for entry in table}, not_ours=not_ours)
    return [entry.pid for entry in found]


def test_main_comes_first_and_the_keeper_is_never_part_of_it() -> None:
    assert pids(KEEPER, process(95, ppid=90, nonce="ours-1234"), MAIN) == [100, 95]


def test_a_child_is_found_by_group_by_parent_and_by_mark() -> None:
    in_group = process(101, ppid=1, group=100)
    grandchild = process(103, ppid=102)
    child = process(102, ppid=100)
    marked = process(104, ppid=1, nonce="ours-1234")

    assert pids(KEEPER, MAIN, in_group, child, grandchild, marked) == [100, 101, 102, 103, 104]


def test_an_orphan_without_mark_is_found_as_child_of_the_keeper() -> None:
    assert pids(KEEPER, process(110, ppid=90)) == [110]


def test_a_later_process_with_the_main_pid_and_its_group_is_a_stranger() -> None:
    stranger = process(100, start=9000)
    assert pids(stranger, process(120, ppid=100), process(121, ppid=1, group=100)) == []


def test_a_later_process_with_the_keepers_pid_has_no_part_in_it() -> None:
    assert pids(replace(KEEPER, start_ticks=9000), process(110, ppid=90)) == []


def test_a_group_counts_as_long_as_a_marked_member_vouches_for_it() -> None:
    marked = process(104, ppid=1, group=100, nonce="ours-1234")
    assert pids(marked, process(105, ppid=1, group=100)) == [104, 105]
    assert pids(process(105, ppid=1, group=100)) == []


def test_after_a_reboot_only_the_mark_counts() -> None:
    rebooted = replace(LAUNCH, is_same_boot=False)
    assert pids(KEEPER, replace(MAIN, nonce=None), process(110, ppid=90), identity=rebooted) == []


def test_other_launches_and_the_host_program_itself_are_not_ours() -> None:
    assert pids(process(200, nonce="other-123"), process(201, nonce="ours-1234"), not_ours=(201,)) == []


def test_a_zombie_counts_as_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, not collected

        assert Processes().read(child.pid) is None
        assert child.pid not in Processes().table()


def test_a_name_with_spaces_and_parentheses_does_not_confuse(tmp_path: object) -> None:
    script = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'a) R (b', 0, 0, 0); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"VCP_LAUNCH": "mark-1234"}
    ) as child:
        assert child.stdout
        child.stdout.readline()
        found = Processes().table()[child.pid]
        child.communicate()

    assert (found.ppid, found.nonce) == (os.getpid(), "mark-1234")


def test_a_mark_is_read_once_and_forgotten_with_its_process() -> None:
    processes = Processes()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"VCP_LAUNCH": "mark-1234", "PATH": os.defpath}) as child:
        assert child.stdin
        while processes.table()[child.pid].nonce is None:  # between fork and exec it has ours
            pass
        assert processes.table()[child.pid].nonce == "mark-1234"
        child.stdin.close()
    assert child.pid not in processes.table()
    assert not any(pid == child.pid for pid, _ in processes._marks)


def test_a_signal_goes_to_that_very_process_only() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        seen = Processes().read(child.pid)
        assert seen
        assert not send(Processes(), child.pid, seen.start_ticks + 1, signal.SIGKILL)
        assert child.poll() is None
        assert send(Processes(), child.pid, seen.start_ticks, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert not send(Processes(), child.pid, seen.start_ticks, signal.SIGKILL)


@pytest.mark.parametrize("missing", ["pidfd_open", "nothing"])
def test_signals_also_work_without_pidfds(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.delattr(os, missing, raising=False)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        seen = Processes().read(child.pid)
        assert seen
        assert send(Processes(), child.pid, seen.start_ticks, signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
