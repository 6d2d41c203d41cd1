"""What the running stack uses: memory as PSS (shared pages counted by share) and processor time, a line a program.

Read from /proc, so Linux only.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from controlplane.core.errors import Problem
from controlplane.stack import locks
from controlplane.stack.paths import StatePaths

PROC = Path("/proc")


class NotRunning(Problem):
    code = "not_running"
    remedy = "Start it with bin/up, or name its state directory with --state-dir."


@dataclass(frozen=True, slots=True)
class Usage:
    """One program with all its descendants. `cpu_percent` is of one core."""

    name: str
    processes: int
    pss_bytes: int
    cpu_percent: float


def measure(paths: StatePaths, *, seconds: float) -> list[Usage]:
    """Usage of `up` and of each program that it started, CPU over the next `seconds`. Raises `NotRunning`."""
    running = locks.read_running(paths)
    if running is None or not (PROC / str(running[0])).exists():
        raise NotRunning(f"Nothing runs with the state in {paths.root}.")
    supervisor = running[0]
    before = _cpu_seconds_by_pid()
    time.sleep(seconds)
    after = _cpu_seconds_by_pid()
    parents = _parents()
    groups = {"up": {supervisor}}
    for child in (pid for pid, parent in parents.items() if parent == supervisor):
        groups[_name(child)] = family(child, parents)
    return [
        Usage(
            name=name,
            processes=len(pids),
            pss_bytes=sum(_pss_bytes(pid) for pid in pids),
            cpu_percent=100 / seconds * sum(after.get(pid, 0.0) - before.get(pid, 0.0) for pid in pids),
        )
        for name, pids in groups.items()
    ]


def family(ancestor: int, parents: dict[int, int]) -> set[int]:
    """`ancestor` and all its descendants, from a map of process id to parent id."""
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def render(usages: list[Usage]) -> str:
    """A table for people, with the sum."""
    rows = [f"{'program':<14} {'processes':>9} {'PSS MB':>8} {'CPU % of a core':>16}"]
    rows += [f"{u.name:<14} {u.processes:>9} {u.pss_bytes / 1e6:>8.1f} {u.cpu_percent:>16.2f}" for u in usages]
    total = Usage(
        name="total",
        processes=sum(u.processes for u in usages),
        pss_bytes=sum(u.pss_bytes for u in usages),
        cpu_percent=sum(u.cpu_percent for u in usages),
    )
    rows.append(f"{total.name:<14} {total.processes:>9} {total.pss_bytes / 1e6:>8.1f} {total.cpu_percent:>16.2f}")
    return "\n".join(rows)


def _parents() -> dict[int, int]:
    return {pid: int(fields[1]) for pid, fields in _stats().items()}


def _cpu_seconds_by_pid() -> dict[int, float]:
    ticks = os.sysconf("SC_CLK_TCK")
    return {pid: (int(fields[11]) + int(fields[12])) / ticks for pid, fields in _stats().items()}


def _stats() -> dict[int, list[str]]:
    """Fields of /proc/PID/stat from the state on (field 3 of proc(5) is index 0 here)."""
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
                continue
    return found


def _name(pid: int) -> str:
    """What `up` calls the program, out of its environment; else its own name (Valkey writes its title over there)."""
    folder = PROC / str(pid)
    try:
        variables = (folder / "environ").read_bytes().split(b"\0")
        own_name = (folder / "comm").read_text().strip()
    except OSError:
        return str(pid)
    mark = b"CONTROLPLANE_PROCESS="
    return next((v.removeprefix(mark).decode() for v in variables if v.startswith(mark)), own_name)


def _pss_bytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # it ended, or belongs to somebody else
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
