"""The bytes of one HTTP/1.1 answer, understood as they come: head, then body (chunks, a length, or all until the end).

No input or output here. RFC 9112 as far as a client needs it that sends one request at a time and never upgrades.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

MAX_HEAD_BYTES = 64 * 1024
MAX_SIZE_LINE_BYTES = 256
_END_OF_HEAD, _END_OF_LINE = b"\r\n\r\n", b"\r\n"
_BODILESS = {204, 304}


class BadAnswer(ValueError):  # noqa: N818
    """Bytes that are no HTTP/1.1 answer."""


class Receiver(Protocol):
    """Who is told of a request and its answer, in the turn of the event loop in which it happens.

    `at` is `time.perf_counter()` of the system call.
    """

    def sent(self, at: float) -> None:
        """The request goes to the socket."""

    def head(self, status: int, headers: dict[str, str]) -> None:
        """The final status, and the headers by lower-case name."""

    def body(self, data: bytes, at: float) -> None:
        """The next bytes of the body, without their framing."""


class Framing:
    """One answer on its way. `is_complete` at its end; then `is_reusable` tells whether the connection may go on."""

    def __init__(self, receiver: Receiver) -> None:
        self.is_complete = False
        self.is_reusable = False
        self._receiver = receiver
        self._take: Callable[[bytes, float], bytes | None] = self._take_head
        self._rest = b""  # bytes that cannot be understood before more have come
        self._left = 0  # bytes that the body, or its present chunk, still has

    def feed(self, data: bytes, at: float) -> None:
        """Bytes that were read at `at`. Raises BadAnswer."""
        if self._take == self._take_size and not self._rest and self._is_whole_chunk(data, at):
            return
        data = self._rest + data
        while data and not self.is_complete:
            rest = self._take(data, at)
            if rest is None:
                break
            data = rest
        self._rest = data
        if self.is_complete and data:
            self.is_reusable = False  # an answer to nothing: who knows what the next one would be

    def end(self) -> bool:
        """The connection has ended; True when that was the end of the answer as well."""
        if self._take == self._take_to_the_end:
            self.is_complete = True
        return self.is_complete

    def _is_whole_chunk(self, data: bytes, at: float) -> bool:
        """The everyday read, one chunk and nothing else: handed on at once, since it comes once a token."""
        start = data.find(_END_OF_LINE) + 2
        size_line = data[: start - 2]
        if not size_line.isalnum() or not data.endswith(_END_OF_LINE):
            return False
        try:
            size = int(size_line, 16)
        except ValueError:
            return False
        if size == 0 or start + size + 2 != len(data):
            return False
        self._receiver.body(data[start:-2], at)
        return True

    # Each takes what it can from the front and gives the rest, or None when it needs more bytes.

    def _take_head(self, data: bytes, _at: float) -> bytes | None:
        end = data.find(_END_OF_HEAD)
        if end < 0:
            if len(data) > MAX_HEAD_BYTES:
                raise BadAnswer(f"more than {MAX_HEAD_BYTES:,} bytes of headers")
            return None
        version, status, headers = _parse_head(data[:end])
        if status >= 200:  # before it there may be 100 Continue and the like
            tokens = {token.strip().lower() for token in headers.get("connection", "").split(",")}
            self.is_reusable = version == "HTTP/1.1" and "close" not in tokens
            self._choose_body(status, headers)
            self._receiver.head(status, headers)
        return data[end + len(_END_OF_HEAD) :]

    def _choose_body(self, status: int, headers: dict[str, str]) -> None:
        length = headers.get("content-length")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._take = self._take_size
        elif status in _BODILESS or length == "0":
            self.is_complete = True
        elif length is None:
            self._take, self.is_reusable = self._take_to_the_end, False
        elif length.isdecimal():
            self._take, self._left = self._take_length, int(length)
        else:
            raise BadAnswer(f"Content-Length: {length[:40]}")

    def _take_to_the_end(self, data: bytes, at: float) -> bytes | None:
        self._receiver.body(data, at)
        return b""

    def _take_length(self, data: bytes, at: float) -> bytes | None:
        rest = self._take_left(data, at)
        self.is_complete = not self._left
        return rest

    def _take_size(self, data: bytes, _at: float) -> bytes | None:
        end = data.find(_END_OF_LINE)
        if end < 0 and len(data) <= MAX_SIZE_LINE_BYTES:
            return None
        size = data[: max(end, 0)].split(b";", 1)[0].strip()  # what follows a semicolon is an extension
        if not size.isalnum() or end > MAX_SIZE_LINE_BYTES:
            raise BadAnswer(f"a chunk begins with {data[:40]!r}")
        try:
            self._left = int(size, 16)
        except ValueError:
            raise BadAnswer(f"a chunk begins with {data[:40]!r}") from None
        self._take = self._take_chunk if self._left else self._take_trailer
        return data[end + 2 :]

    def _take_chunk(self, data: bytes, at: float) -> bytes | None:
        rest = self._take_left(data, at)
        if not self._left:
            self._take = self._take_end_of_chunk
        return rest

    def _take_end_of_chunk(self, data: bytes, _at: float) -> bytes | None:
        if len(data) < 2:
            return None
        if not data.startswith(_END_OF_LINE):
            raise BadAnswer(f"a chunk goes on with {data[:40]!r}")
        self._take = self._take_size
        return data[2:]

    def _take_trailer(self, data: bytes, _at: float) -> bytes | None:
        end = data.find(_END_OF_LINE)
        if end < 0:
            if len(data) > MAX_HEAD_BYTES:
                raise BadAnswer(f"more than {MAX_HEAD_BYTES:,} bytes of trailers")
            return None
        self.is_complete = end == 0
        return data[end + 2 :]

    def _take_left(self, data: bytes, at: float) -> bytes:
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        self._receiver.body(part, at)
        return rest


def _parse_head(head: bytes) -> tuple[str, int, dict[str, str]]:
    """("HTTP/1.1", 200, headers by lower-case name; one that comes twice is joined by a comma)."""
    status_line, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = status_line.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdecimal() or len(status) < 3:
        raise BadAnswer(f"the answer begins with {status_line[:60]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadAnswer(f"a header without a colon: {line[:60]!r}")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return version, int(status), headers
