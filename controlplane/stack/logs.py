"""Log files of the stack: one a program, kept below a size, the newest kept longest."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

LARGEST_BYTES = 8 * 1024 * 1024


def cap(paths: Iterable[Path], *, largest_bytes: int = LARGEST_BYTES) -> None:
    """Move the content of each file that has grown past `largest_bytes` to `<name>.1`, over the one before.

    Programs keep writing to the same open file (in append mode, so truncating is safe); a line written between the copy
    and the truncation is lost, which a log can bear and a pipe through this process could not improve on: it would stop
    every program when this one dies.
    """
    for path in paths:
        if path.exists() and path.stat().st_size > largest_bytes:
            shutil.copyfile(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)


def tail(path: Path, *, lines: int = 12, window_bytes: int = 16_384) -> str:
    """The last lines of a file, or a word on why there are none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - window_bytes))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(it wrote no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"
