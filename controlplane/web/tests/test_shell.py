"""Search, secrets, about, health, error pages, the API reference."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.models import Model
from django.test import Client, RequestFactory, override_settings
from django.urls import resolve, reverse

from controlplane.core import secrets_store
from controlplane.core.models import Secret
from controlplane.web import queries
from controlplane.web.queries.search import MOST_HITS
from controlplane.web.tests import worlds
from controlplane.web.views.errors import server_error

PAGES = ("overview", "palette", "api_docs", "secrets", "about")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_for_those_signed_in(client_of: Callable[[str], Client], page: str) -> None:
    url = reverse(f"web:{page}")
    assert client_of("viewer").get(url).status_code == 200
    assert client_of("outsider").get(url).status_code == 302


def everywhere(name: str, thing: Model | None) -> str:
    """Every page has an address, whatever the other apps have by now."""
    return f"/{name}/{thing.pk if thing else ''}"


def titles(text: str, *, kind: str = "", may_operate: bool = False, may_administer: bool = False) -> list[str]:
    hits = queries.search(text, may_operate=may_operate, may_administer=may_administer, address=everywhere)
    return [hit.title for hit in hits if kind in {"", hit.kind}]


@pytest.mark.django_db
def test_the_search_finds_by_part_of_a_name_and_puts_beginnings_first() -> None:
    worlds.version("otter")
    here = worlds.host("otter-host")
    worlds.instance("big-otter-0", on=here)
    assert titles("otter") == ["otter", "otter-host", "big-otter-0"]


@pytest.mark.django_db
def test_the_search_finds_a_run_by_its_number() -> None:
    run = worlds.run(worlds.version(), on=worlds.host())
    for text in (f"{run.pk}", f"run {run.pk}", f"#{run.pk}"):
        assert f"Run {run.pk}" in titles(text)


@pytest.mark.django_db
def test_the_search_offers_the_actions_that_the_role_allows() -> None:
    assert titles("", kind="action") == []
    operator = titles("", kind="action", may_operate=True)
    assert "Launch an instance" in operator
    assert "Add a host" not in operator
    assert "Add a host" in titles("", kind="action", may_operate=True, may_administer=True)


@pytest.mark.django_db
def test_the_search_answers_with_at_most_twenty() -> None:
    worlds.full(8)
    assert len(titles("m", may_operate=True, may_administer=True)) == MOST_HITS


def test_odd_input_to_the_search_is_no_fault(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    for text in ("a\0b", "%", "\\", "9" * 500, "'; --", "�"):
        assert client.get(reverse("web:palette"), {"q": text}).status_code == 200


def test_the_health_check_needs_no_login_and_names_the_database(db: None) -> None:
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok"})


def test_the_health_check_says_so_when_the_database_is_gone(db: None) -> None:
    def gone(*args: Any) -> None:
        raise OperationalError("gone")

    with connection.execute_wrapper(gone):
        answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")


def test_a_wrong_address_is_a_page_or_problem_json(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    page = client.get("/no/such/page")
    assert page.status_code == 404
    assert "There is nothing at this address" in page.content.decode()
    answer = client.get("/api/v1/no-such-thing")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_database_that_is_away_is_named_with_when_to_try_again(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    client.raise_request_exception = False

    def gone(*args: Any) -> None:
        raise OperationalError("connection failed: password=secret")

    with connection.execute_wrapper(gone):
        page, answer = client.get("/instances/"), client.get("/api/v1/hosts")
    for response in (page, answer):
        assert (response.status_code, response["Retry-After"]) == (503, "5")
        assert "The database does not answer" in response.content.decode()
        assert "password" not in response.content.decode()
    assert answer.json()["code"] == "database_unavailable"


def test_a_deadlock_is_a_fault_and_no_missing_database(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    client.raise_request_exception = False

    def deadlocked(*args: Any) -> None:
        raise OperationalError("deadlock detected") from psycopg.errors.DeadlockDetected("deadlock detected")

    with connection.execute_wrapper(deadlocked):
        assert client.get("/api/v1/hosts").json()["code"] == "server_error"


@override_settings(DEBUG=False)
def test_a_fault_is_told_without_asking_the_database() -> None:
    page = server_error(RequestFactory().get("/"))
    assert page.status_code == 500
    assert "The server failed to answer" in page.content.decode()
    answer = server_error(RequestFactory().get("/api/v1/hosts"))
    assert json.loads(answer.content)["code"] == "server_error"


def test_secrets_are_stored_replaced_and_deleted_without_showing_them(client_of: Callable[[str], Client]) -> None:
    client, url = client_of("admin"), reverse("web:secrets")
    client.post(url, {"name": "hub", "kind": "api_key", "text": " sk-very-secret \r\n", "hint": "the hub"})
    assert secrets_store.reveal("secret:hub") == "sk-very-secret"
    page = client.get(url).content.decode()
    assert "secret:hub" in page
    assert "very-secret" not in page
    client.post(reverse("web:replace_secret", args=["hub"]), {"text": "sk-other", "hint": ""})
    assert secrets_store.reveal("secret:hub") == "sk-other"
    client.post(reverse("web:delete_secret", args=["hub"]))
    assert not Secret.objects.exists()


def test_a_form_with_a_fault_does_not_send_the_secret_back(client_of: Callable[[str], Client]) -> None:
    data = {"name": "Not A Name", "kind": "api_key", "text": "sk-very-secret"}
    answer = client_of("admin").post(reverse("web:secrets"), data)
    assert answer.status_code == 422
    assert "very-secret" not in answer.content.decode()


def test_a_private_key_keeps_its_lines_as_openssh_wants_them(client_of: Callable[[str], Client]) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\r\nAAAA\r\n-----END OPENSSH PRIVATE KEY-----\r\n"
    client_of("admin").post(reverse("web:secrets"), {"name": "gpu", "kind": "ssh_key", "text": key})
    assert secrets_store.reveal("secret:gpu") == key.replace("\r\n", "\n")


def test_a_viewer_sees_names_and_changes_nothing(client_of: Callable[[str], Client]) -> None:
    secrets_store.store(name="hub", kind="api_key", plain="x", actor="test")
    client = client_of("viewer")
    assert "secret:hub" in client.get(reverse("web:secrets")).content.decode()
    assert client.post(reverse("web:secrets"), {"name": "a", "kind": "api_key", "text": "x"}).status_code == 403
    assert client.post(reverse("web:replace_secret", args=["hub"]), {"text": "y"}).status_code == 403
    assert client.post(reverse("web:delete_secret", args=["hub"])).status_code == 403
    assert secrets_store.reveal("secret:hub") == "x"


def test_about_names_versions_and_the_key_file(client_of: Callable[[str], Client]) -> None:
    page = client_of("viewer").get(reverse("web:about")).content.decode()
    assert "0.8.5" in page
    assert "secret.key" in page


def test_the_api_reference_lists_every_operation_with_an_example(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    page = client.get(reverse("web:api_docs")).content.decode()
    document = client.get("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page
    assert "$TOKEN" in page
    assert "<script>" not in page
    assert "style=" not in page


def test_the_api_reference_is_searchable(client_of: Callable[[str], Client]) -> None:
    answer = client_of("viewer").get(reverse("web:api_docs"), {"q": "secrets"}, headers={"HX-Request": "true"})
    text = answer.content.decode()
    assert "/api/v1/secrets" in text
    assert "/api/v1/me" not in text
    assert "<html" not in text


def test_the_root_is_the_overview(db: None) -> None:
    assert resolve("/").view_name == "web:overview"
