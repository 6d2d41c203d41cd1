"""Build the host program: one file from `controlplane/agent` and `controlplane/protocol`, always the same bytes."""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import controlplane

_PACKAGES = ("agent", "protocol")
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"""import sys

if sys.version_info < (3, 9):
    sys.stderr.write("The host program needs Python 3.9 or later, this is " + sys.version.split()[0] + "\\n")
    sys.exit(3)

from controlplane.agent.program import main

sys.exit(main())
"""


@dataclass(frozen=True)
class Program:
    """The host program, ready to be sent."""

    content: bytes = field(repr=False)
    digest: str  # SHA-256 in hexadecimal

    @property
    def file_name(self) -> str:
        return f"agent-{self.digest[:16]}.pyz"


@lru_cache(maxsize=1)
def program() -> Program:
    """The program of this checkout, built once per process."""
    content = build(Path(controlplane.__path__[0]))
    return Program(content=content, digest=hashlib.sha256(content).hexdigest())


def build(package: Path) -> bytes:
    """Zip the sources below `package` (without tests), in fixed order and with fixed times."""
    members = {"__main__.py": _MAIN, "controlplane/__init__.py": b""}
    for name in _PACKAGES:
        for source in sorted((package / name).glob("*.py")):
            members[f"controlplane/{name}/{source.name}"] = source.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in sorted(members.items()):
            entry = zipfile.ZipInfo(path, date_time=_FIXED_TIME)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return _SHEBANG + buffer.getvalue()


def place_in(directory: Path) -> Path:
    """Write the program into a local directory under its digest, unless it is there, and return its path."""
    built = program()
    target = directory / built.file_name
    if target.exists() and target.read_bytes() == built.content:
        return target
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as part:
        part.write(built.content)
    Path(part.name).replace(target)
    return target
