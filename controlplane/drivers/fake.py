"""A host that exists only in memory, for tests and for trying pages out. It passes the contract tests of the real ones.

Programs do not run here: `programs` says what a command line would do, and tests make things happen (`end`,
`kill_keeper`, `reboot`, `go_offline`) that real machines do by themselves.

    host = FakeHost()
    links.adopt(endpoint, host.link())
"""

from __future__ import annotations

import codecs
import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controlplane.drivers.errors import HostRefused, LinkBroken, Unreachable
from controlplane.protocol.artifacts import ModelFacts
from controlplane.protocol.engines import Adoptable, AdoptableList, Engine, EngineList, EngineOptions
from controlplane.protocol.launches import (
    EXITED,
    LAUNCH_ID_PATTERN,
    LOST,
    NONCE_PATTERN,
    RUNNING,
    ExitRecord,
    Launch,
    LaunchList,
    LaunchRef,
    Leftover,
    ListRequest,
    PortHolder,
    PortRequest,
    PortStatus,
    ProcessInfo,
    RunRecord,
    StartRequest,
    StopReport,
    StopRequest,
)
from controlplane.protocol.machine import Disk, GpuReport, Hello, Machine, Telemetry
from controlplane.protocol.redaction import redact
from controlplane.protocol.shapes import ShapeError, from_wire, to_wire
from controlplane.protocol.transfers import FileSlice, HttpReply, HttpRequest, ReadRequest
from controlplane.protocol.wire import VERSION, VerbError

_GIB = 1024**3


@dataclass(frozen=True)
class Program:
    """What a command line does: prints `log`, then runs until stopped, or ends at once with `rc`."""

    log: str = ""
    rc: int | None = None
    ignores_sigterm: bool = False
    outlives_sigkill: bool = False  # as a process that is stuck in the GPU driver
    serves: Callable[[HttpRequest], HttpReply] | None = None  # on every port that its launch reserved


@dataclass
class _FakeLaunch:
    run: RunRecord
    program: Program
    log: bytes = b""
    exit: ExitRecord | None = None
    processes: list[ProcessInfo] = field(default_factory=list)
    is_keeper_alive: bool = True
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass
class FakeHost:
    """State of the pretended machine; change it freely between calls."""

    hostname: str = "fake"
    programs: dict[tuple[str, ...], Program] = field(default_factory=dict)
    engines: list[Engine] = field(default_factory=list)
    options: dict[str, EngineOptions] = field(default_factory=dict)  # by executable
    models: dict[str, ModelFacts] = field(default_factory=dict)  # by path
    adoptable: list[Adoptable] = field(default_factory=list)
    gpu: GpuReport = field(default_factory=lambda: GpuReport(status="none", message="This machine has no NVIDIA GPU."))
    foreign_ports: dict[int, PortHolder] = field(default_factory=dict)  # held by somebody else
    clock: Callable[[], float] = time.time
    boot_id: str = "boot-1"
    is_online: bool = True
    absence: type[Unreachable] = Unreachable
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list, repr=False)
    _launches: dict[str, _FakeLaunch] = field(default_factory=dict, repr=False)
    _pids: itertools.count[int] = field(default_factory=lambda: itertools.count(1000), repr=False)

    def link(self) -> FakeLink:
        """An open link to this host."""
        return FakeLink(self)

    # What real machines do by themselves

    def end(self, launch_id: str, *, rc: int | None = None, signal: str | None = None, orphans: int = 0) -> None:
        """The main process ends; the keeper clears away `orphans` processes that outlived it."""
        launch = self._launches[launch_id]
        leftovers = [Leftover(next(self._pids), ["VLLM::EngineCore"], "SIGTERM") for _ in range(orphans)]
        launch.processes = []
        launch.is_keeper_alive = False
        launch.exit = ExitRecord(
            at=self.clock(), rc=rc, signal=signal, leftovers=leftovers, is_complete=True, stop_requested=False
        )

    def kill_keeper(self, launch_id: str) -> None:
        """The keeper is killed; the processes run on, unwatched."""
        self._launches[launch_id].is_keeper_alive = False

    def print_log(self, launch_id: str, text: str) -> None:
        """The launch's processes print something."""
        self._launches[launch_id].log += text.encode()

    def reboot(self) -> None:
        """Every process is gone and nobody saw it."""
        self.boot_id = f"boot-{int(self.boot_id.split('-')[1]) + 1}"
        for launch in self._launches.values():
            launch.processes, launch.is_keeper_alive = [], False

    def go_offline(self, absence: type[Unreachable] = Unreachable) -> None:
        """Calls fail so until `is_online` is set again."""
        self.is_online, self.absence = False, absence

    # Verbs

    def answer(self, verb: str, params: dict[str, Any]) -> Any:
        """Carry out one verb as the host program would. Raises HostRefused."""
        self.calls.append((verb, params))
        handler = _VERBS.get(verb)
        try:
            if handler is None:
                raise VerbError("unknown_verb", f"The host program has no verb {verb!r}.")
            return to_wire(handler(self, params))
        except VerbError as error:
            raise HostRefused(error.code, error.message, error.remedy) from None
        except ShapeError as error:
            raise HostRefused("bad_request", str(error), "") from None

    def _start(self, params: dict[str, Any]) -> Launch:
        request = from_wire(StartRequest, params)
        if not re.fullmatch(LAUNCH_ID_PATTERN, request.launch_id) or not re.fullmatch(NONCE_PATTERN, request.nonce):
            raise VerbError("bad_request", "Launch id or nonce is malformed.")
        if not 0 <= request.nice <= 19:
            raise VerbError("bad_request", "nice is out of range.")
        if not request.argv or not request.argv[0]:
            raise VerbError("bad_request", "There is no command to start.")
        if request.launch_id in self._launches:
            return self._describe(self._launches[request.launch_id])
        for port in request.ports:
            holder = self._holder(port)
            if holder:
                who = f"launch {holder.launch_id}" if holder.launch_id else f"process {holder.pid}"
                raise VerbError("port_taken", f"Port {port} is held by {who}.", "Choose another port.")
        launch = self._new_launch(request)
        self._launches[request.launch_id] = launch
        if launch.program.rc is not None:
            self.end(request.launch_id, rc=launch.program.rc)
        return self._describe(launch)

    def _new_launch(self, request: StartRequest) -> _FakeLaunch:
        keeper, pid = next(self._pids), next(self._pids)
        program = self.programs.get(tuple(request.argv), Program())
        run = RunRecord(
            launch_id=request.launch_id,
            kind=request.kind,
            nonce=request.nonce,
            boot_id=self.boot_id,
            keeper_pid=keeper,
            keeper_start_ticks=keeper,
            pid=pid,
            pgid=pid,
            start_ticks=pid,
            started_at=self.clock(),
            argv=redact(request.argv),
            env_names=sorted({*request.env, *request.secret_env}),
            cwd=request.cwd,
            ports=request.ports,
        )
        main = ProcessInfo(pid=pid, start_ticks=pid, command=redact(request.argv), rss_bytes=_GIB, parent_pid=keeper)
        return _FakeLaunch(run=run, program=program, log=program.log.encode(), processes=[main])

    def _describe(self, launch: _FakeLaunch) -> Launch:
        return Launch(
            launch_id=launch.run.launch_id,
            state=EXITED if launch.exit else RUNNING if launch.is_keeper_alive else LOST,
            run=launch.run,
            is_main_alive=bool(launch.processes),
            is_keeper_alive=launch.is_keeper_alive,
            is_same_boot=launch.run.boot_id == self.boot_id,
            exit=launch.exit,
            processes=launch.processes,
            rss_bytes=sum(process.rss_bytes for process in launch.processes),
            log_bytes=len(launch.log),
        )

    def _list(self, params: dict[str, Any]) -> LaunchList:
        wanted = from_wire(ListRequest, params).launch_ids
        found = [launch for name, launch in self._launches.items() if wanted is None or name in wanted]
        return LaunchList(boot_id=self.boot_id, launches=[self._describe(launch) for launch in found])

    def _known(self, launch_id: str) -> _FakeLaunch:
        if not re.fullmatch(LAUNCH_ID_PATTERN, launch_id):
            raise VerbError("bad_request", f"{launch_id!r} is not a launch id.")
        if launch_id not in self._launches:
            raise VerbError("unknown_launch", f"No launch {launch_id} on this host.")
        return self._launches[launch_id]

    def _stop(self, params: dict[str, Any]) -> StopReport:
        request = from_wire(StopRequest, params)
        launch = self._known(request.launch_id)
        killed = launch.processes if launch.program.ignores_sigterm else []
        if launch.program.outlives_sigkill:
            return StopReport(
                launch_id=request.launch_id, is_gone=False, still_alive=launch.processes, killed=launch.processes
            )
        if launch.exit is None:
            name = None if not launch.is_keeper_alive else "SIGKILL" if killed else "SIGTERM"
            launch.exit = ExitRecord(at=self.clock(), signal=name, stop_requested=True, is_complete=True)
        launch.processes, launch.is_keeper_alive = [], False
        return StopReport(launch_id=request.launch_id, is_gone=True, killed=killed, exit=launch.exit)

    def _remove(self, params: dict[str, Any]) -> None:
        launch_id = from_wire(LaunchRef, params).launch_id
        launch = self._launches.get(launch_id)
        if launch and (launch.processes or launch.is_keeper_alive):
            raise VerbError("still_running", f"Launch {launch_id} is not finished.", "Stop it first.")
        self._launches.pop(launch_id, None)

    def _read_file(self, params: dict[str, Any]) -> FileSlice:
        request = from_wire(ReadRequest, params)
        launch = self._known(request.launch_id)
        content = launch.log if request.name == "log" else launch.files.get(request.name)
        if content is None:
            raise VerbError("no_such_file", f"Launch {request.launch_id} has no file {request.name}.")
        size = len(content)
        offset = max(0, size + request.offset) if request.offset < 0 else min(request.offset, size)
        raw = content[offset : offset + max(4, request.limit)]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(raw)
        return FileSlice(text, offset, offset + len(raw) - len(decoder.getstate()[0]), size)

    def _check_port(self, params: dict[str, Any]) -> PortStatus:
        port = from_wire(PortRequest, params).port
        if not 1 <= port <= 65535:
            raise VerbError("bad_request", f"{port} is not a TCP port.")
        holder = self._holder(port)
        return PortStatus(port=port, is_free=holder is None, holder=holder)

    def _holder(self, port: int) -> PortHolder | None:
        for launch in self._launches.values():
            if port in launch.run.ports and (launch.processes or launch.is_keeper_alive):
                return PortHolder(port, launch.run.pid, launch.run.argv, "fake", launch.run.launch_id)
        return self.foreign_ports.get(port)

    def _http(self, params: dict[str, Any]) -> HttpReply:
        request = from_wire(HttpRequest, params)
        for launch in self._launches.values():
            if request.port in launch.run.ports and launch.processes and launch.program.serves:
                return launch.program.serves(request)
        raise VerbError("http_refused", f"Nothing listens on port {request.port}.", "Wait, or read the log.")

    def _inspect_model(self, params: dict[str, Any]) -> ModelFacts:
        facts = self.models.get(str(params.get("path")))
        if facts is None:
            raise VerbError("no_such_path", f"There is no {params.get('path')} on this host.", "Check the path.")
        return facts

    def _engine_options(self, params: dict[str, Any]) -> EngineOptions:
        options = self.options.get(str(params.get("executable")))
        if options is None:
            raise VerbError("no_engine", f"{params.get('executable')} is no vLLM executable here.")
        return options

    def _probe(self, params: dict[str, Any]) -> Machine:
        disks = [Disk(path, 1000 * _GIB, 500 * _GIB) for path in ["~", *params.get("paths", [])]]
        return Machine(
            hostname=self.hostname,
            os_name="Fake Linux",
            kernel="6.1",
            architecture="x86_64",
            boot_id=self.boot_id,
            user="fake",
            python_version="3.11.0",
            python_executable="/usr/bin/python3",
            cpu_model="Fake CPU",
            cpu_count=16,
            memory_total_bytes=128 * _GIB,
            memory_available_bytes=100 * _GIB,
            disks=disks,
            gpu=self.gpu,
        )

    def _telemetry(self, params: dict[str, Any]) -> Telemetry:
        return Telemetry(self.clock(), 10.0, 100.0, 0.5, 128 * _GIB, 100 * _GIB, [])

    def _hello(self, params: dict[str, Any]) -> Hello:
        return Hello(VERSION, "fake", "3.11.0", self.hostname, self.boot_id, 1, "~")


_VERBS: dict[str, Callable[[FakeHost, dict[str, Any]], Any]] = {
    "hello": FakeHost._hello,
    "probe": FakeHost._probe,
    "telemetry": FakeHost._telemetry,
    "find_engines": lambda host, _: EngineList(host.engines),
    "engine_options": FakeHost._engine_options,
    "inspect_model": FakeHost._inspect_model,
    "adoptable": lambda host, _: AdoptableList(host.adoptable),
    "check_port": FakeHost._check_port,
    "start": FakeHost._start,
    "stop": FakeHost._stop,
    "list": FakeHost._list,
    "describe": lambda host, params: host._describe(host._known(from_wire(LaunchRef, params).launch_id)),
    "remove": FakeHost._remove,
    "read_file": FakeHost._read_file,
    "http": FakeHost._http,
}


class FakeLink:
    """A link to a FakeHost."""

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        """See `HostLink.call`."""
        if self._is_closed:
            raise LinkBroken(f"The connection to {self._host.hostname} was closed.")
        if not self._host.is_online:
            raise self._host.absence(f"{self._host.hostname} cannot be reached.")
        return self._host.answer(verb, params)

    async def close(self) -> None:
        """See `HostLink.close`."""
        self._is_closed = True
