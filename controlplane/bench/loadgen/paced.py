"""A small HTTP server that sends each piece of an answer at its time, and tells when it really did.

For measuring instruments: one thread, no event loop. Between any two answers that are begun, whatever has arrived is
read and stamped, and a piece is sent by the system call itself: the stamps are those of the socket, not of a queue.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count

CLOSE = b""
"""Sent as a piece: what was sent still arrives, then the connection ends, in the middle of the answer."""
HEAD_END = b"\r\n\r\n"
READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class Request:
    """`received`: `time.perf_counter()` when its last bytes were read; `headers` by lower-case name."""

    target: str
    headers: dict[str, str]
    body: bytes
    received: float


# Yields when to send which bytes (0: at once, infinity: never), is given `time.perf_counter()` right before they were.
# It is closed when the client goes away.
Answer = Generator[tuple[float, bytes], float, None]


class PacedServer:
    """Serves `answer(request)` on loopback. Port 0 lets the kernel choose."""

    def __init__(self, answer: Callable[[Request], Answer], port: int = 0) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._numbers = count()
        self._unread: deque[_Peer] = deque()
        self._due: list[tuple[float, int, _Peer, Answer, bytes]] = []
        self.port = int(self._listener.getsockname()[1])

    def serve(self) -> None:
        """Until the process ends."""
        while True:
            self._read_all(self._spare_s())
            if self._unread:
                self._begin(self._unread.popleft())
            self._send_due()

    def _spare_s(self) -> float | None:
        """How long there is nothing to do unless bytes come; None: for ever."""
        if self._unread:
            return 0.0
        due = self._due[0][0] if self._due else math.inf
        return None if due == math.inf else max(0.0, due - time.perf_counter())

    def _read_all(self, wait_s: float | None) -> None:
        for key, events in self._selector.select(wait_s):
            if key.fileobj is self._listener:
                self._accept()
                continue
            peer: _Peer = key.data
            if events & selectors.EVENT_WRITE:
                peer.flush()
            if events & selectors.EVENT_READ:
                peer.read()
                self._unread.append(peer)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                accepted, _ = self._listener.accept()
                accepted.setblocking(False)
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(accepted, selectors.EVENT_READ, _Peer(accepted, self._selector))

    def _begin(self, peer: _Peer) -> None:
        """The next answer, if a whole request is there and none is under way."""
        if peer.answer is None and (request := peer.take_request()):
            peer.answer = self._answer(request)
            self._plan(peer, peer.answer, None)

    def _plan(self, peer: _Peer, answer: Answer, sent_at: float | None) -> None:
        try:
            due, data = next(answer) if sent_at is None else answer.send(sent_at)
        except StopIteration:
            peer.answer = None
            self._begin(peer)
        else:
            heapq.heappush(self._due, (due, next(self._numbers), peer, answer, data))

    def _send_due(self) -> None:
        while self._due and self._due[0][0] <= time.perf_counter():
            _, _, peer, answer, data = heapq.heappop(self._due)
            if peer.answer is not answer:
                continue  # the client has gone
            if data == CLOSE:
                peer.close()
                continue
            sent_at = time.perf_counter()
            peer.send(data)
            self._plan(peer, answer, sent_at)


class _Peer:
    """One client's connection."""

    def __init__(self, connected: socket.socket, selector: selectors.BaseSelector) -> None:
        self.answer: Answer | None = None
        self._socket, self._selector = connected, selector
        self._received_at = 0.0
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received_at = time.perf_counter()
        self._incoming += data
        if not data:
            self.close()

    def take_request(self) -> Request | None:
        """The first request of what has come, None when it is not all there yet."""
        head, end, body = bytes(self._incoming).partition(HEAD_END)
        if not end:
            return None
        request_line, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", 0))
        if len(body) < length:
            return None
        del self._incoming[: len(head) + len(end) + length]
        return Request(request_line.split(" ")[1], headers, body[:length], self._received_at)

    def send(self, data: bytes) -> None:
        self._outgoing += data
        self.flush()

    def flush(self) -> None:
        """What the client's window takes; the rest when it can take more."""
        try:
            sent = self._socket.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._outgoing[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if self._selector.get_key(self._socket).events != events:
            self._selector.modify(self._socket, events, self)

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        answer, self.answer = self.answer, None
        if answer is not None:
            answer.close()
        self._selector.unregister(self._socket)
        self._socket.close()


def head(status: int, content_type: str, length: int | None = None) -> bytes:
    """Status line and headers; without a length the body comes in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\n{framing}\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """`data` as a chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


END_OF_CHUNKS = b"0\r\n\r\n"
