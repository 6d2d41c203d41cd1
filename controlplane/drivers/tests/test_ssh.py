"""SSH against a real sshd: who is trusted, what happens when the line is cut, odd hosts."""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.drivers import host_keys, links, zipapp
from controlplane.drivers.endpoint import Endpoint
from controlplane.drivers.errors import (
    AgentFailed,
    AuthenticationRefused,
    HostKeyChanged,
    KeyUnusable,
    LinkBroken,
    PythonMissing,
    StillOpening,
    Unreachable,
)
from controlplane.drivers.tests import programs
from controlplane.drivers.tests.sshd import Sshd, new_key, public_text, running_sshd
from controlplane.drivers.tests.world import World, eventually, free_port, is_alive, marked

pytestmark = [pytest.mark.e2e, pytest.mark.ssh]


@pytest.fixture
def own_sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that a test may cut, restart and give other keys."""
    with running_sshd(tmp_path / "sshd") as server:
        yield server


@pytest.fixture
def own_world(own_sshd: Sshd, tmp_path: Path) -> Iterator[World]:
    """A host behind that server; whatever the test leaves behind is stopped without SSH."""
    yield World(own_sshd.endpoint(root=str(tmp_path / "root")))
    local = World(Endpoint(root=str(tmp_path / "root")))
    local.clean()


@pytest.fixture(autouse=True)
def fresh_links() -> Iterator[None]:
    yield
    links.close()


def hello(endpoint: Endpoint) -> dict[str, object]:
    told: dict[str, object] = links.call(endpoint, "hello")
    return told


def test_the_host_key_is_shown_on_first_contact_and_works_once_pinned(sshd: Sshd, tmp_path: Path) -> None:
    shown = links.fetch_host_key("127.0.0.1", sshd.port)

    assert shown.text == public_text(sshd.host_key)
    assert shown.fingerprint == sshd.host_key.get_fingerprint()
    assert host_keys.parse(shown.text) == shown
    assert hello(replace(sshd.endpoint(root=str(tmp_path)), host_key=shown.text))["protocol"] == 1


def test_without_a_pinned_key_nothing_connects(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(KeyUnusable, match="No host key is pinned"):
        hello(replace(sshd.endpoint(root=str(tmp_path)), host_key=""))


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_a_changed_host_key_refuses_everything_and_names_both(own_sshd: Sshd, tmp_path: Path, kind: str) -> None:
    endpoint = own_sshd.endpoint(root=str(tmp_path / "root"))
    assert hello(endpoint)["protocol"] == 1
    own_sshd.cut()
    own_sshd.host_key = new_key(kind)
    own_sshd.start()

    for verb in ("hello", "list", "start"):
        with pytest.raises(HostKeyChanged) as refused:
            links.call(endpoint, verb)
        assert refused.value.expected == host_keys.parse(endpoint.host_key).fingerprint
        assert refused.value.presented == own_sshd.host_key.get_fingerprint()
        assert refused.value.presented in str(refused.value)
    assert "Accepted publickey" not in (own_sshd.folder / "sshd.log").read_text().rsplit("Server listening", 1)[1]


@pytest.mark.parametrize("kind", ["ecdsa-sha2-nistp256", "ssh-rsa"])
def test_host_keys_of_other_types_can_be_pinned(own_sshd: Sshd, tmp_path: Path, kind: str) -> None:
    own_sshd.stop()
    own_sshd.host_key = new_key(kind)
    own_sshd.start()

    assert links.fetch_host_key("127.0.0.1", own_sshd.port).type == kind
    assert hello(own_sshd.endpoint(root=str(tmp_path / "root")))["protocol"] == 1


def test_another_private_key_is_refused_without_being_quoted(sshd: Sshd, tmp_path: Path) -> None:
    stranger = new_key().export_private_key("openssh").decode()
    with pytest.raises(AuthenticationRefused) as refused:
        hello(replace(sshd.endpoint(root=str(tmp_path)), private_key=stranger))
    assert refused.value.remedy

    with pytest.raises(KeyUnusable) as unusable:
        hello(replace(sshd.endpoint(root=str(tmp_path)), private_key="-----BEGIN s3cr3t"))
    assert "s3cr3t" not in f"{unusable.value!r} {unusable.value.__cause__!r} {sshd.endpoint(root='x')!r}"
    assert "PRIVATE" not in repr(sshd.endpoint(root="x"))


def test_a_port_without_sshd_is_unreachable(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        hello(replace(sshd.endpoint(root=str(tmp_path)), port=free_port()))
    with pytest.raises(Unreachable):
        links.fetch_host_key("127.0.0.1", free_port())


def test_a_host_that_takes_the_connection_and_says_nothing_keeps_nobody_waiting(sshd: Sshd, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = replace(sshd.endpoint(root=str(tmp_path)), port=silent.getsockname()[1])
        for _ in range(3):
            with pytest.raises(StillOpening):
                links.call(endpoint, "list", wait_s=0.1)
        assert hello(sshd.endpoint(root=str(tmp_path)))["pid"]
        links.close()  # also while it is at it


def test_an_engine_survives_the_cut_of_its_connection_and_is_found_again(own_sshd: Sshd, own_world: World) -> None:
    world, nonce = own_world, uuid.uuid4().hex
    launch = world.start(programs.SLEEPER, launch_id="engine", nonce=nonce)
    program = world.call("hello")["pid"]
    assert launch.run

    own_sshd.cut()
    eventually(lambda: not is_alive(program))
    with pytest.raises(Unreachable):
        world.listing()
    assert is_alive(launch.run.pid)

    own_sshd.start()
    found = world.listing()["engine"]
    assert (found.state, found.run) == ("running", launch.run)
    assert world.start(programs.SLEEPER, launch_id="engine", nonce=nonce).run == launch.run


def test_a_launch_cut_off_before_its_answer_can_be_asked_for_again(own_sshd: Sshd, own_world: World) -> None:
    world, nonce = own_world, uuid.uuid4().hex
    world.call("hello")
    outcome: list[object] = []

    def launch() -> None:
        try:
            outcome.append(world.start(programs.SLEEPER, launch_id="engine", nonce=nonce))
        except (LinkBroken, Unreachable) as error:
            outcome.append(error)

    starting = threading.Thread(target=launch)
    starting.start()
    eventually(Path(world.endpoint.root, "launches/engine/lock").exists)  # the host has begun
    own_sshd.cut()
    starting.join()

    own_sshd.start()
    again = world.start(programs.SLEEPER, launch_id="engine", nonce=nonce)
    assert again.state == "running"
    assert len(world.listing()) == 1
    assert len(marked(nonce)) == 1


def test_requests_under_way_hear_of_a_broken_connection_at_once(own_sshd: Sshd, own_world: World) -> None:
    world = own_world
    port = free_port()
    world.start_ready(programs.server(port), ports=[port])

    async def cut_while_waiting() -> None:
        link = await links.open_link(world.endpoint)
        waiting = asyncio.create_task(link.call("http", {"port": port, "path": "/slow"}, timeout_s=600))
        await link.call("list", {}, timeout_s=10)
        await asyncio.to_thread(own_sshd.cut)
        async with asyncio.timeout(5):
            with pytest.raises(LinkBroken):
                await waiting
        assert not link.is_open
        await link.close()

    asyncio.run(cut_while_waiting())
    own_sshd.start()


def test_a_host_behind_a_jump_host_is_reached_through_it(own_sshd: Sshd, sshd: Sshd, tmp_path: Path) -> None:
    jump = own_sshd.endpoint(root="unused")
    endpoint = sshd.endpoint(root=str(tmp_path / "root"), jump=jump)

    assert hello(endpoint)["root"] == str(tmp_path / "root")
    assert links.fetch_host_key("127.0.0.1", sshd.port, jump=jump).text == endpoint.host_key
    assert (
        "direct-tcpip" in (own_sshd.folder / "sshd.log").read_text()
        or "Accepted publickey" in (own_sshd.folder / "sshd.log").read_text()
    )
    with pytest.raises(HostKeyChanged):
        hello(replace(endpoint, jump=replace(jump, host_key=public_text(new_key())), root=str(tmp_path / "other")))


def test_a_login_that_prints_a_banner_does_not_disturb(tmp_path: Path) -> None:
    chatty = 'ForceCommand echo "Welcome to gpu01!"; eval "$SSH_ORIGINAL_COMMAND"\n'
    with running_sshd(tmp_path / "sshd", chatty) as server:
        assert hello(server.endpoint(root=str(tmp_path / "root")))["protocol"] == 1
        links.close()


def test_a_host_without_a_fitting_python_says_so(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(PythonMissing, match="/nowhere/python"):
        hello(sshd.endpoint(root=str(tmp_path), python="/nowhere/python"))


def test_a_root_that_cannot_be_written_says_so(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentFailed, match="cannot be stored"):
        hello(sshd.endpoint(root=str(tmp_path / "file/root")))


def test_a_damaged_program_on_the_host_is_replaced(sshd: Sshd, tmp_path: Path) -> None:
    endpoint = sshd.endpoint(root=str(tmp_path / "a b's root"))
    hello(endpoint)
    links.drop(endpoint)
    program = tmp_path / "a b's root/program" / zipapp.program().file_name
    program.write_bytes(program.read_bytes()[:-100] + b"x" * 100)

    assert hello(endpoint)["digest"] == zipapp.program().digest
    assert program.read_bytes() == zipapp.program().content
