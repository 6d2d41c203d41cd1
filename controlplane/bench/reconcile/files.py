"""Files that the load generator leaves in its launch's folder."""

import base64
import binascii
import gzip
import json
import zlib
from typing import Any

from controlplane.bench.domain.text_copy import TEXT_COPY
from controlplane.drivers.errors import HostRefused
from controlplane.inventory.models import Host
from controlplane.inventory.services import call_host

SLICE_BYTES = 1024 * 1024
LARGEST_BYTES = 64 * 1024 * 1024
"""A result this long is no result; reading it would only fill the worker's memory."""


def read_text(host: Host, launch_id: str, name: str) -> str | None:
    """A whole file of a launch; None when there is none."""
    pieces: list[str] = []
    offset = 0
    while True:
        request = {"launch_id": launch_id, "name": name, "offset": offset, "limit": SLICE_BYTES}
        try:
            piece = call_host(host, "read_file", request)
        except HostRefused as refusal:
            if refusal.code in {"no_such_file", "unknown_launch"}:
                return None
            raise
        pieces.append(piece["text"])
        is_whole = piece["next_offset"] >= piece["size_bytes"] or piece["next_offset"] == offset
        if is_whole or piece["next_offset"] > LARGEST_BYTES:
            return "".join(pieces)
        offset = piece["next_offset"]


def read_json(host: Host, launch_id: str, name: str) -> dict[str, Any] | None:
    """A JSON object; None when the file is not there or is none."""
    text = read_text(host, launch_id, name)
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def read_requests(host: Host, launch_id: str) -> bytes | None:
    """requests.json.gz as the load generator wrote it; None when it is not there or damaged."""
    text = read_text(host, launch_id, TEXT_COPY)
    try:
        content = base64.b64decode(text or "", validate=True)
        gzip.decompress(content)
    except (binascii.Error, OSError, EOFError, zlib.error):
        return None
    return content or None
