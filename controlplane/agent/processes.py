"""The process table, read from /proc: who lives, who started whom, and which launch marked them.

A zombie counts as dead: it holds no memory, no port and no GPU, and only its parent can remove it.
"""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional

from controlplane.protocol.launches import NONCE_VARIABLE, ProcessInfo
from controlplane.protocol.redaction import redact

_MARK = NONCE_VARIABLE.encode() + b"="
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SETTLED_AGE_S = 10.0  # a process this old has long passed the exec that gives it its environment


@dataclass(frozen=True)
class Process:
    """One living process."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    start_ticks: int
    rss_bytes: int
    nonce: Optional[str] = None


@dataclass
class Processes:
    """Reads /proc. One object lives as long as a session and remembers the marks it has read."""

    proc: Path = Path("/proc")
    _marks: dict[tuple[int, int], Optional[str]] = field(default_factory=dict, repr=False)

    def table(self) -> dict[int, Process]:
        """Every living process, by pid."""
        uptime_s = self._uptime_s()
        found: dict[int, Process] = {}
        marks: dict[tuple[int, int], Optional[str]] = {}
        for entry in os.listdir(self.proc):  # noqa: PTH208 - read several times a second; pathlib costs three times as much
            if not entry.isdigit():
                continue
            process = self.read(int(entry))
            if process is None:
                continue
            key = (process.pid, process.start_ticks)
            mark = self._marks[key] if key in self._marks else self._mark(process.pid)
            if mark or uptime_s - process.start_ticks / _TICKS_PER_S > _SETTLED_AGE_S:
                marks[key] = mark
            found[process.pid] = replace(process, nonce=mark) if mark else process
        self._marks = marks
        return found

    def read(self, pid: int) -> Optional[Process]:
        """One process without its mark; None when it is dead, a zombie, or was never there."""
        raw = self._bytes(pid, "stat", 1024)
        if raw is None:
            return None
        fields = raw[raw.rfind(b")") + 2 :].split()  # the name before may contain spaces and parentheses
        if len(fields) < 22 or fields[0] in b"ZXx":
            return None
        return Process(
            pid=pid,
            ppid=int(fields[1]),
            pgid=int(fields[2]),
            sid=int(fields[3]),
            start_ticks=int(fields[19]),
            rss_bytes=int(fields[21]) * _PAGE,
        )

    def is_alive(self, pid: int, start_ticks: int) -> bool:
        """Whether that very process lives; a later one with the same pid is somebody else."""
        process = self.read(pid)
        return process is not None and process.start_ticks == start_ticks

    def command(self, pid: int) -> list[str]:
        """The command line, redacted; [] for kernel threads and the dead."""
        raw = self._bytes(pid, "cmdline", 256 * 1024) or b""
        return redact(raw.rstrip(b"\0").decode("utf-8", "replace").split("\0")) if raw else []

    def user(self, pid: int) -> Optional[str]:
        """Name of the process's owner, or the number where it has no name; None for the dead."""
        try:
            uid = (self.proc / str(pid)).stat().st_uid
        except OSError:
            return None
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def info(self, process: Process) -> ProcessInfo:
        """A process as answers carry it."""
        return ProcessInfo(
            pid=process.pid,
            start_ticks=process.start_ticks,
            command=self.command(process.pid),
            rss_bytes=process.rss_bytes,
            parent_pid=process.ppid,
        )

    def age_s(self, process: Process) -> float:
        """Seconds since the process started."""
        return max(0.0, self._uptime_s() - process.start_ticks / _TICKS_PER_S)

    def _mark(self, pid: int) -> Optional[str]:
        raw = self._bytes(pid, "environ", 1024 * 1024)
        for entry in (raw or b"").split(b"\0"):
            if entry.startswith(_MARK):
                return entry[len(_MARK) :].decode("ascii", "replace")
        return None

    def _bytes(self, pid: int, name: str, limit: int) -> Optional[bytes]:
        try:
            handle = os.open(f"{self.proc}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # gone, or another user's
            return None
        try:
            chunks: list[bytes] = []
            while limit > 0:
                chunk = os.read(handle, min(limit, 65536))
                if not chunk:
                    break
                chunks.append(chunk)
                limit -= len(chunk)
            return b"".join(chunks)
        except OSError:  # died between open and read
            return None
        finally:
            os.close(handle)

    def _uptime_s(self) -> float:
        try:
            return float((self.proc / "uptime").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return 0.0


@dataclass(frozen=True)
class Identity:
    """What tells the processes of one launch from all others (hard rule 1 of the fleet)."""

    pid: int
    start_ticks: int
    pgid: int
    nonce: str
    keeper_pid: int = 0
    keeper_start_ticks: int = 0
    is_same_boot: bool = True


def members(identity: Identity, table: dict[int, Process], *, not_ours: Iterable[int] = ()) -> list[Process]:
    """The living processes of a launch, main process first, never its keeper.

    A process belongs to it when it carries the nonce, is the verified main process, shares a session or process group
    with one of those, or descends from one of those or from the verified keeper (a subreaper, so orphans become its
    children). Numbers alone never count: after a reboot, or when the pid has a new owner, group and parentage prove
    nothing.
    """
    excluded = {*not_ours, identity.keeper_pid}
    marked = {pid for pid, process in table.items() if process.nonce == identity.nonce and pid not in excluded}
    ours = set(marked)
    if identity.is_same_boot:
        main = table.get(identity.pid)
        if main and main.start_ticks == identity.start_ticks:
            ours.add(main.pid)
        if any(table[pid].pgid == identity.pgid or table[pid].sid == identity.pgid for pid in ours):
            ours |= {pid for pid, process in table.items() if identity.pgid in (process.pgid, process.sid)}
        ours |= _descendants(table, ours | _verified_keeper(identity, table))
    ours -= excluded
    return sorted((table[pid] for pid in ours), key=lambda process: (process.pid != identity.pid, process.start_ticks))


def send(processes: Processes, pid: int, start_ticks: int, signal_number: int) -> bool:
    """Signal that very process; False when it is gone. Raises PermissionError for somebody else's process.

    Through a pidfd where the kernel has them, so that the pid cannot change hands between the check and the signal.
    """
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    except OSError:  # an old kernel
        handle = None
    try:
        if not processes.is_alive(pid, start_ticks):
            return False
        if handle is not None and hasattr(signal, "pidfd_send_signal"):
            signal.pidfd_send_signal(handle, signal_number)
        else:
            os.kill(pid, signal_number)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _verified_keeper(identity: Identity, table: dict[int, Process]) -> set[int]:
    keeper = table.get(identity.keeper_pid)
    return {keeper.pid} if keeper and keeper.start_ticks == identity.keeper_start_ticks else set()


def _descendants(table: dict[int, Process], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found, pending = set(roots), list(roots)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found
