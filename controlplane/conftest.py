"""The people of every test: a viewer, an operator, an administrator, and who is not signed in."""

import socket
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import settings

from controlplane.accounts.models import Role, User
from controlplane.accounts.services import create_token

# Two cores shared with a vLLM say nothing about speed; a deadline only makes such runs fail.
settings.register_profile("controlplane", deadline=None)
settings.load_profile("controlplane")

LOOPBACK = ("127.0.0.1", "::1", "localhost", "0.0.0.0")  # noqa: S104  # compared with, not bound to


@pytest.fixture(autouse=True)
def _network_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches past this machine is wrong wherever it happens to pass."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in LOOPBACK:
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def person(db: None) -> Callable[[str], User]:
    """`person("operator")` makes (once) and returns the user of that role."""

    def make(role: str) -> User:
        user, created = User.objects.get_or_create(username=role, defaults={"role": Role(role)})
        if created:
            user.set_password("correct horse battery")
            user.save()
        return user

    return make


@pytest.fixture
def client_of(person: Callable[[str], User]) -> Callable[[str], Client]:
    """A signed-in browser: `client_of("viewer").get("/")`; `client_of("outsider")` is not signed in."""

    def make(role: str) -> Client:
        client = Client()
        if role != "outsider":
            client.force_login(person(role))
        return client

    return make


@pytest.fixture
def api_of(person: Callable[[str], User]) -> Callable[[str], Client]:
    """A script with a token of that role: `api_of("operator").get("/api/v1/me")`."""

    def make(role: str) -> Client:
        if role == "outsider":
            return Client()
        _, text = create_token(user=person(role), name="test")
        return Client(headers={"Authorization": f"Bearer {text}"})

    return make
