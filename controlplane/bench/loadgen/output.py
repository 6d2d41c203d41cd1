"""The files a run talks through: each is replaced whole, so a reader never sees half of one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

PROGRESS, RESULT, REQUESTS = "progress.json", "result.json", "requests.json.gz"


class OutputFolder:
    """Where a run writes. Made if missing; results of an earlier run in it are refused, not overwritten."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (self.path / RESULT).exists():
            raise FileExistsError(f"{self.path / RESULT} exists: every run needs a folder of its own")

    def write_progress(self, progress: dict[str, Any]) -> None:
        self._replace(PROGRESS, _json(progress))

    def write_requests(self, columns: dict[str, Any]) -> None:
        self._replace(REQUESTS, gzip.compress(_json(columns), compresslevel=6, mtime=0))

    def write_result(self, result: dict[str, Any]) -> None:
        """Last of all: a result.json means that every other file is final."""
        self._replace(RESULT, _json(result))

    def _replace(self, name: str, content: bytes) -> None:
        temporary = self.path / f".{name}.tmp"
        temporary.write_bytes(content)
        temporary.replace(self.path / name)


def _json(value: dict[str, Any]) -> bytes:
    """Strict JSON: a NaN here is our fault and must not reach a file."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
