"""People and tokens, on pages and over the API."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.accounts import services
from controlplane.accounts.models import ApiToken, Role, User
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.models import Event

PAGES = ("settings", "tokens")


@pytest.mark.parametrize("page", PAGES)
def test_everybody_sees_their_own_pages_and_outsiders_none(client_of: Callable[[str], Client], page: str) -> None:
    url = reverse(f"accounts:{page}")
    assert client_of("viewer").get(url).status_code == 200
    assert client_of("outsider").get(url).status_code == 302


def test_only_administrators_see_people(client_of: Callable[[str], Client]) -> None:
    assert client_of("admin").get(reverse("accounts:people")).status_code == 200
    assert client_of("operator").get(reverse("accounts:people")).status_code == 403


def test_a_new_person_gets_a_password_that_is_shown_once(client_of: Callable[[str], Client]) -> None:
    client = client_of("admin")
    answer = client.post(reverse("accounts:people"), {"username": "mira", "role": "operator"})
    user = User.objects.get(username="mira")
    password = answer.context["password"]
    assert user.check_password(password)
    assert user.must_change_password
    assert password in answer.content.decode()
    assert password not in client.get(reverse("accounts:people")).content.decode()
    event = Event.objects.get(name="user.created")
    assert (event.actor, event.subject_label) == ("admin", "mira")
    assert password not in str(event.data)


def test_a_name_that_is_taken_or_unusable_is_refused_in_words(client_of: Callable[[str], Client]) -> None:
    client = client_of("admin")
    for name, status, word in (("admin", 409, "already"), ("a b", 422, "cannot be a user name")):
        answer = client.post(reverse("accounts:people"), {"username": name, "role": "viewer"})
        assert answer.status_code == status
        assert word in answer.content.decode()


def test_the_last_administrator_keeps_the_role_and_the_door(person: Callable[[str], User]) -> None:
    admin = person("admin")
    with pytest.raises(Conflict, match="last administrator"):
        services.change_role(admin, role=Role.VIEWER, actor="admin")
    with pytest.raises(Conflict, match="last administrator"):
        services.deactivate_person(admin, actor="admin")
    other, _ = services.add_person(username="second", role=Role.ADMIN, actor="admin")
    assert services.change_role(admin, role=Role.VIEWER, actor="second")
    with pytest.raises(Conflict, match="last administrator"):
        services.deactivate_person(other, actor="second")


def test_the_page_says_why_the_last_administrator_stays(client_of: Callable[[str], Client]) -> None:
    client = client_of("admin")
    pk = User.objects.get(username="admin").pk
    for url, data in (
        ("change_role", {"role": "viewer"}),
        ("deactivate_person", {}),
        ("change_role", {"role": "king"}),
    ):
        page = client.post(reverse(f"accounts:{url}", args=[pk]), data, follow=True).content.decode()
        assert "notice error" in page
        assert "last administrator" in page or "no such role" in page
    assert User.objects.get(pk=pk).may_administer


def test_roles_are_changed_on_the_page_by_administrators_only(
    client_of: Callable[[str], Client], person: Callable[[str], User]
) -> None:
    url = reverse("accounts:change_role", args=[person("viewer").pk])
    assert client_of("operator").post(url, {"role": "admin"}).status_code == 403
    client_of("admin").post(url, {"role": "operator"})
    assert User.objects.get(username="viewer").role == "operator"
    assert Event.objects.get(name="user.role_changed").data == {"before": "viewer", "after": "operator"}


def test_a_deactivated_person_is_out_everywhere_and_can_come_back(
    client_of: Callable[[str], Client], api_of: Callable[[str], Client], person: Callable[[str], User]
) -> None:
    browser, script = client_of("operator"), api_of("operator")
    assert services.deactivate_person(person("operator"), actor="admin")
    assert browser.get(reverse("accounts:settings")).status_code == 302
    assert script.get("/api/v1/me").status_code == 401
    assert not services.deactivate_person(person("operator"), actor="admin")
    assert services.reactivate_person(person("operator"), actor="admin")
    assert script.get("/api/v1/me").status_code == 200


def test_changing_a_password_needs_the_old_one_and_a_good_new_one(person: Callable[[str], User]) -> None:
    user = person("viewer")
    with pytest.raises(Invalid, match="present password"):
        services.change_password(user, old="wrong", new="a much better one 9")
    with pytest.raises(Invalid, match="too short"):
        services.change_password(user, old="correct horse battery", new="short")
    services.change_password(user, old="correct horse battery", new="a much better one 9")
    assert User.objects.get(pk=user.pk).check_password("a much better one 9")


def test_changing_the_password_keeps_this_browser_and_ends_the_others(client_of: Callable[[str], Client]) -> None:
    here, there = client_of("viewer"), client_of("viewer")
    new = "a much better one 9"
    data = {"old": "correct horse battery", "new": new, "again": new}
    assert here.post(reverse("accounts:change_password"), data).status_code == 302
    assert here.get(reverse("accounts:settings")).status_code == 200
    assert there.get(reverse("accounts:settings")).status_code == 302


def test_a_token_is_shown_once_and_stored_as_a_hash(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    answer = client.post(reverse("accounts:tokens"), {"name": "nightly", "expires_on": ""})
    text = answer.context["text"]
    assert text in answer.content.decode()
    assert text not in client.get(reverse("accounts:tokens")).content.decode()
    assert text not in str(list(ApiToken.objects.values()))
    assert Client(headers={"Authorization": f"Bearer {text}"}).get("/api/v1/me").json()["username"] == "viewer"


def test_a_token_cannot_end_in_the_past(client_of: Callable[[str], Client]) -> None:
    answer = client_of("viewer").post(reverse("accounts:tokens"), {"name": "nightly", "expires_on": "2020-01-01"})
    assert answer.status_code == 422
    assert not ApiToken.objects.exists()


def test_only_the_owner_revokes_a_token(client_of: Callable[[str], Client], person: Callable[[str], User]) -> None:
    token, _ = services.create_token(user=person("viewer"), name="nightly")
    url = reverse("accounts:revoke_token", args=[token.pk])
    assert client_of("admin").post(url).status_code == 404
    assert client_of("viewer").post(url).status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_the_language_switch_changes_the_page_and_stays(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    client.post(reverse("accounts:change_language"), {"language": "zh-hans"})
    assert 'lang="zh-hans"' in client.get(reverse("accounts:settings")).content.decode()
    client.post(reverse("accounts:change_language"), {"language": "en"})
    assert 'lang="en"' in client.get(reverse("accounts:settings")).content.decode()


def test_the_api_knows_who_asks(api_of: Callable[[str], Client]) -> None:
    assert api_of("operator").get("/api/v1/me").json() == {
        "username": "operator",
        "role": "operator",
        "may_operate": True,
        "may_administer": False,
    }
    answer = api_of("outsider").get("/api/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_a_read_only_token_cannot_lend_itself_more(person: Callable[[str], User]) -> None:
    token, text = services.create_token(user=person("admin"), name="dashboard", is_read_only=True)
    client = Client(headers={"Authorization": f"Bearer {text}"})
    assert client.get("/api/v1/tokens").status_code == 200
    assert client.post("/api/v1/tokens", {"name": "more"}, content_type="application/json").status_code == 403
    assert client.delete(f"/api/v1/tokens/{token.pk}").status_code == 403
    body = {"username": "x", "role": "admin"}
    assert client.post("/api/v1/people", body, content_type="application/json").status_code == 403


def test_people_over_the_api(api_of: Callable[[str], Client]) -> None:
    client = api_of("admin")
    made = client.post("/api/v1/people", {"username": "mira", "role": "viewer"}, content_type="application/json")
    assert made.status_code == 201
    assert User.objects.get(username="mira").check_password(made.json()["password"])
    url = f"/api/v1/people/{made.json()['id']}"
    changed = client.patch(url, {"role": "operator", "is_active": False}, content_type="application/json").json()
    assert (changed["role"], changed["is_active"]) == ("operator", False)
    names = [one["username"] for one in client.get("/api/v1/people").json()]
    assert names == ["admin", "mira"]
    assert api_of("operator").get("/api/v1/people").status_code == 403


def test_half_a_change_of_a_person_is_no_change(api_of: Callable[[str], Client], person: Callable[[str], User]) -> None:
    other, _ = services.add_person(username="second", role=Role.ADMIN, actor="admin")
    client = api_of("admin")
    services.deactivate_person(other, actor="admin")
    body = {"role": "admin", "is_active": False}
    answer = client.patch(f"/api/v1/people/{person('admin').pk}", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_a_name_postgres_cannot_keep_is_refused_not_a_fault(api_of: Callable[[str], Client]) -> None:
    answer = api_of("admin").post("/api/v1/tokens", {"name": "a\0b"}, content_type="application/json")
    assert answer.status_code == 422


def test_a_token_may_end_at_any_moment_that_iso_can_name(api_of: Callable[[str], Client]) -> None:
    for moment, status in (("9998-01-01T00:00:00+19:46", 201), ("9999-12-31T23:59:59-12:00", 422)):
        body = {"name": "x", "expires_at": moment}
        assert api_of("viewer").post("/api/v1/tokens", body, content_type="application/json").status_code == status


def test_a_session_needs_the_csrf_token_on_the_api(person: Callable[[str], User]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("viewer"))
    assert client.post("/api/v1/tokens", {"name": "x"}, content_type="application/json").status_code == 403


def test_the_description_of_the_api_is_for_those_who_may_use_it(
    client_of: Callable[[str], Client], api_of: Callable[[str], Client]
) -> None:
    url = "/api/v1/openapi.json"
    assert Client().get(url).status_code == 401
    assert client_of("viewer").get(url).status_code == 200
    assert api_of("viewer").get(url).status_code == 200
