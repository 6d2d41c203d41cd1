"""Reading and writing files of a launch, and talking HTTP to a server on the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional


@dataclass(frozen=True)
class ReadRequest:
    """`read_file`: a slice of a launch's log or of another of its files. A negative offset counts from the end."""

    launch_id: str
    name: str = "log"
    offset: int = 0
    limit: int = 256 * 1024


@dataclass(frozen=True)
class FileSlice:
    """Bytes as text: broken UTF-8 becomes U+FFFD, a character cut by the slice's end is left for the next one."""

    text: str
    offset: int
    next_offset: int
    size_bytes: int


@dataclass(frozen=True)
class PutRequest:
    """`put_file`: content in base64, stored in a launch's directory, or (no launch) among the tools, by its digest."""

    sha256: str
    content_base64: str = field(repr=False)
    name: str = ""
    launch_id: Optional[str] = None
    is_executable: bool = False


@dataclass(frozen=True)
class StoredFile:
    path: str
    size_bytes: int
    was_present: bool = False


@dataclass(frozen=True)
class HttpRequest:
    """`http`: one request to a server on this machine; the address must be one of its own."""

    port: int
    method: str = "GET"
    path: str = "/"
    address: str = "127.0.0.1"
    headers: dict[str, str] = field(default_factory=dict, repr=False)  # may carry a key
    body: Optional[str] = field(default=None, repr=False)
    timeout_s: float = 10.0
    body_limit_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True)
class HttpReply:
    status: int
    headers: dict[str, str]  # names in lower case
    body: str
    elapsed_ms: float
    is_truncated: bool = False
