"""What happens to real processes when things die, as the hard rules of the fleet want it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from controlplane.drivers import links
from controlplane.drivers.errors import HostRefused
from controlplane.drivers.tests import programs
from controlplane.drivers.tests.world import World, eventually, free_port, is_alive
from controlplane.protocol.launches import Launch

SECRET = "s3cr3t-never-to-be-seen"
SEEN_WITHIN_S = 5.0


def family(world: World, launch: Launch) -> set[int]:
    """Pids that the family program printed."""
    return {int(pid) for pid in world.log(launch.launch_id).split("ready", 1)[1].split()[:3]}


def kill(pid: int | None) -> None:
    assert pid
    os.kill(pid, signal.SIGKILL)


def test_a_killed_main_process_is_seen_and_its_orphans_are_named_and_removed(real_world: World) -> None:
    launch = real_world.start_ready(programs.FAMILY)
    orphans = family(real_world, launch)

    killed_at = time.monotonic()
    kill(launch.run.pid if launch.run else None)
    ended = real_world.ended(launch.launch_id)

    assert time.monotonic() - killed_at < SEEN_WITHIN_S
    assert ended.exit
    assert (ended.exit.signal, ended.exit.stop_requested) == ("SIGKILL", False)
    assert {leftover.pid for leftover in ended.exit.leftovers} == orphans
    assert {leftover.signal for leftover in ended.exit.leftovers} == {"SIGTERM"}
    assert "import signal" in ended.exit.leftovers[0].command[-1]
    assert not any(is_alive(pid) for pid in orphans)


@pytest.mark.parametrize("nice", [0, 7])
def test_a_launch_that_gives_way_does_so_with_its_whole_session(real_world: World, nice: int) -> None:
    launch = real_world.start_ready(programs.TELLS_ITS_PRIORITY, nice=nice)
    own, group = real_world.log(launch.launch_id).split("ready", 1)[1].split()[:2]
    assert int(own) == os.nice(0) + nice
    assert group in {str(nice), "-"}
    assert launch.run
    assert launch.run.nice == nice


def test_orphans_that_ignore_sigterm_are_killed_after_the_grace(real_world: World) -> None:
    launch = real_world.start_ready(programs.STUBBORN_FAMILY, leftover_grace_s=0.2)
    orphans = family(real_world, launch)

    kill(launch.run.pid if launch.run else None)
    ended = real_world.ended(launch.launch_id)

    assert ended.exit
    assert {(leftover.pid, leftover.signal) for leftover in ended.exit.leftovers} == {
        (pid, "SIGKILL") for pid in orphans
    }
    assert not any(is_alive(pid) for pid in orphans)


def test_stop_finds_children_that_ignore_sigterm_and_have_left_group_session_and_environment(real_world: World) -> None:
    launch = real_world.start_ready(programs.STUBBORN_FAMILY, leftover_grace_s=0.2)
    children = family(real_world, launch)

    report = real_world.stop(launch.launch_id)

    assert report.is_gone
    assert not any(is_alive(pid) for pid in children)
    assert report.exit
    assert report.exit.stop_requested
    assert report.exit.is_complete


def test_without_its_keeper_a_launch_is_lost_but_known_and_can_be_stopped(real_world: World) -> None:
    port = free_port()
    launch = real_world.start_ready(programs.STUBBORN_FAMILY, ports=[port], leftover_grace_s=0.2)
    children = family(real_world, launch)
    kill(launch.run.keeper_pid if launch.run else None)

    lost = eventually(lambda: found if (found := real_world.listing()[launch.launch_id]).state == "lost" else None)
    assert lost.is_main_alive
    assert {process.pid for process in lost.processes} >= {lost.run.pid if lost.run else 0, *children}
    with pytest.raises(HostRefused, match=f"held by launch {launch.launch_id}"):
        real_world.start(programs.SLEEPER, ports=[port])

    report = real_world.stop(launch.launch_id)

    assert report.is_gone
    assert {process.pid for process in report.killed} == children
    assert not any(is_alive(pid) for pid in children)
    assert report.exit
    assert (report.exit.rc, report.exit.signal, report.exit.stop_requested) == (None, None, True)
    assert real_world.start(programs.SLEEPER, ports=[port]).state == "running"


def test_when_main_and_keeper_are_killed_the_marked_leftovers_are_still_found(real_world: World) -> None:
    launch = real_world.start_ready(programs.FAMILY)
    near, away, scrubbed = sorted(family(real_world, launch))
    kill(launch.run.keeper_pid if launch.run else None)
    kill(launch.run.pid if launch.run else None)

    lost = eventually(
        lambda: (
            found
            if (found := real_world.describe(launch.launch_id)).state == "lost" and not found.is_main_alive
            else None
        )
    )
    assert {near, away} <= {process.pid for process in lost.processes}

    assert real_world.stop(launch.launch_id).is_gone
    os.kill(scrubbed, signal.SIGKILL)  # nothing ties it to the launch any more: left alone, and cleaned up here
    assert not is_alive(near)
    assert not is_alive(away)


def test_a_process_that_inherited_the_pid_is_never_signalled(real_world: World) -> None:
    launch = real_world.start_ready(programs.SLEEPER)
    bystander = real_world.start_ready(programs.SLEEPER)
    assert launch.run
    assert bystander.run
    real_world.stop(launch.launch_id)
    folder = Path(real_world.endpoint.root) / "launches" / launch.launch_id
    (folder / "exit.json").unlink()
    record = folder / "run.json"
    record.write_text(record.read_text().replace(f": {launch.run.pid},", f": {bystander.run.pid},"))

    assert real_world.describe(launch.launch_id).state == "lost"
    assert real_world.describe(launch.launch_id).processes == []
    assert real_world.stop(launch.launch_id, term_timeout_s=0.1, kill_timeout_s=0.1).is_gone
    assert real_world.describe(bystander.launch_id).is_main_alive


def test_a_secret_reaches_the_process_and_neither_disk_nor_any_command_line(real_world: World) -> None:
    port = free_port()
    launch = real_world.start_ready(
        programs.server(port), ports=[port], env={"PLAIN": "visible"}, secret_env={"VLLM_API_KEY": SECRET}
    )
    real_world.call("http", port=port, path="/", headers={"Authorization": f"Bearer {SECRET}"})

    assert launch.run
    assert SECRET.encode() in Path(f"/proc/{launch.run.pid}/environ").read_bytes()
    assert launch.run.env_names == ["PLAIN", "VLLM_API_KEY"]
    assert [file for file in real_world.files() if SECRET.encode() in file.read_bytes()] == []
    lines = [command for entry in Path("/proc").glob("[0-9]*/cmdline") if (command := _read(entry))]
    assert not any(SECRET.encode() in line for line in lines)
    assert SECRET.encode() not in Path(f"/proc/{launch.run.keeper_pid}/environ").read_bytes()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def test_files_of_a_launch_are_for_their_owner_only(real_world: World) -> None:
    launch = real_world.start(programs.QUITTER)
    real_world.ended(launch.launch_id)

    folder = Path(real_world.endpoint.root) / "launches" / launch.launch_id
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o077 for file in folder.iterdir()} == {
        "lock": 0,
        "run.json": 0,
        "exit.json": 0,
        "log": 0,
        "keeper.log": 0,
    }
    assert (folder / "keeper.log").read_text() == ""


def test_engines_do_not_inherit_the_control_planes_environment(
    real_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://user:password@db/x")
    launch = real_world.start_ready(programs.SLEEPER)

    assert launch.run
    assert b"DATABASE_URL" not in Path(f"/proc/{launch.run.pid}/environ").read_bytes()


def test_closing_the_link_ends_the_host_program_and_nothing_else(real_world: World) -> None:
    launch = real_world.start_ready(programs.SLEEPER)
    before = real_world.call("hello")["pid"]

    links.drop(real_world.endpoint)

    eventually(lambda: not is_alive(before))
    assert real_world.call("hello")["pid"] != before
    assert real_world.describe(launch.launch_id).run == launch.run
    assert real_world.describe(launch.launch_id).state == "running"


def test_a_host_program_that_is_killed_comes_back_with_the_next_call(real_world: World) -> None:
    launch = real_world.start_ready(programs.SLEEPER)
    kill(real_world.call("hello")["pid"])

    assert real_world.describe(launch.launch_id).state == "running"


def test_a_program_that_cannot_be_started_says_why_and_leaves_the_id_free(real_world: World) -> None:
    with pytest.raises(HostRefused, match="No such file") as refused:
        real_world.start(["/nowhere/vllm", "serve"], launch_id="again")
    assert refused.value.code == "cannot_execute"
    with pytest.raises(HostRefused, match="in /nowhere"):
        real_world.start(programs.SLEEPER, launch_id="again", cwd="/nowhere")

    assert real_world.start(programs.SLEEPER, launch_id="again").state == "running"


def test_a_port_that_a_stranger_listens_on_is_refused_naming_the_stranger(real_world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(HostRefused, match=f"held by process {os.getpid()}"):
            real_world.start(programs.SLEEPER, ports=[port])
        status = real_world.call("check_port", port=port)

    assert status["holder"]["pid"] == os.getpid()
    assert real_world.call("check_port", port=port)["is_free"]


def test_a_slow_request_holds_up_no_other(real_world: World) -> None:
    port = free_port()
    real_world.start_ready(programs.server(port), ports=[port])
    with pytest.raises(HostRefused) as slow:
        links.call(real_world.endpoint, "http", {"port": port, "path": "/slow", "timeout_s": 0.3})
    assert slow.value.code == "http_timeout"

    async def both() -> float:
        link = await links.open_link(real_world.endpoint)
        slow = asyncio.create_task(link.call("http", {"port": port, "path": "/slow"}, timeout_s=60))
        await asyncio.sleep(0)  # the slow one goes out first
        began = time.monotonic()
        await link.call("list", {}, timeout_s=10)
        took = time.monotonic() - began
        assert not slow.done()
        slow.cancel()
        await link.close()
        return took

    assert asyncio.run(both()) < 2.0
