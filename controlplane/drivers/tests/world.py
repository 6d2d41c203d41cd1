"""One host to test against, whatever stands behind it."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint
from controlplane.drivers.fake import FakeHost, Program
from controlplane.drivers.tests import programs
from controlplane.protocol.launches import NONCE_VARIABLE, Launch, LaunchList, StopReport
from controlplane.protocol.shapes import from_wire
from controlplane.protocol.transfers import FileSlice, HttpReply, HttpRequest

T = TypeVar("T")
PATIENCE_S = 20.0


def eventually(look: Callable[[], T | None], timeout_s: float = PATIENCE_S) -> T:
    """Look until something true is seen, and return it; for other processes' deeds, which have no event to wait for."""
    deadline = time.monotonic() + timeout_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"never happened: {look}"
        time.sleep(0.02)
    return seen


@dataclass
class World:
    """A host reached through `links`, with shorthands. Launches get ids and nonces of their own."""

    endpoint: Endpoint
    fake: FakeHost | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def call(self, verb: str, **params: Any) -> Any:
        return links.call(self.endpoint, verb, params, timeout_s=PATIENCE_S)

    def start(self, argv: list[str], **more: Any) -> Launch:
        number = next(self._numbers)
        params = {"launch_id": f"launch-{number}", "nonce": uuid.uuid4().hex, "argv": argv}
        return from_wire(Launch, self.call("start", **{**params, **more}))

    def start_ready(self, argv: list[str], **more: Any) -> Launch:
        """Start and wait until the program says that it is ready."""
        launch = self.start(argv, **more)
        eventually(lambda: "ready" in self.log(launch.launch_id))
        return launch

    def describe(self, launch_id: str) -> Launch:
        return from_wire(Launch, self.call("describe", launch_id=launch_id))

    def listing(self) -> dict[str, Launch]:
        found = from_wire(LaunchList, self.call("list"))
        return {launch.launch_id: launch for launch in found.launches}

    def ended(self, launch_id: str) -> Launch:
        """The launch once everything of it is gone."""
        return eventually(
            lambda: found if (found := self.describe(launch_id)).exit and found.exit.is_complete else None
        )

    def stop(self, launch_id: str, **more: Any) -> StopReport:
        return from_wire(StopReport, self.call("stop", launch_id=launch_id, **more))

    def log(self, launch_id: str) -> str:
        return self.read(launch_id).text

    def read(self, launch_id: str, **more: Any) -> FileSlice:
        return from_wire(FileSlice, self.call("read_file", launch_id=launch_id, **more))

    def files(self) -> list[Path]:
        """Everything that the host program keeps below its root (real hosts only)."""
        return [file for file in Path(self.endpoint.root).rglob("*") if file.is_file()]

    def clean(self) -> None:
        """Leave the host as if nothing had been launched."""
        for launch_id in self.listing():
            assert self.stop(launch_id, term_timeout_s=0.1).is_gone
            self.call("remove", launch_id=launch_id)


def fake_host() -> FakeHost:
    """A FakeHost that knows what the test programs would do."""
    return FakeHost(
        programs={
            tuple(programs.SLEEPER): Program(log="ready\n"),
            tuple(programs.DEAF): Program(log="ready\n", ignores_sigterm=True),
            tuple(programs.QUITTER): Program(log="first line\ndéjà vu\n", rc=3),
        }
    )


def serving(host: FakeHost | None, port: int) -> list[str]:
    """An argv that serves on a port, known to the fake host as well."""
    argv = programs.server(port)
    if host:
        host.programs[tuple(argv)] = Program(log="ready\n", serves=_answer)
    return argv


def _answer(request: HttpRequest) -> HttpReply:
    value = (
        {"echo": request.body}
        if request.body
        else {"path": request.path, "key_given": "Authorization" in request.headers}
    )
    return HttpReply(200, {}, json.dumps(value), 1.0)


def is_alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked(nonce: str) -> list[int]:
    """Pids of all processes on this machine that carry a launch's mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(NONCE_VARIABLE) == nonce:
                found.append(process.pid)
    return found


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
