"""Secrets over the API, and who uses which."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.configs.models import Config, ConfigVersion
from controlplane.core import secrets_store
from controlplane.core.errors import Conflict
from controlplane.core.models import Event, Secret
from controlplane.inventory.models import Host
from controlplane.ops import queries, services

URL = "/api/v1/secrets"
JSON: dict[str, Any] = {"content_type": "application/json"}


def stored(name: str, kind: str = "api_key") -> Secret:
    return secrets_store.store(name=name, kind=kind, plain="sk-very-secret", actor="test")


def version_with(content: dict[str, Any]) -> ConfigVersion:
    config = Config.objects.create(name="chat", created_by="test")
    return ConfigVersion.objects.create(
        config=config, number=1, toml=b"", content=content, digest="d", file_digest="f", author="test"
    )


@pytest.mark.django_db
def test_a_secret_knows_the_hosts_and_versions_that_refer_to_it() -> None:
    key, hub, idle = stored("gpu", "ssh_key"), stored("hub"), stored("hub-2")
    Host.objects.create(name="gpu-01", transport="ssh", ssh_key=key)
    version_with({"server": {"api_key": "secret:hub"}})
    used = {secret.name: [use.label for use in uses] for secret, uses in queries.secrets_with_uses()}
    assert used == {"gpu": ["gpu-01"], "hub": ["chat v1"], "hub-2": []}
    for secret in (key, hub):
        with pytest.raises(Conflict, match="is used by"):
            services.delete_secret(secret, actor="test")
    services.delete_secret(idle, actor="test")
    assert Secret.objects.count() == 2
    assert Event.objects.get(name="secret.deleted").subject_label == "secret:hub-2"


@pytest.mark.django_db
def test_the_uses_of_all_secrets_take_as_many_queries_for_many(django_assert_num_queries: Any) -> None:
    for number in range(10):
        Host.objects.create(name=f"gpu-{number}", transport="ssh", ssh_key=stored(f"gpu-{number}", "ssh_key"))
    with django_assert_num_queries(3):
        queries.secrets_with_uses()


def test_the_api_takes_secrets_and_gives_none_out(api_of: Callable[[str], Client]) -> None:
    client = api_of("admin")
    made = client.post(URL, {"name": "hub", "kind": "api_key", "text": "sk-very-secret"}, **JSON)
    assert (made.status_code, made.json()["reference"]) == (201, "secret:hub")
    assert client.put(f"{URL}/hub", {"text": "sk-also-secret"}, **JSON).status_code == 200
    assert secrets_store.reveal("secret:hub") == "sk-also-secret"
    everything = made.content.decode() + client.get(URL).content.decode() + str(list(Event.objects.values()))
    assert "very-secret" not in everything
    assert "also-secret" not in everything
    assert client.delete(f"{URL}/hub").status_code == 204
    assert client.delete(f"{URL}/hub").status_code == 404


def test_a_secret_in_use_is_not_deleted_and_the_answer_names_the_user(api_of: Callable[[str], Client]) -> None:
    Host.objects.create(name="gpu-01", transport="ssh", ssh_key=stored("gpu", "ssh_key"))
    answer = api_of("admin").delete(f"{URL}/gpu")
    assert (answer.status_code, answer.json()["title"]) == (409, "secret:gpu is used by gpu-01.")


def test_a_refused_text_is_not_repeated_in_the_answer(api_of: Callable[[str], Client]) -> None:
    client = api_of("admin")
    for body in ({"name": "Hub!", "kind": "api_key", "text": "sk-very-secret"}, {"text": "sk-very-secret"}):
        answer = client.post(URL, body, **JSON)
        assert answer.status_code == 422
        assert "very-secret" not in answer.content.decode()
    stored("hub")
    answer = client.post(URL, {"name": "hub", "kind": "api_key", "text": "sk-very-secret"}, **JSON)
    assert answer.status_code == 409
    assert "very-secret" not in answer.content.decode()


@pytest.mark.parametrize("text", ["sk-a\nb", "sk-\u200b", "ключ"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(api_of: Callable[[str], Client], text: str) -> None:
    hub = stored("hub")
    api = api_of("admin")
    for answer in (
        api.post(URL, {"name": "new", "kind": "api_key", "text": text}, content_type="application/json"),
        api.put(f"{URL}/hub", {"text": text}, content_type="application/json"),
    ):
        assert answer.status_code == 422
        assert "no client can send" in answer.json()["title"]
        assert text not in answer.content.decode()
    assert secrets_store.reveal(hub.reference) == "sk-very-secret"


def test_only_administrators_change_secrets(api_of: Callable[[str], Client]) -> None:
    stored("hub")
    client = api_of("operator")
    assert client.get(URL).status_code == 200
    assert client.post(URL, {"name": "a", "kind": "api_key", "text": "x"}, **JSON).status_code == 403
    assert client.put(f"{URL}/hub", {"text": "x"}, **JSON).status_code == 403
    assert client.delete(f"{URL}/hub").status_code == 403
