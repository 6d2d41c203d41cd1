"""What a launch leaves on disk: one directory, named after its id, mode 0700.

lock        held (flock) while somebody starts it and by its keeper ever after
run.json    RunRecord, written once the main process exists
stop.json   a stop was asked for
exit.json   ExitRecord: at the main process's end, again when everything is gone
log         stdout and stderr of all its processes
keeper.log  errors of the keeper itself, normally empty
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Optional, TypeVar

from controlplane.protocol.launches import LAUNCH_ID_PATTERN, ExitRecord, RunRecord
from controlplane.protocol.shapes import ShapeError, from_wire, to_wire
from controlplane.protocol.wire import VerbError

T = TypeVar("T")


def directory(launches: Path, launch_id: str) -> Path:
    """Where a launch keeps its files; refuses ids that could name anything else."""
    if not re.fullmatch(LAUNCH_ID_PATTERN, launch_id):
        raise VerbError("bad_request", f"{launch_id!r} is not a launch id.", f"It must match {LAUNCH_ID_PATTERN}.")
    return launches / launch_id


def existing(launches: Path, launch_id: str) -> Path:
    """Like `directory`, and refuses an id that this root does not know."""
    found = directory(launches, launch_id)
    if not found.is_dir():
        raise VerbError(
            "unknown_launch", f"No launch {launch_id} on this host.", "List the launches; it may have been removed."
        )
    return found


def save_run(folder: Path, record: RunRecord) -> None:
    _save(folder / "run.json", to_wire(record))


def save_exit(folder: Path, record: ExitRecord) -> None:
    _save(folder / "exit.json", to_wire(record))


def save_stop(folder: Path, asked_at: float) -> None:
    """Remember that a stop was asked for, so that the end does not read as a crash."""
    if not stop_requested(folder):
        _save(folder / "stop.json", {"asked_at": asked_at})


def load_run(folder: Path) -> Optional[RunRecord]:
    return _load(folder / "run.json", RunRecord)


def load_exit(folder: Path) -> Optional[ExitRecord]:
    return _load(folder / "exit.json", ExitRecord)


def stop_requested(folder: Path) -> bool:
    return (folder / "stop.json").exists()


def size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _save(file: Path, value: dict[str, Any]) -> None:
    """Replace the file in one step: a reader sees the old content or the new, also after a power cut."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as stream:
        json.dump(value, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def _load(file: Path, shape: type[T]) -> Optional[T]:
    try:
        return from_wire(shape, json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (ShapeError, ValueError) as error:
        raise VerbError(
            "damaged_record", f"{file} cannot be read: {error}", "Look at the file; move the launch's directory aside."
        ) from error
