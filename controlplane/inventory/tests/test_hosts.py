"""Adding, changing and removing hosts; their keys."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from django.core.management import CommandError, call_command

from controlplane.core.errors import Conflict, Invalid
from controlplane.core.models import Event, Secret
from controlplane.drivers.endpoint import HostKey
from controlplane.inventory import queries, services
from controlplane.inventory.domain.addresses import fingerprint_of
from controlplane.inventory.models import Host
from controlplane.inventory.services import SshAccess, host_keys

MakeHost = Callable[..., Host]


def faults(error: pytest.ExceptionInfo[Invalid]) -> set[str]:
    return {problem["field"] for problem in error.value.extra["problems"]}


def test_a_new_ssh_host_waits_for_its_key_and_keeps_ours_encrypted(
    db: None, private_key: str, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        host = services.add_host(name="gpu-1", ssh=SshAccess("192.0.2.1", "vllm", new_key=private_key), actor="ann")
    assert (host.state, host.is_probing, len(callbacks)) == ("new", True, 1)
    secret = Secret.objects.get()
    assert (secret.name, secret.kind) == ("ssh-gpu-1", "ssh_key")
    assert secret.hint.startswith("ssh-ed25519 SHA256:")
    assert {event.name for event in Event.objects.all()} == {"secret.stored", "host.added"}


def test_every_fault_is_told_at_once_and_nothing_is_kept(db: None, private_key: str) -> None:
    ssh = SshAccess("a b", "", port=99999, new_key=private_key, jump_host="nowhere", expected_fingerprint="MD5:1")
    with pytest.raises(Invalid) as error:
        services.add_host(name="-", ssh=ssh, actor="x")
    assert faults(error) == {"name", "address", "username", "port", "jump_host", "expected_fingerprint"}
    assert not Secret.objects.exists()


def test_a_taken_name_is_a_conflict_that_stores_no_key(make_host: MakeHost, private_key: str) -> None:
    make_host("gpu-1")
    with pytest.raises(Conflict):
        services.add_host(name="gpu-1", ssh=SshAccess("192.0.2.1", "vllm", new_key=private_key), actor="x")
    assert not Secret.objects.exists()


def test_keys_that_ssh_cannot_use_are_refused_with_the_reason(db: None) -> None:
    encrypted = (
        Ed25519PrivateKey.generate()
        .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
        .decode()
    )
    broken = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
    for text, words in (
        (encrypted, "passphrase"),
        (broken, "cannot be read"),
        ("ssh-ed25519 AAAA", "public half"),
        ("hello", "not a private key"),
    ):
        with pytest.raises(Invalid, match=words):
            services.add_host(name="gpu-1", ssh=SshAccess("192.0.2.1", "vllm", new_key=text), actor="x")


def test_a_host_is_not_reached_through_itself(db: None, private_key: str) -> None:
    way: dict[str, Any] = {"username": "vllm", "new_key": private_key}
    services.add_host(name="a", ssh=SshAccess("192.0.2.1", **way), actor="x")
    services.add_host(name="b", ssh=SshAccess("192.0.2.2", **way, jump_host="a"), actor="x")
    ssh = SshAccess("192.0.2.1", "vllm", jump_host="b")
    with pytest.raises(Invalid) as error:
        services.update_host(host=Host.objects.get(name="a"), ssh=ssh, actor="x")
    assert faults(error) == {"jump_host"}


def test_a_changed_address_keeps_the_pin_and_forgets_the_offer(make_ssh_host: MakeHost, private_key: str) -> None:
    host = make_ssh_host(host_key="ssh-ed25519 A", offered_host_key="ssh-ed25519 B", offered_fingerprint="SHA256:b")
    services.update_host(host=host, ssh=SshAccess("192.0.2.9", "vllm", new_key=private_key), actor="x")
    host.refresh_from_db()
    assert (host.address, host.host_key, host.offered_host_key) == ("192.0.2.9", "ssh-ed25519 A", "")


def test_saying_the_same_again_is_no_event(make_host: MakeHost) -> None:
    host = make_host(note="x")
    services.update_host(host=host, note="x", actor="x")
    assert services.set_maintenance(host=host, is_on=True, actor="x")
    assert not services.set_maintenance(host=host, is_on=True, actor="x")
    assert [event.name for event in Event.objects.all()] == ["host.maintenance_started"]


# -- Removing --------------------------------------------------------------------------------------------------------


def test_an_unused_host_is_gone(make_host: MakeHost) -> None:
    services.remove_host(host=make_host(), actor="x")
    assert not Host.every.exists()


@pytest.mark.parametrize("state", ["pending", "starting", "ready", "draining"])
def test_a_host_with_a_live_instance_is_kept(
    make_host: MakeHost, make_instance: Callable[..., Any], state: str
) -> None:
    host = make_host()
    make_instance(host, "chat-0", state=state)
    with pytest.raises(Conflict, match="chat-0"):
        services.remove_host(host=host, actor="x")
    assert Host.objects.exists()


def test_a_host_with_history_leaves_it_behind_and_frees_its_name(
    make_host: MakeHost, make_instance: Callable[..., Any]
) -> None:
    host = make_host("gpu-1")
    instance = make_instance(host, "chat-0", state="stopped")
    services.remove_host(host=host, actor="x")
    assert not Host.objects.exists()
    instance.refresh_from_db()
    assert instance.host.name == f"gpu-1-removed-{host.pk}"
    make_host("gpu-1")


def test_a_jump_host_in_use_is_kept(make_ssh_host: MakeHost) -> None:
    jump = make_ssh_host("jump")
    make_ssh_host("gpu-1", jump_host=jump)
    with pytest.raises(Conflict, match="gpu-1"):
        services.remove_host(host=jump, actor="x")


def test_live_states_are_those_of_the_fleet() -> None:
    from controlplane.fleet.models import LIVE_STATES  # noqa: PLC0415  # an app above ours: only a test may look

    assert set(queries.LIVE_INSTANCE_STATES) == {str(state) for state in LIVE_STATES}


# -- Host keys -------------------------------------------------------------------------------------------------------


def offer(host: Host, public_key: str) -> str:
    """The host shows a key; returns its fingerprint."""
    fingerprint = fingerprint_of(public_key)
    host_keys._keep_offer(host, HostKey(type="ssh-ed25519", text=public_key, fingerprint=fingerprint))
    host.refresh_from_db()
    return fingerprint


def test_a_first_key_waits_for_a_person(make_ssh_host: MakeHost, public_key: str) -> None:
    host = make_ssh_host()
    fingerprint = offer(host, public_key)
    assert host.awaits_pinning
    with pytest.raises(services.KeyNotOffered):
        services.pin_host_key(host=host, fingerprint="SHA256:another", actor="x")
    services.pin_host_key(host=host, fingerprint=fingerprint, actor="ann")
    host.refresh_from_db()
    assert (host.host_key, host.host_key_fingerprint) == (public_key, fingerprint)
    assert host.is_probing
    assert Event.objects.get(name="host.key_pinned").actor == "ann"
    with pytest.raises(Conflict, match="pinned already"):
        services.pin_host_key(host=host, fingerprint=fingerprint, actor="x")


def test_an_expected_key_is_pinned_by_itself_and_another_is_refused(make_ssh_host: MakeHost, public_key: str) -> None:
    expected = make_ssh_host("a", expected_fingerprint=fingerprint_of(public_key) + "=")
    offer(expected, public_key)
    assert expected.host_key == public_key
    surprised = make_ssh_host("b", expected_fingerprint="SHA256:" + "x" * 43)
    offer(surprised, public_key)
    assert (surprised.host_key, surprised.state, surprised.error_code) == ("", "refused", "host_key_unexpected")
    services.pin_host_key(host=surprised, fingerprint=fingerprint_of(public_key), actor="ann")  # a person may still


def test_a_changed_key_is_replaced_only_explicitly(make_ssh_host: MakeHost, public_key: str) -> None:
    host = make_ssh_host(host_key="ssh-ed25519 OLD", host_key_fingerprint="SHA256:old", state="refused")
    fingerprint = offer(host, public_key)
    assert host.has_changed_key
    assert host.host_key == "ssh-ed25519 OLD"
    services.replace_host_key(host=host, fingerprint=fingerprint, actor="ann")
    host.refresh_from_db()
    assert host.host_key == public_key
    assert Event.objects.get(name="host.key_replaced").data == {"before": "SHA256:old"}


def test_the_fingerprint_is_the_one_that_ssh_keygen_prints() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    assert (
        fingerprint_of(key) == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    )  # github.com's, as it publishes it
    for text in ("", "ssh-ed25519", "ssh-ed25519 !!", "ssh-rsa " + key.split()[1]):
        with pytest.raises(ValueError, match="key"):
            fingerprint_of(text)


# -- ensure_localhost ------------------------------------------------------------------------------------------------


def test_ensure_localhost_registers_this_machine_once(db: None) -> None:
    for _ in range(2):
        call_command("ensure_localhost", "--engine-path", "/opt/e/bin/vllm", stdout=StringIO())
    host = Host.objects.get()
    assert (host.name, host.transport, host.engine_paths) == ("localhost", "local", ["/opt/e/bin/vllm"])
    assert Event.objects.count() == 1


def test_ensure_localhost_goes_over_ssh_and_back(db: None, tmp_path: Path, private_key: str, public_key: str) -> None:
    (tmp_path / "key").write_text(private_key)
    (tmp_path / "host.pub").write_text(public_key + " root@here\n")
    call_command("ensure_localhost", stdout=StringIO())
    files = ["--ssh-key-file", str(tmp_path / "key"), "--host-key-file", str(tmp_path / "host.pub")]
    for port in ("2222", "2223"):
        call_command("ensure_localhost", "--ssh-port", port, "--ssh-user", "me", *files, stdout=StringIO())
    host = Host.objects.get()
    assert (host.where, host.host_key) == ("me@127.0.0.1:2223", public_key)
    assert Secret.objects.count() == 1
    call_command("ensure_localhost", "--local", stdout=StringIO())
    assert Host.objects.get().is_local


def test_ensure_localhost_says_which_file_is_missing(db: None, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        call_command("ensure_localhost", "--ssh-port", "22", "--ssh-key-file", str(tmp_path / "nowhere"))
