"""Secrets at rest and the store of named secrets."""

import pytest
from django.db import connection
from django.test import override_settings

from controlplane.core import sealing, secrets_store
from controlplane.core.errors import Conflict, Invalid, NotFound
from controlplane.core.models import Event, Secret

PLAIN = "sk-very-secret"


def test_what_is_sealed_opens_again_and_shows_nothing() -> None:
    sealed = sealing.seal(PLAIN, bound_to="hub")
    assert PLAIN.encode() not in sealed
    assert sealing.unseal(sealed, bound_to="hub") == PLAIN
    assert sealing.unseal(sealing.seal("ключ 钥匙", bound_to="x"), bound_to="x") == "ключ 钥匙"


def test_the_same_text_is_sealed_differently_each_time() -> None:
    assert sealing.seal(PLAIN, bound_to="hub") != sealing.seal(PLAIN, bound_to="hub")


def test_a_ciphertext_moved_to_another_row_stays_shut() -> None:
    with pytest.raises(sealing.Unreadable, match="belongs to something else"):
        sealing.unseal(sealing.seal(PLAIN, bound_to="hub"), bound_to="other")


def test_a_new_key_in_front_still_opens_what_the_old_one_sealed() -> None:
    with override_settings(MASTER_KEYS=["old"]):
        sealed = sealing.seal(PLAIN, bound_to="hub")
    with override_settings(MASTER_KEYS=["new", "old"]):
        assert sealing.unseal(sealed, bound_to="hub") == PLAIN
        newly = sealing.seal(PLAIN, bound_to="hub")
    with override_settings(MASTER_KEYS=["new"]):
        assert sealing.unseal(newly, bound_to="hub") == PLAIN


@pytest.mark.parametrize("damage", ["another key", "cut", "not a token"])
def test_what_cannot_be_opened_is_said_in_words_without_the_text(damage: str) -> None:
    sealed = sealing.seal(PLAIN, bound_to="hub")
    keys = ["another"] if damage == "another key" else None
    given = {"cut": sealed[:-10], "not a token": b"\x00"}.get(damage, sealed)
    with (
        override_settings(**({"MASTER_KEYS": keys} if keys else {})),
        pytest.raises(sealing.Unreadable, match="key file") as refused,
    ):
        sealing.unseal(given, bound_to="hub")
    assert "key file" in refused.value.remedy
    assert refused.value.__cause__ is None
    assert PLAIN not in str(refused.value)


def test_the_digest_of_a_token_is_stable_and_its_own() -> None:
    assert sealing.digest("a") == sealing.digest("a") != sealing.digest("b")
    with override_settings(MASTER_KEYS=["another"]):
        assert sealing.digest("a") == sealing.digest("a")
    assert len(sealing.digest("a")) == 64


@pytest.mark.django_db
def test_a_stored_secret_is_revealed_by_its_reference_and_lies_sealed() -> None:
    secret = secrets_store.store(name="hub", kind=Secret.Kind.API_KEY, plain=PLAIN, actor="mira")
    assert secret.reference == "secret:hub"
    assert secrets_store.reveal("secret:hub") == PLAIN
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM core_secret WHERE position(%s::bytea in sealed) > 0", [PLAIN.encode()])
        assert cursor.fetchone()[0] == 0
    event = Event.objects.get(name="secret.stored")
    assert PLAIN not in str(event.__dict__)


@pytest.mark.django_db
def test_replacing_changes_what_is_revealed_and_not_the_name() -> None:
    secret = secrets_store.store(name="hub", kind=Secret.Kind.API_KEY, plain=PLAIN, actor="mira")
    secrets_store.replace(secret, plain="other", actor="mira", hint="newer")
    assert secrets_store.reveal("secret:hub") == "other"
    assert Secret.objects.get(name="hub").hint == "newer"
    with pytest.raises(Invalid):
        secrets_store.replace(secret, plain="", actor="mira")
    assert secrets_store.reveal("secret:hub") == "other"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "Hub", "a b", "-a", "a.b", "ключ"])
def test_a_name_that_cannot_stand_in_a_reference_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="cannot name a secret"):
        secrets_store.store(name=name, kind=Secret.Kind.API_KEY, plain=PLAIN, actor="mira")


@pytest.mark.django_db
def test_a_taken_name_keeps_the_first_text() -> None:
    secrets_store.store(name="hub", kind=Secret.Kind.API_KEY, plain=PLAIN, actor="mira")
    with pytest.raises(Conflict, match="already"):
        secrets_store.store(name="hub", kind=Secret.Kind.API_KEY, plain="other", actor="mira")
    assert secrets_store.reveal("secret:hub") == PLAIN
    with pytest.raises(Invalid, match="empty"):
        secrets_store.store(name="empty", kind=Secret.Kind.API_KEY, plain="", actor="mira")


@pytest.mark.django_db
@pytest.mark.parametrize("reference", ["secret:nothing", "hub", "", "secret:", "secret:../x"])
def test_an_unknown_reference_is_named(reference: str) -> None:
    with pytest.raises(NotFound, match="There is no"):
        secrets_store.reveal(reference)


@pytest.mark.django_db
def test_a_free_name_is_the_wanted_one_or_the_next_number() -> None:
    assert secrets_store.free_name("Chat Key!") == "chat-key"
    assert secrets_store.free_name("???") == "secret"
    for name in ("chat-key", "chat-key-2", "chat-key-old"):
        secrets_store.store(name=name, kind=Secret.Kind.API_KEY, plain=PLAIN, actor="mira")
    assert secrets_store.free_name("chat-key") == "chat-key-3"
