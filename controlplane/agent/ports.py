"""TCP ports: who listens, and reservations that hold for the life of a launch.

A reservation is an abstract Unix socket named after the port. Compared with a lock file it needs no directory that
all users may write to, is released by the kernel with its last holder, and its scope, the network namespace, is
exactly that of a port. It is needed because vLLM sets SO_REUSEPORT: the kernel lets two servers share a port, and
because the minutes between launch and listening would otherwise be unguarded.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Optional

from controlplane.agent.processes import Processes
from controlplane.protocol.launches import PortHolder, PortStatus
from controlplane.protocol.wire import VerbError

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_ASK_TIMEOUT_S = 1.0
_ASK_ATTEMPTS = 3


def status(port: int, processes: Processes) -> PortStatus:
    """Whether a port can be given to a new launch, and if not, who has it."""
    check(port)
    holder = reservation(port, processes) or listener(port, processes)
    return PortStatus(port=port, is_free=holder is None, holder=holder)


def check(port: int) -> None:
    """Refuse numbers that are no TCP port."""
    if not 1 <= port <= 65535:
        raise VerbError("bad_request", f"{port} is not a TCP port.", "Choose one from 1 to 65535.")


def taken(holder: PortHolder) -> VerbError:
    """The refusal for a port that somebody holds, naming them."""
    if holder.launch_id:
        who = f"launch {holder.launch_id}"
    elif holder.pid:
        who = f"process {holder.pid} ({' '.join(holder.command[:3]) or 'unknown command'}, user {holder.user})"
    else:
        who = "a process of another user"
    return VerbError(
        "port_taken", f"Port {holder.port} is held by {who}.", "Choose another port, or stop the holder first."
    )


class Reservation:
    """Ports held by this process. Other programs that ask are told `launch_id`."""

    def __init__(self, launch_id: str) -> None:
        self._launch_id = launch_id
        self.sockets: list[socket.socket] = []

    def take(self, port: int, processes: Processes) -> None:
        """Reserve a port, or raise `port_taken` naming who has it (a reservation or a listening process)."""
        check(port)
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(_name(port))
        except OSError as error:
            held.close()
            raise taken(reservation(port, processes) or PortHolder(port=port)) from error
        held.listen(8)
        held.setblocking(False)
        self.sockets.append(held)
        other = listener(port, processes)
        if other:
            raise taken(other)

    def release(self) -> None:
        """Give all ports back."""
        while self.sockets:
            self.sockets.pop().close()

    def answer(self, held: socket.socket) -> None:
        """Tell one caller who holds this port."""
        try:
            caller, _ = held.accept()
        except OSError:  # the caller has gone again
            return
        with caller:
            caller.settimeout(_ASK_TIMEOUT_S)
            try:
                caller.sendall(json.dumps({"launch_id": self._launch_id, "pid": os.getpid()}).encode())
            except OSError:
                return  # it did not wait for the answer


def reservation(port: int, processes: Processes) -> Optional[PortHolder]:
    """The launch that reserved a port, whichever control plane started it; None when nobody did."""
    told: Optional[bytes] = b""
    for _ in range(_ASK_ATTEMPTS):
        told = _ask(port)
        if told != b"":  # an empty answer: the holder was just ending
            break
    if told is None:
        return None
    try:
        holder = json.loads(told)
    except ValueError:
        return PortHolder(port=port)  # held, but by nobody who answers
    pid = holder.get("pid")
    return PortHolder(
        port=port,
        pid=pid,
        command=processes.command(pid) if pid else [],
        user=processes.user(pid) if pid else None,
        launch_id=holder.get("launch_id"),
    )


def _ask(port: int) -> Optional[bytes]:
    """What the holder of a reservation says; None when there is no holder."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(_ASK_TIMEOUT_S)
        try:
            caller.connect(_name(port))
            return caller.recv(4096)
        except ConnectionRefusedError:
            return None
        except ConnectionResetError:
            return b""
        except OSError:
            return b"?"


def listener(port: int, processes: Processes) -> Optional[PortHolder]:
    """The process that listens on a port on any address; None when nobody does."""
    inodes = {inode for inode, found in listening(processes.proc).items() if found == port}
    if not inodes:
        return None
    for pid in _pids_by_inode(processes, inodes).values():
        return PortHolder(
            port=port, pid=pid, command=processes.command(pid), user=processes.user(pid), is_listening=True
        )
    return PortHolder(port=port, is_listening=True)


def listening(proc: Path) -> dict[str, int]:
    """Ports in state LISTEN, by socket inode, IPv4 and IPv6."""
    found: dict[str, int] = {}
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                found[fields[9]] = int(fields[1].rsplit(":", 1)[1], 16)
    return found


def ports_of(pid: int, processes: Processes) -> list[int]:
    """Ports on which one process listens."""
    ports = listening(processes.proc)
    return sorted({ports[inode] for inode in _inodes(processes.proc / str(pid)) if inode in ports})


def _pids_by_inode(processes: Processes, wanted: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in processes.proc.iterdir():
        if entry.name.isdigit():
            for inode in _inodes(entry) & wanted:
                found.setdefault(inode, int(entry.name))
    return found


def _inodes(process: Path) -> set[str]:
    inodes: set[str] = set()
    try:
        for handle in (process / "fd").iterdir():
            target = os.readlink(handle)  # noqa: PTH115 - read for every open file of every process
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:  # another user's process, or it ended meanwhile
        return inodes
    return inodes


def _name(port: int) -> str:
    return f"\0vllm-controlplane/port/{port}"
