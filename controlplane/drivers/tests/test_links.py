"""The pool behind `links.call`: one link a host, opened again when it broke, repeated only where that is safe."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint, HostLink
from controlplane.drivers.errors import CallTimedOut, HostKeyChanged, HostRefused, LinkBroken, StillOpening, Unreachable
from controlplane.drivers.fake import FakeHost
from controlplane.drivers.link_pool import LinkPool, Patience, can_repeat
from controlplane.drivers.local import clean_environment

HOST = Endpoint(address="gpu01")


class BreakingLink:
    """A link that breaks at the first call, after the request has gone out."""

    def __init__(self) -> None:
        self.is_open = True

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        self.is_open = False
        raise LinkBroken("cut")

    async def close(self) -> None:
        self.is_open = False


class Opener:
    """Hands out prepared links, in order."""

    def __init__(self, *prepared: HostLink | Exception) -> None:
        self.prepared = list(prepared)
        self.opened = 0

    async def __call__(self, endpoint: Endpoint) -> HostLink:
        self.opened += 1
        await asyncio.sleep(0)
        following = self.prepared.pop(0)
        if isinstance(following, Exception):
            raise following
        return following


@pytest.fixture(autouse=True)
def fresh_links() -> Iterator[None]:
    yield
    links.drop(HOST)


def ask(opener: Opener, verb: str = "list", params: dict[str, Any] | None = None, times: int = 1) -> list[Any]:
    async def work() -> list[Any]:
        pool = LinkPool(opener)
        calls = [pool.call(HOST, verb, params or {}, timeout_s=1) for _ in range(times)]
        return await asyncio.gather(*calls)

    return asyncio.run(work())


def test_calls_at_the_same_time_share_one_link() -> None:
    opener = Opener(FakeHost().link())

    assert len(ask(opener, times=10)) == 10
    assert opener.opened == 1


def test_a_broken_link_is_replaced_and_the_question_asked_again() -> None:
    host = FakeHost()
    ask(Opener(BreakingLink(), host.link()))
    assert [verb for verb, _ in host.calls] == ["list"]

    with pytest.raises(LinkBroken):  # once, not for ever
        ask(Opener(BreakingLink(), BreakingLink()))


def test_a_completion_that_may_have_been_carried_out_is_not_repeated() -> None:
    host = FakeHost()
    with pytest.raises(LinkBroken):
        ask(Opener(BreakingLink(), host.link()), "http", {"method": "POST", "port": 1})
    assert host.calls == []

    assert can_repeat("http", {"port": 1})
    assert can_repeat("start", {"launch_id": "a"})
    assert not can_repeat("http", {"method": "DELETE"})


def test_a_host_that_cannot_be_opened_is_tried_anew_with_the_next_call() -> None:
    opener = Opener(Unreachable("down"), FakeHost().link())

    async def work() -> Any:
        pool = LinkPool(opener)
        with pytest.raises(Unreachable):
            await pool.call(HOST, "list", {}, timeout_s=1)
        return await pool.call(HOST, "list", {}, timeout_s=1)

    assert asyncio.run(work())["launches"] == []


class Clock:
    """Time as it is said to pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class PatientOpener(Opener):
    """As Opener; a number among what is prepared is how many seconds the one after it takes."""

    def __init__(self, clock: Clock, *prepared: HostLink | Exception | float) -> None:
        super().__init__()
        self.clock = clock
        self.steps = list(prepared)

    async def __call__(self, endpoint: Endpoint) -> HostLink:
        while isinstance(self.steps[0], float):
            self.clock.now += self.steps.pop(0)  # type: ignore[operator]
        self.prepared.append(self.steps.pop(0))  # type: ignore[arg-type]
        return await super().__call__(endpoint)


class SilentLink(BreakingLink):
    """An open link over which nothing comes back for so many seconds."""

    def __init__(self, clock: Clock, silent_s: float) -> None:
        super().__init__()
        self.clock, self.silent_s = clock, silent_s

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        self.clock.now += self.silent_s
        raise CallTimedOut(f"did not answer {verb}")


def opener_once(up: asyncio.Event) -> Callable[[Endpoint], Coroutine[Any, Any, HostLink]]:
    opened = 0

    async def opener(endpoint: Endpoint) -> HostLink:
        nonlocal opened
        opened += 1
        assert opened == 1
        await up.wait()
        return FakeHost().link()

    return opener


QUICK = Patience(reopen_s=0.01, check_s=0.01, first_pause_s=0, longest_pause_s=0)
SELDOM = Patience(first_pause_s=3600)
OFF = Unreachable("did not answer in 15 s")


async def ask_pool(pool: LinkPool) -> Any:
    return (await pool.call(HOST, "list", {}, timeout_s=1))["launches"]


async def until_open(pool: LinkPool) -> None:
    while not pool.is_open(HOST):
        await asyncio.sleep(0)


def run(work: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(Clock()), 4))


def test_nobody_waits_for_a_host_that_is_known_to_be_silent() -> None:
    async def work(clock: Clock) -> None:
        opener = PatientOpener(clock, 15.0, OFF, 15.0, OFF, FakeHost().link())
        pool = LinkPool(opener, SELDOM, clock)
        for _ in range(5):
            with pytest.raises(Unreachable, match="did not answer in 15 s"):
                await ask_pool(pool)
        assert (opener.opened, clock.now) == (1, 15.0)  # the first waited, the others were told
        await pool.close()

    run(work)


def test_a_silent_host_is_tried_behind_the_callers_backs_until_it_answers() -> None:
    async def work(clock: Clock) -> None:
        opener = PatientOpener(clock, 15.0, OFF, 15.0, OFF, 15.0, OFF, FakeHost().link())
        pool = LinkPool(opener, QUICK, clock)
        with pytest.raises(Unreachable):
            await ask_pool(pool)
        await until_open(pool)
        assert await ask_pool(pool) == []
        assert opener.opened == 4

    run(work)


def test_a_link_that_was_open_is_waited_for_briefly_while_it_is_opened_again() -> None:
    async def work(clock: Clock) -> None:
        up = asyncio.Event()
        pool = LinkPool(opener_once(up), QUICK, clock)
        pool.adopt(HOST, BreakingLink())
        for _ in range(2):
            with pytest.raises(StillOpening):
                await ask_pool(pool)
        up.set()
        await until_open(pool)
        assert await ask_pool(pool) == []

    run(work)


def test_who_looks_at_every_tick_waits_for_the_opening_once_and_a_person_to_its_end() -> None:
    async def work(clock: Clock) -> None:
        up = asyncio.Event()
        pool = LinkPool(opener_once(up), QUICK, clock)
        person = asyncio.create_task(ask_pool(pool))
        with pytest.raises(StillOpening):
            await pool.call(HOST, "list", {}, timeout_s=1, wait_s=0.01)
        clock.now += 5
        with pytest.raises(StillOpening):  # at once: else this test would not end in its time
            await pool.call(HOST, "list", {}, timeout_s=1, wait_s=5)
        pool.try_again(HOST)  # another person: the opening goes on
        await asyncio.sleep(0)
        up.set()
        assert await person == []
        assert await pool.call(HOST, "hello", {}, timeout_s=1, wait_s=0.01)

    run(work)


def test_a_link_over_which_nothing_comes_back_is_checked_and_replaced() -> None:
    async def work(clock: Clock) -> None:
        opener = Opener(FakeHost().link())
        pool = LinkPool(opener, QUICK, clock)
        silent = SilentLink(clock, silent_s=10)
        pool.adopt(HOST, silent)
        for _ in range(2):
            with pytest.raises(CallTimedOut, match="did not answer list"):
                await ask_pool(pool)
        assert clock.now == 10  # once
        await until_open(pool)
        assert await ask_pool(pool) == []
        assert (opener.opened, silent.is_open) == (1, False)

    run(work)


def test_a_person_who_asks_again_is_not_told_what_was_found_before() -> None:
    async def work(clock: Clock) -> None:
        pool = LinkPool(PatientOpener(clock, 15.0, OFF, FakeHost().link()), SELDOM, clock)
        for _ in range(2):
            with pytest.raises(Unreachable):
                await ask_pool(pool)
        pool.try_again(HOST)
        assert await ask_pool(pool) == []

    run(work)


def test_a_silent_host_that_nobody_asks_for_is_left_alone() -> None:
    async def work(clock: Clock) -> None:
        silence: list[HostLink | Exception | float] = [15.0, OFF]
        opener = PatientOpener(clock, *50 * silence)
        pool = LinkPool(opener, QUICK, clock)
        with pytest.raises(Unreachable):
            await ask_pool(pool)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert opener.opened == QUICK.forget_s / 15

    run(work)


def test_a_host_that_says_no_while_it_is_tried_is_asked_by_the_next_caller_itself() -> None:
    """A refusal needs a person, who then wants to see what the host says now."""

    async def work(clock: Clock) -> None:
        changed = HostKeyChanged(address="gpu01", expected="a", presented="b")
        opener = PatientOpener(clock, 15.0, OFF, 0.1, changed, 0.1, changed, FakeHost().link())
        pool = LinkPool(opener, QUICK, clock)
        with pytest.raises(Unreachable):
            await ask_pool(pool)
        for _ in range(100):
            await asyncio.sleep(0)
        with pytest.raises(HostKeyChanged):
            await ask_pool(pool)
        assert await ask_pool(pool) == []

    run(work)


def test_a_host_that_goes_away_is_unreachable_and_comes_back_with_its_launches() -> None:
    host = FakeHost()
    links.adopt(HOST, host.link())
    links.call(HOST, "start", {"launch_id": "a", "nonce": "nonce-1234", "argv": ["vllm"]})

    host.go_offline()
    with pytest.raises(Unreachable):
        links.call(HOST, "list")
    host.is_online = True
    host.kill_keeper("a")

    (found,) = links.call(HOST, "list")["launches"]
    assert (found["state"], found["is_main_alive"]) == ("lost", True)
    host.reboot()
    (found,) = links.call(HOST, "list")["launches"]
    assert (found["state"], found["is_main_alive"], found["is_same_boot"]) == ("lost", False, False)


def test_a_refusal_of_the_host_keeps_its_code_sentence_and_remedy() -> None:
    links.adopt(HOST, FakeHost().link())

    with pytest.raises(HostRefused) as refused:
        links.call(HOST, "inspect_model", {"path": "/models/none"})

    assert (refused.value.code, refused.value.remedy) == ("no_such_path", "Check the path.")
    assert str(refused.value) == "There is no /models/none on this host."


def test_a_call_that_takes_too_long_is_given_up_and_the_link_stays(tmp_path: Any) -> None:
    endpoint = Endpoint(root=str(tmp_path))
    before = links.call(endpoint, "hello")["pid"]

    with pytest.raises(CallTimedOut, match="did not answer list in"):
        links.call(endpoint, "list", timeout_s=0.000001)

    assert links.call(endpoint, "hello")["pid"] == before
    links.drop(endpoint)


def test_a_forked_worker_opens_links_of_its_own(tmp_path: Any) -> None:
    endpoint = Endpoint(root=str(tmp_path))
    parents = links.call(endpoint, "hello")["pid"]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # as Celery does after the application has been loaded
        try:
            os.write(writing, str(links.call(endpoint, "hello")["pid"]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    childs = int(os.read(reading, 100))
    os.close(reading)
    os.waitpid(child, 0)

    assert childs != parents
    assert links.call(endpoint, "hello")["pid"] == parents
    links.drop(endpoint)


def test_engines_see_a_login_and_nothing_of_the_control_plane() -> None:
    ours = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "DATABASE_URL": "x", "SECRET_KEY": "x", "VIRTUAL_ENV": "x"}

    assert clean_environment(ours) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C"}
