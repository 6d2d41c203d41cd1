"""Who gets in, and how long somebody who guesses has to wait."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from controlplane.accounts import services
from controlplane.accounts.domain import throttle
from controlplane.accounts.models import LoginTries, User

RIGHT = "correct horse battery"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sign_in(name: str, password: str) -> tuple[int, str]:
    response = Client().post(reverse("accounts:login"), {"username": name, "password": password})
    return response.status_code, response.content.decode()


def test_the_wait_starts_after_the_free_tries_and_doubles_up_to_a_quarter_of_an_hour() -> None:
    assert [throttle.wait_s(tries) for tries in (0, 4, 5, 6, 7)] == [0, 0, 5, 10, 20]
    assert throttle.wait_s(100_000) == throttle.LONGEST_WAIT_S


def test_the_right_password_opens_the_overview(person: Callable[[str], User]) -> None:
    person("viewer")
    assert sign_in("viewer", RIGHT)[0] == 302


def test_somebody_not_signed_in_is_led_to_the_login_page_and_back(db: None) -> None:
    response = Client().get(reverse("accounts:settings"))
    assert response.status_code == 302
    assert response["Location"] == f"{reverse('accounts:login')}?next={reverse('accounts:settings')}"


def test_after_five_wrong_passwords_even_the_right_one_has_to_wait(person: Callable[[str], User]) -> None:
    person("viewer")
    assert [sign_in("viewer", "wrong")[0] for _ in range(5)] == [200] * 5
    response = Client().post(reverse("accounts:login"), {"username": "viewer", "password": RIGHT})
    assert response.status_code == 429
    assert int(response["Retry-After"]) in range(1, 6)
    assert "Too many wrong passwords" in response.content.decode()


def test_unknown_wrong_and_deactivated_get_one_answer(person: Callable[[str], User]) -> None:
    person("viewer")
    gone = person("operator")
    gone.is_active = False
    gone.save()
    answers = [sign_in("viewer", "wrong"), sign_in("nobody", "wrong"), sign_in("operator", RIGHT)]
    texts = {
        text.replace("viewer", "X").replace("nobody", "X").replace("operator", "X").partition('name="csrfmiddleware')[0]
        for _, text in answers
    }
    assert {status for status, _ in answers} == {200}
    assert len({text.partition("<body")[0] for text in texts}) == 1
    assert all("Name and password do not match" in text for _, text in answers)


def test_an_unknown_name_has_to_wait_as_a_known_one(db: None) -> None:
    for _ in range(5):
        sign_in("nobody", "wrong")
    assert sign_in("nobody", "wrong")[0] == 429


def test_a_right_password_starts_the_count_anew(person: Callable[[str], User]) -> None:
    person("viewer")
    for _ in range(3):
        assert [sign_in("viewer", "wrong")[0] for _ in range(4)] == [200] * 4
        assert sign_in("viewer", RIGHT)[0] == 302


@pytest.mark.django_db
def test_the_wait_ends_by_itself_and_an_hour_later_all_is_forgotten() -> None:
    for _ in range(5):
        services.claim_try(username="viewer", address="192.0.2.1", now=NOW)
    with pytest.raises(services.TooManyTries) as refused:
        services.claim_try(username="viewer", address="192.0.2.1", now=NOW)
    assert refused.value.extra["wait_s"] == throttle.FIRST_WAIT_S
    services.claim_try(username="viewer", address="192.0.2.1", now=NOW + timedelta(seconds=5))
    later = NOW + timedelta(hours=2)
    for _ in range(4):
        services.claim_try(username="viewer", address="192.0.2.1", now=later)


@pytest.mark.django_db
def test_guessing_from_one_address_does_not_lock_the_person_out_elsewhere() -> None:
    for _ in range(5):
        services.claim_try(username="viewer", address="192.0.2.1", now=NOW)
    services.claim_try(username="viewer", address="192.0.2.2", now=NOW)


@pytest.mark.django_db
def test_guessing_from_many_addresses_ends_in_a_wait_too() -> None:
    for number in range(throttle.FREE_TRIES_FOR_NAME):
        services.claim_try(username="viewer", address=f"192.0.2.{number}", now=NOW)
    with pytest.raises(services.TooManyTries):
        services.claim_try(username="viewer", address="198.51.100.1", now=NOW)


@pytest.mark.django_db(transaction=True)
def test_many_tries_at_the_same_moment_gain_nothing() -> None:
    count = 12
    together = Barrier(count)

    def counts(_: int) -> bool:
        try:
            together.wait(timeout=10)
            services.claim_try(username="viewer", address="192.0.2.1", now=NOW)
        except services.TooManyTries:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(count) as pool:
        assert sum(pool.map(counts, range(count))) == throttle.FREE_TRIES


@pytest.mark.django_db
def test_what_was_typed_as_a_name_is_not_kept() -> None:
    services.claim_try(username="my secret password", address="192.0.2.1", now=NOW)
    assert all("secret" not in str(row) for row in LoginTries.objects.values_list())


def test_signing_out_needs_a_post(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    assert client.get(reverse("accounts:logout")).status_code == 405
    assert client.post(reverse("accounts:logout")).status_code == 302
    assert client.get(reverse("accounts:settings")).status_code == 302


def test_a_one_time_password_opens_only_the_page_that_replaces_it(person: Callable[[str], User]) -> None:
    password = services.reset_password(person("admin"), actor="test")
    client = Client()
    client.post(reverse("accounts:login"), {"username": "admin", "password": password})
    assert client.get(reverse("accounts:people"))["Location"] == reverse("accounts:settings")
    assert client.get("/api/v1/me").status_code == 401
    fragment = client.get(reverse("accounts:people"), headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment["HX-Redirect"]) == (401, reverse("accounts:settings"))
    new = "a much better one 9"
    answer = client.post(reverse("accounts:change_password"), {"old": password, "new": new, "again": new})
    assert answer.status_code == 302
    assert client.get(reverse("accounts:people")).status_code == 200


def test_the_language_of_a_person_comes_with_them(person: Callable[[str], User]) -> None:
    services.set_language(person("viewer"), language="zh-hans")
    response = Client().post(reverse("accounts:login"), {"username": "viewer", "password": RIGHT})
    assert response.cookies["django_language"].value == "zh-hans"
