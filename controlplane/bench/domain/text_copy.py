"""Bytes as text beside the original: the host program reads files of a launch as text (`protocol.transfers.FileSlice`).

Called by the zipapp on the host when the load generator is done; read back by the control plane.
"""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path

REQUESTS = "requests.json.gz"
TEXT_COPY = "requests.json.gz.b64"


def leave_text_copy(spec_file: str) -> None:
    """Write the per-request columns of the run that `spec_file` ordered once more, in base64. A run without any
    leaves nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # a spec or run that failed has said so itself
        folder = Path(json.loads(Path(spec_file).read_text(encoding="utf-8"))["output_dir"])
        content = base64.b64encode((folder / REQUESTS).read_bytes())
        temporary = folder / f".{TEXT_COPY}.tmp"
        temporary.write_bytes(content)
        temporary.replace(folder / TEXT_COPY)
