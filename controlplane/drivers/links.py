"""The way the rest of the product reaches hosts: `call(endpoint, verb, params)`, from any thread.

One background thread per process runs an event loop with one open link per endpoint (`link_pool`). A link that broke is
opened again by the next call. Celery forks its workers, so the loop belongs to the process that made it and is made
anew after a fork.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from controlplane.drivers import host_keys, ssh
from controlplane.drivers.endpoint import Endpoint, HostKey, HostLink
from controlplane.drivers.errors import CallTimedOut
from controlplane.drivers.link_pool import OPEN_TIMEOUT_S, LinkPool
from controlplane.drivers.local import LocalLink

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 30.0
_MARGIN_S = 5.0  # for the loop thread to report its own timeout first


async def open_link(endpoint: Endpoint) -> HostLink:
    """Open a link of the endpoint's kind."""
    return await (ssh.SshLink if endpoint.kind == "ssh" else LocalLink).open(endpoint)


class _Loop:
    """An event loop in a thread of its own, with its pool."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.pool = LinkPool(open_link)
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
        self.run(self.pool.close(), OPEN_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


_guard = threading.Lock()
_current: _Loop | None = None


def call(
    endpoint: Endpoint,
    verb: str,
    params: dict[str, Any] | None = None,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    wait_s: float | None = None,
) -> Any:
    """Ask a host for one verb and return its result (JSON values; `protocol.shapes.from_wire` makes it a dataclass).

    `timeout_s` is for the answer; opening the link comes on top when it is not open yet, and is waited for `wait_s` at
    most (StillOpening; it goes on). A host that is known to be silent is not waited for at all. Raises
    `drivers.errors.HostError`: the host's own refusals as `HostRefused`, everything between here and there as its
    siblings.
    """
    running = _running()
    work = running.pool.call(endpoint, verb, params or {}, timeout_s=timeout_s, wait_s=wait_s)
    return running.run(work, 2 * (timeout_s + OPEN_TIMEOUT_S) + _MARGIN_S)


def fetch_host_key(address: str, port: int = 22, *, jump: Endpoint | None = None) -> HostKey:
    """The key that a host shows, for a person to compare and pin. Nobody logs in there (only to the jump host)."""
    return _running().run(_fetch(Endpoint(kind="ssh", address=address, port=port, jump=jump)), 2 * OPEN_TIMEOUT_S)


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
    running.run(running.pool.drop(endpoint), OPEN_TIMEOUT_S)


def try_again(endpoint: Endpoint) -> None:
    """A person says that the host should answer now: the next call waits for it, however long it has been silent."""
    running = _running()
    running.loop.call_soon_threadsafe(running.pool.try_again, endpoint)


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
