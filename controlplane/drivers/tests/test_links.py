"""The pool behind `links.call`: one link a host, opened again when it broke, repeated only where that is safe."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint, HostLink
from controlplane.drivers.errors import CallTimedOut, HostRefused, LinkBroken, Unreachable
from controlplane.drivers.fake import FakeHost
from controlplane.drivers.links import LinkPool, can_repeat
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
