"""A host over a real sshd: from its form to reachable, and what happens when its key changes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.core.models import Event
from controlplane.drivers import links
from controlplane.drivers.errors import AuthenticationRefused, HostKeyChanged
from controlplane.drivers.tests.sshd import Sshd, new_key, public_text, running_sshd
from controlplane.inventory import services, tasks
from controlplane.inventory.models import Host

pytestmark = [pytest.mark.e2e, pytest.mark.ssh, pytest.mark.django_db]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd") as server:
        yield server
        links.close()


def form_data(sshd: Sshd, **more: str) -> dict[str, str]:
    way = sshd.endpoint(root="unused")
    return {
        "name": "remote",
        "transport": "ssh",
        "address": way.address,
        "port": str(way.port),
        "username": way.username,
        "key_name": "-new-",
        "new_key": way.private_key,
        **more,
    }


def add(client: Client, sshd: Sshd, tmp_path: Path, **more: str) -> Host:
    """Send the form and let the worker's task run, as it would after the commit."""
    response = client.post(reverse("inventory:host_add"), form_data(sshd, **more))
    assert response.status_code == 302
    host = Host.objects.get(name="remote")
    Host.objects.update(root=str(tmp_path / "root"))
    tasks.fetch_host_key(host_id=host.pk)
    host.refresh_from_db()
    return host


def test_add_show_pin_probe_then_a_changed_key_refuses_everything(
    sshd: Sshd, tmp_path: Path, client_of: Callable[[str], Client]
) -> None:
    client = client_of("admin")
    host = add(client, sshd, tmp_path)
    page = reverse("inventory:host_detail", args=[host.pk])
    fingerprint = sshd.host_key.get_fingerprint()
    assert fingerprint in client.get(page).content.decode()
    with pytest.raises(services.HostKeyNotPinned):
        services.call_host(host, "hello")

    client.post(reverse("inventory:host_pin", args=[host.pk]), {"fingerprint": fingerprint})
    tasks.probe(host_id=host.pk)
    host.refresh_from_db()
    assert (host.state, host.error) == ("reachable", "")
    assert host.facts["cpu_count"] >= 1

    old_key = sshd.host_key
    links.close()  # an open connection has proved its key already; the next one has to do it again
    sshd.cut()
    sshd.host_key = new_key()
    sshd.start()
    host = Host.objects.get()
    for _ in range(2):
        with pytest.raises(HostKeyChanged):
            services.call_host(host, "hello")
    assert Host.objects.get().state == "refused"
    tasks.fetch_host_key(host_id=host.pk)
    content = client.get(page).content.decode()
    assert sshd.host_key.get_fingerprint() in content
    assert fingerprint in content
    tasks.probe(host_id=host.pk)
    host.refresh_from_db()
    assert (host.state, host.host_key) == ("refused", public_text(old_key))

    client.post(page + "pin/", {"fingerprint": sshd.host_key.get_fingerprint(), "replace": "1"})
    tasks.probe(host_id=host.pk)
    host.refresh_from_db()
    assert (host.state, host.has_changed_key, host.error) == ("reachable", False, "")
    names = [event.name for event in Event.objects.filter(subject_type="host").order_by("id")]
    assert names == [
        "host.added",
        "host.key_offered",
        "host.key_pinned",
        "host.reached",
        "host.refused",
        "host.key_changed",
        "host.key_replaced",
        "host.reached",
    ]


def test_the_old_key_shown_again_makes_it_reachable_by_itself(
    sshd: Sshd, tmp_path: Path, client_of: Callable[[str], Client]
) -> None:
    host = add(client_of("admin"), sshd, tmp_path, expected_fingerprint=sshd.host_key.get_fingerprint())
    assert host.host_key == public_text(sshd.host_key)  # told beforehand: nobody had to ask
    right = sshd.host_key
    for key, state in ((new_key(), "refused"), (right, "reachable")):
        links.close()
        sshd.cut()
        sshd.host_key = key
        sshd.start()
        tasks.probe(host_id=host.pk)
        if state == "refused":
            tasks.fetch_host_key(host_id=host.pk)
        host.refresh_from_db()
        assert (host.state, host.has_changed_key) == (state, state == "refused")


def test_an_unexpected_key_is_not_pinned(sshd: Sshd, tmp_path: Path, client_of: Callable[[str], Client]) -> None:
    host = add(client_of("admin"), sshd, tmp_path, expected_fingerprint=new_key().get_fingerprint())
    assert (host.state, host.host_key, host.error_code) == ("refused", "", "host_key_unexpected")


def test_a_key_that_the_host_does_not_know_is_a_refusal_with_a_remedy(
    sshd: Sshd, tmp_path: Path, client_of: Callable[[str], Client]
) -> None:
    wrong = new_key().export_private_key("openssh").decode()
    expected = sshd.host_key.get_fingerprint()
    host = add(client_of("admin"), sshd, tmp_path, new_key=wrong, expected_fingerprint=expected)
    with pytest.raises(AuthenticationRefused):
        services.call_host(host, "hello")
    host.refresh_from_db()
    assert (host.state, host.error_code) == ("refused", "authentication_refused")
    assert "authorized_keys" in host.error_remedy


def test_a_host_behind_a_jump_host_is_fetched_and_probed_through_it(
    sshd: Sshd, tmp_path: Path, client_of: Callable[[str], Client]
) -> None:
    jump = add(client_of("admin"), sshd, tmp_path, expected_fingerprint=sshd.host_key.get_fingerprint())
    with running_sshd(tmp_path / "inner") as inner:
        data = form_data(inner, name="inner", jump_host=jump.name)
        client_of("admin").post(reverse("inventory:host_add"), data)
        host = Host.objects.get(name="inner")
        Host.objects.filter(pk=host.pk).update(root=str(tmp_path / "inner-root"))
        tasks.fetch_host_key(host_id=host.pk)
        services.pin_host_key(host=host, fingerprint=inner.host_key.get_fingerprint(), actor="x")
        tasks.probe(host_id=host.pk)
        assert Host.objects.get(name="inner").state == "reachable"
        links.close()
