"""Read slices of a launch's files, store files that the control plane brings."""

from __future__ import annotations

import base64
import binascii
import codecs
import hashlib
import os
import re
from pathlib import Path

from controlplane.agent import records
from controlplane.agent.place import Place
from controlplane.protocol.transfers import FileSlice, PutRequest, ReadRequest, StoredFile
from controlplane.protocol.wire import VerbError

_LIMIT_BYTES = 4 * 1024 * 1024
_LONGEST_CHARACTER_BYTES = 4  # a smaller slice might never get past one
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
_OWN_FILES = frozenset({"lock", "run.json", "exit.json", "stop.json", "log", "keeper.log"})


def read(place: Place, request: ReadRequest) -> FileSlice:
    """A slice of a file in a launch's directory. Nothing yet is an empty slice; no such file is `no_such_file`."""
    file = records.existing(place.launches, request.launch_id) / _checked(request.name)
    limit = max(_LONGEST_CHARACTER_BYTES, min(request.limit, _LIMIT_BYTES))
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            offset = max(0, size + request.offset) if request.offset < 0 else min(request.offset, size)
            stream.seek(offset)
            raw = stream.read(limit)
    except FileNotFoundError as error:
        raise VerbError("no_such_file", f"Launch {request.launch_id} has no file {request.name}.", "") from error
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw)
    cut = len(decoder.getstate()[0])  # bytes of a character that the end of the slice has split
    return FileSlice(text=text, offset=offset, next_offset=offset + len(raw) - cut, size_bytes=size)


def put(place: Place, request: PutRequest) -> StoredFile:
    """Store a file by its digest. Damaged content is refused; a file that is there already is left alone."""
    if not re.fullmatch(r"[0-9a-f]{64}", request.sha256):
        raise VerbError("bad_request", "The digest is not a SHA-256 in hexadecimal.", "Send 64 hexadecimal digits.")
    file = _target(place, request)
    if file.exists() and _digest(file.read_bytes()) == request.sha256:
        return StoredFile(path=str(file), size_bytes=file.stat().st_size, was_present=True)
    try:
        content = base64.b64decode(request.content_base64, validate=True)
    except binascii.Error as error:
        raise VerbError("bad_request", "The content is not base64.", "Encode the file's bytes in base64.") from error
    if _digest(content) != request.sha256:
        raise VerbError("damaged_transfer", f"{request.name or 'The file'} arrived damaged.", "Send it again.")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700 if request.is_executable else 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    part.replace(file)
    return StoredFile(path=str(file), size_bytes=len(content))


def _target(place: Place, request: PutRequest) -> Path:
    if request.launch_id is None:
        suffix = f"-{_checked(request.name)}" if request.name else ""
        return place.tools / f"{request.sha256}{suffix}"
    if request.name in _OWN_FILES:
        raise VerbError("bad_request", f"{request.name} belongs to the host program.", "Choose another name.")
    return records.existing(place.launches, request.launch_id) / _checked(request.name)


def _checked(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise VerbError("bad_request", f"{name!r} is not a plain file name.", "Use letters, digits, '.', '_' and '-'.")
    return name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
