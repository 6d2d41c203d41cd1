"""Server-sent events, read incrementally from bytes as they come off the socket."""

from __future__ import annotations

# A single event is at most this long; a stream without line ends must not fill the memory.
MAX_EVENT_BYTES = 16 * 1024 * 1024


class EventTooLong(ValueError):  # noqa: N818
    """More than MAX_EVENT_BYTES without the end of an event."""


class EventParser:
    """Bytes in, the `data` of finished events out; how the bytes are split makes no difference.

    Follows the WHATWG rules as far as chat streams need: LF, CRLF and CR end a line; an empty line ends an event;
    several data lines are joined by LF; comments and other fields are skipped; an event cut off by the end is dropped.
    Works on bytes, so a character split over two packets stays whole.
    """

    def __init__(self) -> None:
        self._line = bytearray()  # the unfinished line
        self._data: list[bytes] = []  # finished data lines of the unfinished event
        self._size = 0
        self._skip_lf = False  # the last byte was CR: an LF right after it belongs to it

    def feed(self, chunk: bytes) -> list[bytes]:
        if not self._line and not self._data and _is_one_event(chunk):
            self._skip_lf = False
            return [chunk[6:-2]]
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._line += chunk
        if b"\n" not in chunk:
            self._check_size()
            return []
        lines = bytes(self._line).split(b"\n")
        self._line = bytearray(lines.pop())
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                    self._data = []
                    self._size = 0
            elif line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._data.append(value)
                self._size += len(value)
        self._check_size()
        return events

    def _check_size(self) -> None:
        if self._size + len(self._line) > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event is longer than {MAX_EVENT_BYTES:,} bytes")


def _is_one_event(chunk: bytes) -> bool:
    """The everyday read: exactly one event of one line. Told cheaply, since it comes once a token."""
    return (
        chunk.startswith(b"data: ")
        and chunk.endswith(b"\n\n")
        and chunk.count(b"\n") == 2
        and b"\r" not in chunk
        and len(chunk) <= MAX_EVENT_BYTES
    )
