"""Connections for measuring: stamps at the socket, one request at a time on each, kept open between requests.

Neither a stamp nor a token waits for a task's turn on the event loop. When 128 streams get their first token at once,
the last of 128 tasks would run milliseconds after its bytes have arrived: a stamp taken there would be the client's own
delay. Here a request's task wakes once, when its answer is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlsplit

from controlplane.bench.loadgen.framing import Framing, Receiver

# Below uvicorn's 5 s: an idle connection is dropped here before the server drops it under a request.
KEEPALIVE_S = 2.0
DEFAULT_PORTS = {"http": 80, "https": 443}


class Disconnected(ConnectionError):  # noqa: N818
    """The server ended the connection before the end of its answer."""


class TookTooLong(asyncio.TimeoutError):
    """No connection, or no complete answer, in the time for it."""


class Connection(asyncio.Protocol):
    """One connection to a server."""

    def __init__(self) -> None:
        self.is_open = False
        self.idle_since = 0.0
        self._transport: asyncio.Transport
        self._socket: socket.socket | None = None
        self._framing: Framing | None = None
        self._answered: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, address: tuple[Any, ...], context: ssl.SSLContext | None, host: str) -> Connection:
        """Connect to one address as `getaddrinfo` gives them. Raises OSError."""
        loop = asyncio.get_running_loop()
        family, kind, protocol, _, where = address
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(opened, where)
            name = host if context else None
            _, connection = await loop.create_connection(cls, sock=opened, ssl=context, server_hostname=name)
        except BaseException:
            opened.close()
            raise
        if context is None:
            connection._socket = opened
        return connection

    async def exchange(self, request: bytes, receiver: Receiver, *, timeout_s: float) -> None:
        """Send `request`, have `receiver` told of the answer, return when it is complete.

        Raises Disconnected, TookTooLong or BadAnswer, and what the receiver raises; then the connection is closed.
        """
        loop = asyncio.get_running_loop()
        self._framing, self._answered = Framing(receiver), loop.create_future()
        self._send(request, receiver)
        timer = loop.call_later(timeout_s, self._end, TookTooLong(f"no complete answer within {timeout_s:g} s"))
        try:
            await self._answered
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._framing = self._answered = None
        self.idle_since = time.perf_counter()

    def close(self) -> None:
        """At once; bytes on their way are dropped."""
        self.is_open = False
        self._transport.abort()

    def _send(self, request: bytes, receiver: Receiver) -> None:
        """By the socket itself where it can be: uvloop's transport writes at the end of the loop's turn, and of many
        requests that leave in one turn all but the last would wait, after their stamp."""
        sent = 0
        receiver.sent(time.perf_counter())
        if self._socket is not None:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                sent = self._socket.send(request)
        if sent < len(request):
            self._transport.write(request[sent:])

    def _end(self, error: Exception | None = None) -> None:
        if self._answered is not None and not self._answered.done():
            if error is None:
                self._answered.set_result(None)
            else:
                self._answered.set_exception(error)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        framing = self._framing
        if framing is None:  # an answer to nothing
            self.close()
            return
        try:
            framing.feed(data, at)
        except Exception as error:
            self._framing = None
            self._end(error)
            return
        if framing.is_complete:
            # A server may answer before it has read all of the request: what is left would begin the next one.
            self.is_open = framing.is_reusable and not self._transport.get_write_buffer_size()
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._framing is not None:
            is_complete = self._framing.end()
            self._end(None if is_complete else Disconnected(str(error or "the server ended the connection")))


@dataclass
class _Server:
    """Where requests of one origin go, and the connections that wait for the next one."""

    scheme: str
    host: str
    port: int
    addresses: list[Any] = field(default_factory=list)
    context: ssl.SSLContext | None = None
    idle: list[Connection] = field(default_factory=list)

    async def connect(self) -> Connection:
        if not self.addresses:
            loop = asyncio.get_running_loop()
            self.addresses = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self.context = ssl.create_default_context() if self.scheme == "https" else None
        for address in self.addresses[:-1]:
            with contextlib.suppress(OSError):
                return await Connection.open(address, self.context, self.host)
        return await Connection.open(self.addresses[-1], self.context, self.host)

    def take_idle(self) -> Connection | None:
        now = time.perf_counter()
        while self.idle:
            connection = self.idle.pop()
            if connection.is_open and now - connection.idle_since <= KEEPALIVE_S:
                return connection
            connection.close()
        return None


class HttpClient:
    """Requests without proxies, cookies, redirects or retries, on as many connections as are needed at once.

    A context, at whose end the connections are closed. `headers` go with every request; `connect_timeout_s` is for
    one connection.
    """

    def __init__(self, headers: Mapping[str, str], *, connect_timeout_s: float) -> None:
        if any(not name.isprintable() or not value.isprintable() for name, value in headers.items()):
            raise ValueError("a header with a line end or another control character")  # its value may be a secret
        self._headers = {
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "User-Agent": "controlplane-loadgen",
            **headers,
        }
        self._connect_timeout_s = connect_timeout_s
        self._servers: dict[tuple[str, str, int], _Server] = {}

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers.values():
            while server.idle:
                server.idle.pop().close()

    async def request(
        self, method: str, url: str, receiver: Receiver, *, body: bytes = b"", content_type: str = "", timeout_s: float
    ) -> None:
        """Send, have `receiver` told of the answer, return when all of it has come.

        Raises OSError (Disconnected among them), TookTooLong, BadAnswer. `timeout_s` is for all of it.
        """
        began = time.perf_counter()
        server, request = self._server_of(url), self._request(method, url, body, content_type)
        connection = server.take_idle() or await self._connect(server)
        left_s = timeout_s - (time.perf_counter() - began)
        await connection.exchange(request, receiver, timeout_s=left_s)
        if connection.is_open:
            server.idle.append(connection)
        else:
            connection.close()

    async def _connect(self, server: _Server) -> Connection:
        try:
            return await asyncio.wait_for(server.connect(), self._connect_timeout_s)
        except asyncio.TimeoutError:  # noqa: UP041 - not the built-in one before Python 3.11
            raise TookTooLong(f"no connection within {self._connect_timeout_s:g} s") from None

    def _server_of(self, url: str) -> _Server:
        parts = urlsplit(url)
        origin = (parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme])
        return self._servers.setdefault(origin, _Server(*origin))

    def _request(self, method: str, url: str, body: bytes, content_type: str) -> bytes:
        parts = urlsplit(url)
        target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~") + (f"?{parts.query}" if parts.query else "")
        headers = {"Host": parts.netloc.rpartition("@")[2], **self._headers}
        if body:
            headers |= {"Content-Type": content_type, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body
