"""Open links by host, and how long anybody waits for a host that does not answer.

A caller is a thread of the worker, of which there are few. The first one to ask a silent host waits its time; from then
on a task in the event loop tries to get through, and callers are told at once what it found. Otherwise a few machines
without power would keep every thread waiting, and nobody would look at those that run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from controlplane.drivers.endpoint import Endpoint, HostLink
from controlplane.drivers.errors import HostError, HostRefused, LinkBroken, StillOpening, Unreachable

Opener = Callable[[Endpoint], Awaitable[HostLink]]

OPEN_TIMEOUT_S = 45.0  # connect, log in, send the program, start Python
_READING_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a host may be silent, and what follows. All in seconds."""

    slow_s: float = 1.0
    """A call that failed sooner cost nobody anything: the next one simply tries again."""
    reopen_s: float = 5.0
    """What a caller waits for a link that had been open; the opening itself goes on."""
    check_s: float = 5.0
    """For an answer over a link on which a call got none."""
    first_pause_s: float = 1.0
    longest_pause_s: float = 15.0
    """Between two tries behind the callers' backs: doubling from the first to the longest."""
    forget_s: float = 300.0
    """Nobody has asked for so long: nobody tries any more, and the next caller waits again."""


@dataclass(slots=True)
class _Way:
    """What is known of the way to one host while there is no sound link."""

    began_at: float
    asked_at: float
    was_open: bool = False
    error: HostError | None = None
    """Why it is silent, as last found. While it is set, callers are told so at once."""
    work: asyncio.Task[HostError | None] | None = None
    """Opens the link, or tries to get through again; its result is why it could not."""


class LinkPool:
    """Lives in one event loop; all methods are called there."""

    def __init__(
        self, opener: Opener, patience: Patience | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._opener = opener
        self._now = clock
        self._patience = patience or Patience()
        self._links: dict[Endpoint, HostLink] = {}
        self._ways: dict[Endpoint, _Way] = {}

    async def call(
        self, endpoint: Endpoint, verb: str, params: dict[str, Any], *, timeout_s: float, wait_s: float | None = None
    ) -> Any:
        """Call over the open link, or a new one. When it breaks on the way, what is safe to repeat is repeated once.

        `wait_s`: how long to wait for a link to be opened, at most, before StillOpening is raised.
        """
        try:
            link = await self._link(endpoint, wait_s)
            return await self._ask(endpoint, link, verb, params, timeout_s)
        except LinkBroken:
            if not can_repeat(verb, params):
                raise
        link = await self._link(endpoint, wait_s)
        return await self._ask(endpoint, link, verb, params, timeout_s)

    def adopt(self, endpoint: Endpoint, link: HostLink) -> None:
        """Use an already open link for an endpoint (tests bring a fake this way)."""
        self._give_up(endpoint)
        self._links[endpoint] = link

    def is_open(self, endpoint: Endpoint) -> bool:
        """Whether a call would go out now."""
        link = self._links.get(endpoint)
        return endpoint not in self._ways and link is not None and link.is_open

    def try_again(self, endpoint: Endpoint) -> None:
        """Forget that a host was silent: the next call waits for it as if it were the first."""
        if (way := self._ways.get(endpoint)) and way.error:  # a first opening goes on: others wait for it
            self._give_up(endpoint)

    async def drop(self, endpoint: Endpoint) -> None:
        """Close an endpoint's link, for example because its key has changed."""
        if work := self._give_up(endpoint):
            await asyncio.gather(work, return_exceptions=True)
        await self._hang_up(endpoint)

    async def close(self) -> None:
        """Close every link and stop trying."""
        for endpoint in {*self._links, *self._ways}:
            await self.drop(endpoint)

    def _give_up(self, endpoint: Endpoint) -> asyncio.Task[HostError | None] | None:
        """Stop opening or trying; the task that did it, already told to end."""
        way = self._ways.pop(endpoint, None)
        if way is None or way.work is None:
            return None
        way.work.cancel()
        return way.work

    async def _ask(
        self, endpoint: Endpoint, link: HostLink, verb: str, params: dict[str, Any], timeout_s: float
    ) -> Any:
        began = self._now()
        try:
            return await link.call(verb, params, timeout_s=timeout_s)
        except (HostRefused, LinkBroken):
            raise
        except HostError as error:  # no answer: the host may be busy, or gone
            if self._is_slow(began) and endpoint not in self._ways:
                way = self._ways[endpoint] = _Way(self._now(), self._now(), error=error)
                way.work = asyncio.create_task(self._get_through(endpoint, way, pause_s=0))
            raise

    async def _link(self, endpoint: Endpoint, wait_s: float | None) -> HostLink:
        """Raises HostError: at once where the host is known to be silent."""
        if self.is_open(endpoint):
            return self._links[endpoint]
        way = self._ways.get(endpoint)
        if way is None:
            way = self._ways[endpoint] = _Way(self._now(), self._now(), was_open=endpoint in self._links)
            way.work = asyncio.create_task(self._open(endpoint, way))
        way.asked_at = self._now()
        if way.error:
            raise way.error.with_traceback(None)
        return await self._opened(endpoint, way, wait_s)

    async def _opened(self, endpoint: Endpoint, way: _Way, wait_s: float | None) -> HostLink:
        """The link that is being opened, waited for as long as the caller wants and the host's past deserves."""
        waits_s = [s for s in (wait_s, self._patience.reopen_s if way.was_open else None) if s is not None]
        lasts_s = self._now() - way.began_at
        work = way.work
        assert work is not None
        try:
            async with asyncio.timeout(max(0, min(waits_s) - lasts_s) if waits_s else None):
                error = await asyncio.shield(work)
        except TimeoutError:
            error = StillOpening(f"The connection to {endpoint.name} is still being opened.")
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            error = LinkBroken(f"The connection to {endpoint.name} was closed while it was being opened.")
        if error:
            raise error.with_traceback(None)
        return self._links[endpoint]

    async def _open(self, endpoint: Endpoint, way: _Way) -> HostError | None:
        """Put a new link in its place. A failure that came quickly ends it; a slow one starts the trying."""
        began = self._now()
        try:
            await self._put_new_link(endpoint)
        except HostError as error:
            if self._is_slow(began):
                way.error = error
                pause_s = self._patience.first_pause_s
                way.work = asyncio.create_task(self._get_through(endpoint, way, pause_s=pause_s))
            else:
                self._forget(endpoint, way)
            return error
        except BaseException:
            self._forget(endpoint, way)
            raise
        self._forget(endpoint, way)
        return None

    async def _get_through(self, endpoint: Endpoint, way: _Way, *, pause_s: float) -> HostError | None:
        """After a first pause, until the host answers again, says no at once, or nobody has asked for long."""
        first_s, longest_s = self._patience.first_pause_s, self._patience.longest_pause_s
        try:
            while self._now() - way.asked_at < self._patience.forget_s:
                await asyncio.sleep(pause_s)
                began = self._now()
                try:
                    await self._check_or_open(endpoint)
                    return None
                except HostError as error:
                    way.error = error
                    if not self._is_slow(began):
                        return error
                pause_s = min(max(2 * pause_s, first_s), longest_s)
            return way.error
        finally:
            self._forget(endpoint, way)

    async def _check_or_open(self, endpoint: Endpoint) -> None:
        link = self._links.get(endpoint)
        if link and link.is_open:
            try:
                await link.call("hello", {}, timeout_s=self._patience.check_s)
                return
            except HostError:
                await self._hang_up(endpoint)  # and see what a new connection is told
        await self._put_new_link(endpoint)

    async def _put_new_link(self, endpoint: Endpoint) -> None:
        await self._hang_up(endpoint)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                self._links[endpoint] = await self._opener(endpoint)
        except TimeoutError as error:
            raise Unreachable(f"{endpoint.name} could not be opened in {OPEN_TIMEOUT_S:g} s.") from error

    async def _hang_up(self, endpoint: Endpoint) -> None:
        link = self._links.pop(endpoint, None)
        if link:
            await link.close()

    def _forget(self, endpoint: Endpoint, way: _Way) -> None:
        if self._ways.get(endpoint) is way:
            del self._ways[endpoint]

    def _is_slow(self, began: float) -> bool:
        return self._now() - began >= self._patience.slow_s


def can_repeat(verb: str, params: dict[str, Any]) -> bool:
    """Whether asking twice does no more than asking once: launches go by id, files by digest."""
    return verb != "http" or params.get("method", "GET") in _READING_METHODS
