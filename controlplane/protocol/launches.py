"""Launches: one process group that the host program started and keeps an eye on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

NONCE_VARIABLE = "VCP_LAUNCH"
"""Environment variable that marks every process of a launch."""

LAUNCH_ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
NONCE_PATTERN = r"[A-Za-z0-9_-]{8,128}"

STARTING, RUNNING, EXITED, LOST = "starting", "running", "exited", "lost"


@dataclass(frozen=True)
class StartRequest:
    """`start`: run `argv` as launch `launch_id`; asked again with the same id, the same launch is answered."""

    launch_id: str
    nonce: str
    argv: list[str]
    kind: str = "engine"  # or "job": something that ends by itself
    env: dict[str, str] = field(default_factory=dict)
    secret_env: dict[str, str] = field(default_factory=dict, repr=False)  # reaches the process, never disk or argv
    cwd: Optional[str] = None
    ports: list[int] = field(default_factory=list)  # reserved on the machine for as long as the launch lives
    leftover_grace_s: float = 2.0  # between SIGTERM and SIGKILL for what outlives the main process
    nice: int = 0  # 0 to 19: how far it gives way to everything else on the machine


@dataclass(frozen=True)
class StopRequest:
    """`stop`: SIGTERM to the main process, SIGKILL to what is left, then look whether all is really gone."""

    launch_id: str
    term_timeout_s: float = 30.0
    kill_timeout_s: float = 10.0


@dataclass(frozen=True)
class LaunchRef:
    """`describe`, `remove`: one launch by its id."""

    launch_id: str


@dataclass(frozen=True)
class ProcessInfo:
    """A process as it is now; `start_ticks` (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    start_ticks: int
    command: list[str]  # redacted
    rss_bytes: int = 0
    parent_pid: int = 0


@dataclass(frozen=True)
class Leftover:
    """A process that outlived the main process of its launch, and what was done about it."""

    pid: int
    command: list[str]
    signal: str  # the last signal it was sent


@dataclass(frozen=True)
class ExitRecord:
    """How a launch ended. `rc` and `signal` are None when nobody saw the end (the keeper had been killed)."""

    at: float  # Unix time
    rc: Optional[int] = None
    signal: Optional[str] = None
    stop_requested: bool = False
    leftovers: list[Leftover] = field(default_factory=list)
    is_complete: bool = False  # every process of the launch is gone


@dataclass(frozen=True)
class RunRecord:
    """What is written down when a launch starts. Environment values are not part of it."""

    launch_id: str
    kind: str
    nonce: str
    boot_id: str
    keeper_pid: int
    keeper_start_ticks: int
    pid: int
    pgid: int
    start_ticks: int
    started_at: float
    argv: list[str]  # redacted
    env_names: list[str] = field(default_factory=list)
    cwd: Optional[str] = None
    ports: list[int] = field(default_factory=list)
    leftover_grace_s: float = 2.0
    is_subreaper: bool = True
    nice: int = 0


@dataclass(frozen=True)
class Launch:
    """A launch as `start`, `list` and `describe` answer it.

    `starting`: claimed, no process yet. `running`: the main process lives and its keeper watches. `exited`: the
    keeper saw the end (`exit`). `lost`: nobody watches; `processes` says what is still there and `is_main_alive`
    whether it may serve.
    """

    launch_id: str
    state: str
    run: Optional[RunRecord] = None
    is_main_alive: bool = False
    is_keeper_alive: bool = False
    is_same_boot: bool = True
    exit: Optional[ExitRecord] = None
    processes: list[ProcessInfo] = field(default_factory=list)  # main first; after an exit: what is left
    rss_bytes: int = 0  # of all processes together
    log_bytes: int = 0


@dataclass(frozen=True)
class ListRequest:
    """`list`: every launch, or of these ids those that are there (a look every two seconds must not read years)."""

    launch_ids: Optional[list[str]] = None


@dataclass(frozen=True)
class LaunchList:
    """The launches asked for below one root, with the machine's boot id. What is not in it really is not there."""

    boot_id: str
    launches: list[Launch]


@dataclass(frozen=True)
class PortHolder:
    """Who holds a TCP port. `pid` is None when the holder belongs to another user and cannot be seen."""

    port: int
    pid: Optional[int] = None
    command: list[str] = field(default_factory=list)
    user: Optional[str] = None
    launch_id: Optional[str] = None  # when it is reserved by a launch of any control plane on this machine
    is_listening: bool = False


@dataclass(frozen=True)
class PortRequest:
    """`check_port`"""

    port: int


@dataclass(frozen=True)
class PortStatus:
    port: int
    is_free: bool
    holder: Optional[PortHolder] = None


@dataclass(frozen=True)
class StopReport:
    """What `stop` found at the end. `is_gone` only when no process, no port and no GPU memory of the launch is left."""

    launch_id: str
    is_gone: bool
    still_alive: list[ProcessInfo] = field(default_factory=list)
    killed: list[ProcessInfo] = field(default_factory=list)  # needed SIGKILL
    ports_held: list[PortHolder] = field(default_factory=list)
    gpu_pids_held: list[int] = field(default_factory=list)
    took_s: float = 0.0
    exit: Optional[ExitRecord] = None
