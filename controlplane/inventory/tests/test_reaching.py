"""What answers and failures make of a host's state."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.core.models import Event, Secret
from controlplane.drivers.errors import AuthenticationRefused, HostKeyChanged, HostRefused, StillOpening, Unreachable
from controlplane.drivers.fake import FakeHost
from controlplane.inventory import queries, services
from controlplane.inventory.domain import reachability
from controlplane.inventory.domain.reachability import REACHABLE, REFUSED, UNREACHABLE, Standing
from controlplane.inventory.models import Host

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
MakeHost = Callable[..., Host]
MachineOf = Callable[[Host], FakeHost]


def seconds(amount: float) -> timedelta:
    return timedelta(seconds=amount)


def test_one_hiccup_leaves_a_host_reachable() -> None:
    before = Standing(REACHABLE, 0, NOW)
    after = reachability.after_failure(before, NOW + seconds(60), is_refusal=False)
    assert after == Standing(REACHABLE, 1, NOW)


def test_lasting_silence_makes_it_unreachable() -> None:
    standing = Standing(REACHABLE, 0, NOW)
    states = []
    for second in (10, 20, 30):
        standing = reachability.after_failure(standing, NOW + seconds(second), is_refusal=False)
        states.append(standing.state)
    assert states == [REACHABLE, REACHABLE, UNREACHABLE]


def test_many_failures_within_a_moment_are_still_one_hiccup() -> None:
    standing = Standing(REACHABLE, 0, NOW)
    for second in (1, 2, 3, 4, 5):
        standing = reachability.after_failure(standing, NOW + seconds(second), is_refusal=False)
    assert standing == Standing(REACHABLE, 5, NOW)


def test_a_host_that_never_answered_is_unreachable_at_once() -> None:
    assert reachability.after_failure(Standing("new"), NOW, is_refusal=False).state == UNREACHABLE


@pytest.mark.parametrize("state", ["new", REACHABLE, UNREACHABLE, REFUSED])
def test_a_refusal_counts_at_once_and_an_answer_brings_it_back(state: str) -> None:
    refused = reachability.after_failure(Standing(state, 0, NOW), NOW, is_refusal=True)
    assert refused.state == REFUSED
    assert reachability.after_failure(refused, NOW + seconds(999), is_refusal=False).state == REFUSED
    assert reachability.after_answer(refused, NOW) == Standing(REACHABLE, 0, NOW)


def test_three_of_five_silent_within_a_minute_means_that_we_are_cut_off() -> None:
    silent = [NOW, NOW + seconds(20), NOW + seconds(59)]
    assert reachability.is_blind(silent, hosts=5, now=NOW + seconds(120))


@pytest.mark.parametrize(
    ("offsets", "hosts"),
    [([0, 1], 2), ([0, 1, 2], 6), ([0, 30, 61], 3), ([-4000, -4000, -4000], 3)],
    ids=["too few", "not the majority", "not at once", "long ago"],
)
def test_it_is_them_and_not_us(offsets: list[int], hosts: int) -> None:
    silent = [NOW + seconds(offset) for offset in offsets]
    assert not reachability.is_blind(silent, hosts=hosts, now=NOW + seconds(100))


def test_blindness_is_read_from_the_rows(make_ssh_host: MakeHost, make_host: MakeHost) -> None:
    make_host("here", last_seen_at=NOW)
    for number in range(4):
        make_ssh_host(f"gpu-{number}", last_seen_at=NOW, failures_in_a_row=0 if number == 3 else 2)
    assert queries.is_blind(NOW + seconds(30))
    Host.objects.filter(name="gpu-1").update(failures_in_a_row=0)
    assert not queries.is_blind(NOW + seconds(30))


def test_an_answer_is_news_once(make_host: MakeHost, machine_of: MachineOf) -> None:
    host = make_host(state="new")
    machine_of(host)
    services.call_host(host, "hello")
    services.call_host(host, "hello")
    fresh = Host.objects.get()
    assert (fresh.state, fresh.failures_in_a_row) == ("reachable", 0)
    assert fresh.last_seen_at is not None
    assert host.state == "reachable"
    assert [event.name for event in Event.objects.all()] == ["host.reached"]


def test_silence_is_counted_told_and_forgotten(make_host: MakeHost, machine_of: MachineOf) -> None:
    host = make_host(state="reachable", last_seen_at=NOW)
    machine = machine_of(host)
    machine.go_offline()
    for number in range(3):
        with pytest.raises(Unreachable):
            services.call_host(host, "hello")
        assert Host.objects.get().failures_in_a_row == number + 1
    fresh = Host.objects.get()
    assert (fresh.state, fresh.error_code) == ("unreachable", "unreachable")
    assert fresh.error_remedy
    machine.is_online = True
    services.call_host(host, "hello")
    fresh = Host.objects.get()
    assert (fresh.state, fresh.failures_in_a_row, fresh.error) == ("reachable", 0, "")
    assert [event.name for event in Event.objects.order_by("id")] == ["host.lost", "host.reached"]


def test_a_connection_that_is_still_being_opened_is_no_news(make_host: MakeHost, machine_of: MachineOf) -> None:
    host = make_host(state="reachable", last_seen_at=NOW)
    machine_of(host).go_offline(StillOpening)
    with pytest.raises(StillOpening):
        services.call_host(host, "hello")
    fresh = Host.objects.get()
    assert (fresh.state, fresh.failures_in_a_row, fresh.error_code) == ("reachable", 0, "")


def test_a_refusal_of_the_host_program_shows_that_the_host_is_there(make_host: MakeHost, machine_of: MachineOf) -> None:
    host = make_host(state="unreachable", failures_in_a_row=9)
    machine_of(host)
    with pytest.raises(HostRefused):
        services.call_host(host, "inspect_model", {"path": "/nothing"})
    assert Host.objects.get().state == "reachable"


def test_a_changed_key_is_a_refusal_whose_new_key_is_fetched(
    make_ssh_host: MakeHost, django_capture_on_commit_callbacks: Any
) -> None:
    host = make_ssh_host(state="reachable", last_seen_at=NOW, host_key="ssh-ed25519 old")
    with django_capture_on_commit_callbacks() as callbacks:
        services.note_failure(host, HostKeyChanged(address="gpu-1", expected="a", presented="b"), NOW)
    assert Host.objects.get().state == "refused"
    assert len(callbacks) == 1
    services.note_failure(host, AuthenticationRefused("no"), NOW)
    assert Event.objects.filter(name="host.refused").count() == 1


def test_maintenance_outlives_every_change_of_state(make_host: MakeHost, machine_of: MachineOf) -> None:
    host = make_host(state="reachable", is_in_maintenance=True)
    services.note_failure(host, AuthenticationRefused("no"), NOW)
    machine_of(host)
    services.probe_host(host.pk)
    assert Host.objects.get().is_in_maintenance


def test_an_endpoint_needs_a_pinned_key(make_ssh_host: MakeHost, public_key: str) -> None:
    host = make_ssh_host()
    with pytest.raises(services.HostKeyNotPinned):
        services.endpoint_of(host)
    host.host_key = public_key
    host.jump_host = make_ssh_host("jump")
    with pytest.raises(services.HostKeyNotPinned, match="jump"):
        services.endpoint_of(host)


def test_the_private_key_is_in_the_endpoint_and_in_no_text_of_it(db: None, private_key: str, public_key: str) -> None:
    ssh = services.SshAccess("192.0.2.1", "vllm", new_key=private_key)
    host = services.add_host(name="gpu-1", ssh=ssh, actor="x")
    services.pin_known_key(host=host, public_key=public_key, actor="x")
    endpoint = services.endpoint_of(Host.objects.get())
    assert endpoint.private_key == private_key
    assert "PRIVATE" not in repr(endpoint)
    assert "PRIVATE" not in repr(ssh)
    assert private_key.splitlines()[1] not in str(list(Event.objects.values()) + list(Secret.objects.values("hint")))
