"""The way the rest of the product reaches hosts: `call(endpoint, verb, params)`, from any thread.

One background thread per process runs an event loop with one open link per endpoint. A link that broke is opened
again by the next call. Celery forks its workers, so the loop belongs to the process that made it and is made anew
after a fork.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from controlplane.drivers import host_keys, ssh
from controlplane.drivers.endpoint import Endpoint, HostKey, HostLink
from controlplane.drivers.errors import CallTimedOut, LinkBroken, Unreachable
from controlplane.drivers.local import LocalLink

T = TypeVar("T")
Opener = Callable[[Endpoint], Awaitable[HostLink]]

DEFAULT_TIMEOUT_S = 30.0
_OPEN_TIMEOUT_S = 45.0  # connect, log in, send the program, start Python
_MARGIN_S = 5.0  # for the loop thread to report its own timeout first
_READING_METHODS = ("GET", "HEAD")


async def open_link(endpoint: Endpoint) -> HostLink:
    """Open a link of the endpoint's kind."""
    return await (ssh.SshLink if endpoint.kind == "ssh" else LocalLink).open(endpoint)


class LinkPool:
    """Open links by endpoint. Lives in one event loop; all methods are called there."""

    def __init__(self, opener: Opener = open_link) -> None:
        self._opener = opener
        self._links: dict[Endpoint, HostLink] = {}
        self._opening: dict[Endpoint, asyncio.Lock] = {}

    async def call(self, endpoint: Endpoint, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        """Call over the open link, or a new one. When it breaks on the way, what is safe to repeat is repeated once."""
        try:
            link = await self._link(endpoint)
            return await link.call(verb, params, timeout_s=timeout_s)
        except LinkBroken:
            if not can_repeat(verb, params):
                raise
        link = await self._link(endpoint)
        return await link.call(verb, params, timeout_s=timeout_s)

    def adopt(self, endpoint: Endpoint, link: HostLink) -> None:
        """Use an already open link for an endpoint (tests bring a fake this way)."""
        self._links[endpoint] = link

    async def drop(self, endpoint: Endpoint) -> None:
        """Close an endpoint's link, for example because its key has changed."""
        link = self._links.pop(endpoint, None)
        if link:
            await link.close()

    async def close(self) -> None:
        """Close every link."""
        for endpoint in list(self._links):
            await self.drop(endpoint)

    async def _link(self, endpoint: Endpoint) -> HostLink:
        link = self._links.get(endpoint)
        if link and link.is_open:
            return link
        async with self._opening.setdefault(endpoint, asyncio.Lock()):
            link = self._links.get(endpoint)
            if link and link.is_open:
                return link
            await self.drop(endpoint)
            try:
                async with asyncio.timeout(_OPEN_TIMEOUT_S):
                    link = await self._opener(endpoint)
            except TimeoutError as error:
                raise Unreachable(f"{endpoint.name} could not be opened in {_OPEN_TIMEOUT_S:g} s.") from error
            self._links[endpoint] = link
            return link


def can_repeat(verb: str, params: dict[str, Any]) -> bool:
    """Whether asking twice does no more than asking once: launches go by id, files by digest."""
    return verb != "http" or params.get("method", "GET") in _READING_METHODS


class _Loop:
    """An event loop in a thread of its own, with its pool."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.pool = LinkPool()
        self._thread = threading.Thread(target=self.loop.run_forever, name="host-links", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            if future.done():
                raise  # the work's own
            future.cancel()
            raise CallTimedOut(f"No answer in {timeout_s:g} s.") from error

    def end(self) -> None:
        self.run(self.pool.close(), _OPEN_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


_guard = threading.Lock()
_current: _Loop | None = None


def call(
    endpoint: Endpoint, verb: str, params: dict[str, Any] | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> Any:
    """Ask a host for one verb and return its result (JSON values; `protocol.shapes.from_wire` makes it a dataclass).

    `timeout_s` is for the answer; opening the link comes on top when it is not open yet. Raises
    `drivers.errors.HostError`: the host's own refusals as `HostRefused`, everything between here and there as its
    siblings.
    """
    running = _running()
    work = running.pool.call(endpoint, verb, params or {}, timeout_s=timeout_s)
    return running.run(work, 2 * (timeout_s + _OPEN_TIMEOUT_S) + _MARGIN_S)


def fetch_host_key(address: str, port: int = 22, *, jump: Endpoint | None = None) -> HostKey:
    """The key that a host shows, for a person to compare and pin. Nobody logs in there (only to the jump host)."""
    return _running().run(_fetch(Endpoint(kind="ssh", address=address, port=port, jump=jump)), 2 * _OPEN_TIMEOUT_S)


async def _fetch(endpoint: Endpoint) -> HostKey:
    tunnels = await ssh.connect(endpoint.jump) if endpoint.jump else []
    try:
        return await host_keys.fetch_async(endpoint, tunnel=tunnels[-1] if tunnels else None)
    finally:
        await ssh.disconnect(tunnels)


def adopt(endpoint: Endpoint, link: HostLink) -> None:
    """Use this link for the endpoint from now on (tests bring a fake this way)."""
    _running().pool.adopt(endpoint, link)


def drop(endpoint: Endpoint) -> None:
    """Close an endpoint's link; the next call opens a new one."""
    running = _running()
    running.run(running.pool.drop(endpoint), _OPEN_TIMEOUT_S)


def close() -> None:
    """Close all links and end the background thread, at the end of the process or of a test."""
    global _current
    with _guard:
        ending, _current = _current, None
    if ending and ending.process_id == os.getpid():
        ending.end()


def _running() -> _Loop:
    global _current  # noqa: PLW0603
    with _guard:
        if _current is None or _current.process_id != os.getpid():
            _current = _Loop()
        return _current
