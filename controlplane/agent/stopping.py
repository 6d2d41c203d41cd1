"""Stop a launch and look whether it is really gone.

SIGTERM goes to the main process alone, so that it can finish its requests; what is left afterwards gets SIGKILL. It
works as well when the keeper was killed, and can be repeated: a stop that was cut off is simply asked for again.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.agent import gpus, ports, records
from controlplane.agent.launching import is_keeper_alive, living
from controlplane.agent.place import Place
from controlplane.agent.processes import Process, send
from controlplane.protocol.launches import (
    ExitRecord,
    Leftover,
    PortHolder,
    ProcessInfo,
    RunRecord,
    StopReport,
    StopRequest,
)
from controlplane.protocol.wire import VerbError

_POLL_S = 0.05
_GPU_POLL_S = 0.5  # nvidia-smi costs about a tenth of a second of CPU


def stop(place: Place, request: StopRequest) -> StopReport:
    """Stop a launch. The report says what could not be stopped; a finished launch is reported gone."""
    began = time.monotonic()
    folder = records.existing(place.launches, request.launch_id)
    run = records.load_run(folder)
    if run is None:
        raise VerbError("not_started", f"Launch {request.launch_id} has no process yet.", "Try again in a moment.")
    if records.load_exit(folder) is None:
        records.save_stop(folder, time.time())
    stopping = _Stopping(place, folder, run)
    stopping.ask(request.term_timeout_s)
    stopping.kill(request.kill_timeout_s)
    return stopping.report(began, request.kill_timeout_s)


@dataclass
class _Stopping:
    place: Place
    folder: Path
    run: RunRecord
    seen: dict[int, ProcessInfo] = field(default_factory=dict)
    killed: dict[int, ProcessInfo] = field(default_factory=dict)

    def ask(self, timeout_s: float) -> None:
        """SIGTERM to the main process, and to its orphans when no keeper does it; wait for all to go."""
        deadline = time.monotonic() + timeout_s
        signalled: set[int] = set()
        cleared_by = deadline
        while alive := self._living():
            is_main_alive = any(process.pid == self.run.pid for process in alive)
            orphans = [] if is_main_alive or is_keeper_alive(self.place, self.run) else alive
            for process in [process for process in alive if process.pid == self.run.pid] or orphans:
                if process.pid not in signalled:
                    signalled.add(process.pid)
                    self._send(process, signal.SIGTERM)
            if is_main_alive:
                cleared_by = min(deadline, time.monotonic() + self.run.leftover_grace_s)
            if time.monotonic() >= (deadline if is_main_alive else cleared_by):
                return
            time.sleep(_POLL_S)

    def kill(self, timeout_s: float) -> None:
        """SIGKILL to everything that is left, again and again while new ones appear."""
        deadline = time.monotonic() + timeout_s
        while alive := self._living():
            for process in alive:
                if process.pid not in self.killed and self._send(process, signal.SIGKILL):
                    self.killed[process.pid] = self.seen[process.pid]
            if time.monotonic() >= deadline:
                return
            time.sleep(_POLL_S)

    def report(self, began: float, timeout_s: float) -> StopReport:
        """Wait for ports and GPU memory to come back, then say what is left."""
        deadline = time.monotonic() + timeout_s
        held_ports, held_gpus = self._held_ports(), self._held_gpu_pids()
        while (held_ports or held_gpus) and time.monotonic() < deadline:
            time.sleep(_GPU_POLL_S if held_gpus else _POLL_S)
            held_ports = self._held_ports()
            held_gpus = self._held_gpu_pids() if held_gpus else []
        alive = self._living()
        return StopReport(
            launch_id=self.run.launch_id,
            is_gone=not (alive or held_ports or held_gpus),
            still_alive=[self.seen[process.pid] for process in alive],
            killed=list(self.killed.values()),
            ports_held=held_ports,
            gpu_pids_held=held_gpus,
            took_s=round(time.monotonic() - began, 3),
            exit=self._exit_record(is_complete=not alive),
        )

    def _living(self) -> list[Process]:
        """What lives of the launch, also what could no longer be told to be of it had it not been seen before.

        Without a keeper, a child in a session of its own is cut off from the launch when its parent ends.
        """
        table = self.place.processes.table()
        alive = living(self.place, self.run, table)
        for process in alive:
            self.seen[process.pid] = self.place.processes.info(process)
        cut_off = [
            table[pid]
            for pid, info in self.seen.items()
            if pid in table and table[pid].start_ticks == info.start_ticks and table[pid] not in alive
        ]
        return alive + cut_off

    def _send(self, process: Process, number: signal.Signals) -> bool:
        try:
            return send(self.place.processes, process.pid, process.start_ticks, number)
        except PermissionError:  # it has become another user's; the report names it as still alive
            return False

    def _held_ports(self) -> list[PortHolder]:
        """Ports on which somebody still listens, or that this launch's keeper still reserves."""
        held = []
        for port in self.run.ports:
            status = ports.status(port, self.place.processes)
            # A new launch may have reserved the port since; that is not ours to report.
            if status.holder and status.holder.launch_id in (None, self.run.launch_id):
                held.append(status.holder)
        return held

    def _held_gpu_pids(self) -> list[int]:
        """Processes of this launch whose GPU memory the driver has not taken back."""
        return sorted(set(gpus.compute_pids(self.place)) & set(self.seen)) if self.seen else []

    def _exit_record(self, *, is_complete: bool) -> ExitRecord:
        """The keeper's record, completed within moments; or our own when no keeper is there to write one."""
        deadline = time.monotonic() + self.run.leftover_grace_s
        while is_keeper_alive(self.place, self.run) and is_complete and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        known = records.load_exit(self.folder)
        if (known and known.is_complete) or is_keeper_alive(self.place, self.run):
            return known or ExitRecord(at=time.time(), stop_requested=True)
        leftovers = [Leftover(info.pid, info.command, signal.SIGKILL.name) for info in self.killed.values()]
        own = ExitRecord(
            at=known.at if known else time.time(),
            rc=known.rc if known else None,
            signal=known.signal if known else None,
            stop_requested=records.stop_requested(self.folder),
            leftovers=leftovers,
            is_complete=is_complete,
        )
        records.save_exit(self.folder, own)
        return own
