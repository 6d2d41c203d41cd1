"""Many calls over one pair of byte streams: lines out, lines in, matched by their ids. Local and SSH links share it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from controlplane.drivers.errors import AgentFailed, CallTimedOut, HostRefused, LinkBroken
from controlplane.protocol.machine import Hello
from controlplane.protocol.shapes import ShapeError, from_wire
from controlplane.protocol.wire import VERSION, Reply, Request, read_reply, request_line

_HELLO_TIMEOUT_S = 30.0
_NOISE_LINES = 20  # of a login banner, kept to explain a failed start


class LineReader(Protocol):
    """What `asyncio.StreamReader` and asyncssh's reader have in common."""

    async def readline(self) -> bytes: ...


class LineWriter(Protocol):
    """What `asyncio.StreamWriter` and asyncssh's writer have in common."""

    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...


class Channel:
    """A conversation with one running host program."""

    def __init__(
        self,
        name: str,
        reader: LineReader,
        writer: LineWriter,
        *,
        last_words: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._name = name
        self._reader = reader
        self._writer = writer
        self._last_words = last_words
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._noise: deque[str] = deque(maxlen=_NOISE_LINES)
        self._broken: LinkBroken | None = None
        self._listening = asyncio.create_task(self._listen())

    @property
    def is_open(self) -> bool:
        return self._broken is None

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        """Ask and wait for the answer to this very request."""
        if self._broken:
            raise self._broken
        request = Request(id=next(self._ids), verb=verb, params=params)
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = answered
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(request_line(request))
                await self._writer.drain()
                reply = await answered
        except TimeoutError as error:
            raise CallTimedOut(f"{self._name} did not answer {verb} in {timeout_s:g} s.") from error
        except OSError as error:
            raise self._break(f"The connection to {self._name} broke: {error}") from error
        finally:
            self._waiting.pop(request.id, None)
        if reply.error is not None:
            raise HostRefused(reply.error.code, reply.error.message, reply.error.remedy)
        return reply.result

    async def greet(self, digest: str) -> Hello:
        """Learn who is at the other end. Raises AgentFailed when it is not our program, unchanged."""
        try:
            hello = from_wire(Hello, await self.call("hello", {}, timeout_s=_HELLO_TIMEOUT_S))
        except (LinkBroken, CallTimedOut, ShapeError) as error:
            raise AgentFailed(
                f"The host program on {self._name} does not answer: {await self._explain(error)}"
            ) from error
        if hello.protocol != VERSION or hello.digest != digest:
            raise AgentFailed(f"The host program on {self._name} is another one than the one that was sent.")
        return hello

    async def close(self) -> None:
        """Stop listening; whoever still waits gets LinkBroken."""
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._break(f"The connection to {self._name} was closed.")

    async def _listen(self) -> None:
        reason = "it ended"
        try:
            while line := await self._reader.readline():
                self._take(line)
        except (OSError, ValueError) as error:  # ValueError: a line beyond the limit
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self._break(f"The connection to {self._name} broke: {reason}.")

    def _take(self, line: bytes) -> None:
        try:
            reply = read_reply(line)
        except (ShapeError, json.JSONDecodeError):  # a login banner, a profile that prints
            self._noise.append(line.decode("utf-8", "replace").rstrip())
            return
        answered = self._waiting.get(reply.id)
        if answered and not answered.done():
            answered.set_result(reply)

    def _break(self, message: str) -> LinkBroken:
        if self._broken is None:
            self._broken = LinkBroken(message)
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(LinkBroken(message))
        return self._broken

    async def _explain(self, error: Exception) -> str:
        said = (await self._last_words()).strip() if self._last_words and self._broken else ""
        return " / ".join([*said.splitlines()[-3:], *list(self._noise)[-3:]]) or str(error)
