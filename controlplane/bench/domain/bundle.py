"""The load generator as one file for a host: a zipapp that needs Python 3.9 and nothing else.

Equal sources give equal bytes, so a host's copy can be checked by digest. Reads sources; imports none of them.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("controlplane/bench/domain", "controlplane/bench/loadgen")
PARENTS = ("controlplane/__init__.py", "controlplane/bench/__init__.py", "controlplane/protocol/__init__.py")
SHARED = ("controlplane/protocol/engine_metrics.py", "controlplane/protocol/keys.py")
MAIN = """\
import sys

from controlplane.bench.domain.text_copy import leave_text_copy
from controlplane.bench.loadgen.__main__ import main

code = main(sys.argv[1:])
if len(sys.argv) == 2:
    leave_text_copy(sys.argv[1])
sys.exit(code)
"""

# The calibration instruments stay at home.
LEFT_OUT = {"calibration.py", "calibrate.py", "behaviour.py", "paced.py", "yardstick.py"}
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def build_loadgen(root: Path = PACKAGE_ROOT) -> bytes:
    """The zipapp's bytes; run it as `python loadgen.pyz SPEC.json`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", MAIN.encode())
        for name in PARENTS:
            _add(archive, name, b"")  # packages only; the shell's own code does not travel
        for name in SHARED:
            _add(archive, name, (root / name).read_bytes())
        for folder in FOLDERS:
            for path in sorted((root / folder).glob("*.py")):
                if path.name not in LEFT_OUT:
                    _add(archive, f"{folder}/{path.name}", path.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # Stored, not deflated: compressors differ between builds of zlib, and the digest must not.
    info = zipfile.ZipInfo(name, date_time=ZIP_EPOCH)
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)
