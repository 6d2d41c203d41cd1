"""The control plane's own programs: exact command lines and environments, decided in one place."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from controlplane.stack.paths import StatePaths
from controlplane.stack.process import Program

REPOSITORY = Path(__file__).resolve().parents[2]
STAGE = 1
WORKER_THREADS = 8
READY_WITHIN_S = 120.0  # imports take 2 s on a quiet machine, and ten times that on one that loads a model

# glibc gives every thread an arena of its own, which a pool of mostly waiting threads keeps half empty.
MEMORY = {"MALLOC_ARENA_MAX": "2"}


def web(
    paths: StatePaths,
    environment: Mapping[str, str],
    *,
    listening: int,
    is_ready: Callable[[], bool],
    inherited_files: tuple[int, ...] = (),
) -> Program:
    """uvicorn on the listening socket `listening` (a file descriptor), which stays open while it is restarted."""
    argv = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--fd", str(listening)]
    argv += ["--http", "httptools", "--loop", "uvloop", "--timeout-graceful-shutdown", "3"]
    argv += ["--no-access-log", "--no-server-header", "--log-level", "warning"]
    return _program("web", argv, paths, environment, is_ready=is_ready, inherited_files=(listening, *inherited_files))


def worker(
    paths: StatePaths,
    environment: Mapping[str, str],
    *,
    is_ready: Callable[[], bool] = lambda: True,
    inherited_files: tuple[int, ...] = (),
) -> Program:
    """A Celery worker of threads: its tasks wait for hosts. What gossip and mingle tell, Postgres knows better."""
    argv = [sys.executable, "-m", "celery", "-A", "controlplane", "worker", "-P", "threads", "-c", str(WORKER_THREADS)]
    argv += ["-n", "worker@%h", "-l", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return _program("worker", argv, paths, environment, is_ready=is_ready, grace_s=15, inherited_files=inherited_files)


def beat(paths: StatePaths, environment: Mapping[str, str], *, inherited_files: tuple[int, ...] = ()) -> Program:
    argv = [sys.executable, "-m", "celery", "-A", "controlplane.stack.clock", "beat", "-l", "WARNING"]
    argv += ["-S", "controlplane.stack.clock:Clock", "--pidfile="]
    return _program("beat", argv, paths, environment, inherited_files=inherited_files)


def _program(
    name: str,
    argv: list[str],
    paths: StatePaths,
    environment: Mapping[str, str],
    *,
    is_ready: Callable[[], bool] = lambda: True,
    grace_s: float = 10,
    inherited_files: tuple[int, ...] = (),
) -> Program:
    return Program(
        name=name,
        argv=tuple(argv),
        log=paths.logs / f"{name}.log",
        stage=STAGE,
        environment={**MEMORY, **environment},
        is_ready=is_ready,
        ready_within_s=READY_WITHIN_S,
        grace_s=grace_s,
        cwd=REPOSITORY,
        inherited_files=inherited_files,
    )
