"""What every host promises: the fake, this machine, and one behind a real sshd."""

from __future__ import annotations

import json

import pytest

from controlplane.drivers.errors import HostRefused
from controlplane.drivers.tests import programs
from controlplane.drivers.tests.world import World, free_port, serving


def test_the_same_launch_id_started_twice_is_one_launch(world: World) -> None:
    first = world.start(programs.SLEEPER, launch_id="once", nonce="nonce-once")
    again = world.start(programs.SLEEPER, launch_id="once", nonce="nonce-other")

    assert first.run
    assert again.run == first.run
    assert list(world.listing()) == ["once"]


def test_of_two_launches_on_one_port_the_second_is_refused_and_told_who_has_it(world: World) -> None:
    port = free_port()
    world.start(programs.SLEEPER, launch_id="first", ports=[port])

    with pytest.raises(HostRefused, match=f"Port {port} is held by launch first") as refused:
        world.start(programs.SLEEPER, launch_id="second", ports=[port])

    assert refused.value.code == "port_taken"
    assert refused.value.remedy
    assert {name: launch.state for name, launch in world.listing().items()} == {"first": "running"}


def test_a_listing_can_be_asked_for_some_launches_only(world: World) -> None:
    for name in ("first", "second", "third"):
        world.start(programs.SLEEPER, launch_id=name)

    found = world.call("list", launch_ids=["third", "first", "never-started"])

    assert sorted(launch["launch_id"] for launch in found["launches"]) == ["first", "third"]
    assert world.call("list", launch_ids=[])["launches"] == []


def test_a_port_is_free_again_once_its_launch_is_stopped(world: World) -> None:
    port = free_port()
    world.start(programs.SLEEPER, launch_id="first", ports=[port])
    assert world.call("check_port", port=port)["holder"]["launch_id"] == "first"

    world.stop("first")

    assert world.call("check_port", port=port)["is_free"]
    assert world.start(programs.SLEEPER, launch_id="second", ports=[port]).state == "running"


def test_the_exit_code_of_a_program_that_ends_by_itself_is_kept(world: World) -> None:
    launch = world.start(programs.QUITTER)

    ended = world.ended(launch.launch_id)

    assert ended.exit
    assert (ended.state, ended.exit.rc, ended.exit.signal) == ("exited", 3, None)
    assert not ended.exit.stop_requested
    assert ended.processes == []


def test_a_stop_ends_the_processes_and_is_remembered_as_asked_for(world: World) -> None:
    launch = world.start_ready(programs.SLEEPER)

    report = world.stop(launch.launch_id)

    assert report.is_gone
    assert report.killed == []
    ended = world.describe(launch.launch_id)
    assert ended.exit
    assert (ended.state, ended.exit.signal, ended.exit.stop_requested) == ("exited", "SIGTERM", True)


def test_a_program_that_ignores_sigterm_is_killed_after_its_time(world: World) -> None:
    launch = world.start_ready(programs.DEAF)

    report = world.stop(launch.launch_id, term_timeout_s=0.2)

    assert report.is_gone
    assert [process.pid for process in report.killed] == [launch.run.pid if launch.run else 0]
    assert report.exit
    assert report.exit.signal == "SIGKILL"


def test_stopping_twice_does_no_harm(world: World) -> None:
    launch = world.start(programs.QUITTER)
    world.ended(launch.launch_id)

    report = world.stop(launch.launch_id)

    assert report.is_gone
    assert report.exit
    assert (report.exit.rc, report.exit.stop_requested) == (3, False)


def test_a_log_is_read_in_slices_that_keep_characters_whole(world: World) -> None:
    launch = world.start(programs.QUITTER)
    world.ended(launch.launch_id)

    head = world.read(launch.launch_id, limit=12)
    rest = world.read(launch.launch_id, offset=head.next_offset)

    assert head.text == "first line\nd"
    assert rest.text == "éjà vu\n"
    assert rest.next_offset == rest.size_bytes == world.describe(launch.launch_id).log_bytes
    assert world.read(launch.launch_id, limit=13).text == "first line\nd"
    assert world.read(launch.launch_id, offset=-4).text == " vu\n"
    assert world.read(launch.launch_id, offset=10_000).text == ""


def test_a_launch_can_be_removed_only_when_it_is_finished(world: World) -> None:
    launch = world.start(programs.SLEEPER)
    with pytest.raises(HostRefused) as refused:
        world.call("remove", launch_id=launch.launch_id)
    assert refused.value.code == "still_running"

    world.stop(launch.launch_id)
    world.call("remove", launch_id=launch.launch_id)
    world.call("remove", launch_id=launch.launch_id)

    assert world.listing() == {}


def test_http_reaches_a_server_on_the_host(world: World) -> None:
    port = free_port()
    world.start_ready(serving(world.fake, port), ports=[port])

    told = world.call("http", port=port, path="/health", headers={"Authorization": "Bearer k"})
    echo = world.call("http", port=port, method="POST", path="/v1/echo", body="déjà", headers={})

    assert (told["status"], json.loads(told["body"])) == (200, {"path": "/health", "key_given": True})
    assert json.loads(echo["body"]) == {"echo": "déjà"}
    assert told["elapsed_ms"] > 0


def test_http_to_a_port_where_nothing_listens_says_so(world: World) -> None:
    with pytest.raises(HostRefused) as refused:
        world.call("http", port=free_port())

    assert refused.value.code == "http_refused"


def test_keys_on_a_command_line_are_never_shown(world: World) -> None:
    argv = [*programs.SLEEPER, "--api-key", "s3cr3t-value", "--port", "1", "HF_TOKEN=s3cr3t-value"]

    launch = world.start(argv)

    assert "s3cr3t" not in json.dumps(world.call("list"))
    assert launch.run
    assert launch.run.argv[-5:] == ["--api-key", "[redacted]", "--port", "1", "HF_TOKEN=[redacted]"]


REFUSALS: list[tuple[str, dict[str, object], str]] = [
    ("describe", {"launch_id": "nobody"}, "unknown_launch"),
    ("stop", {"launch_id": "nobody"}, "unknown_launch"),
    ("read_file", {"launch_id": "nobody"}, "unknown_launch"),
    ("describe", {"launch_id": "../../etc"}, "bad_request"),
    ("describe", {}, "bad_request"),
    ("start", {"launch_id": "x", "nonce": "short", "argv": ["true"]}, "bad_request"),
    ("start", {"launch_id": "x", "nonce": "long-enough", "argv": []}, "bad_request"),
    ("start", {"launch_id": "x", "nonce": "long-enough", "argv": "true"}, "bad_request"),
    ("start", {"launch_id": "x", "nonce": "long-enough", "argv": ["true"], "nice": 20}, "bad_request"),
    ("check_port", {"port": 70000}, "bad_request"),
    ("inspect_model", {"path": "/nowhere"}, "no_such_path"),
    ("engine_options", {"executable": "/nowhere/vllm"}, "no_engine"),
    ("dance", {}, "unknown_verb"),
]


def test_what_cannot_be_done_is_refused_by_code(world: World) -> None:
    for verb, params, code in REFUSALS:
        with pytest.raises(HostRefused) as refused:
            world.call(verb, **params)
        assert (verb, refused.value.code) == (verb, code)
    assert world.listing() == {}
