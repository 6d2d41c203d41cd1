"""People and tokens over REST, and how requests to the API are authenticated."""

from typing import Any, cast

from django.db import transaction
from django.http import HttpRequest
from ninja import Router, Status
from ninja.security import HttpBearer
from ninja.security.apikey import APIKeyCookie

from controlplane.accounts import queries, services
from controlplane.accounts.models import ApiToken, User
from controlplane.accounts.schemas import (
    MeOut,
    NewPersonIn,
    NewPersonOut,
    NewTokenIn,
    NewTokenOut,
    PersonIn,
    PersonOut,
    TokenOut,
)
from controlplane.core.errors import Forbidden
from controlplane.core.permissions import actor_of, require_admin


class TokenAuth(HttpBearer):
    """`Authorization: Bearer vcp_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        found = services.authenticate(token)
        if found is None:
            return None
        request.user = found.user
        request.api_token = found  # type: ignore[attr-defined]
        return found.user


class SessionAuth(APIKeyCookie):
    """A signed-in browser; unsafe methods need the CSRF token, as on pages."""

    param_name = "sessionid"

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        if not request.user.is_authenticated or request.user.must_change_password:
            return None
        return request.user


router = Router(tags=["accounts"])


@router.get("/me", response=MeOut, summary="Who am I?")
def me(request: HttpRequest) -> User:
    return cast(User, request.user)


@router.get("/tokens", response=list[TokenOut], summary="My API tokens")
def list_tokens(request: HttpRequest) -> list[ApiToken]:
    return list(queries.tokens_of(cast(User, request.user)))


@router.post("/tokens", response={201: NewTokenOut}, summary="Make an API token; its text is in this answer only")
def create_token(request: HttpRequest, body: NewTokenIn) -> Status[dict[str, Any]]:
    _refuse_read_only(request)
    token, text = services.create_token(
        user=cast(User, request.user), name=body.name, is_read_only=body.is_read_only, expires_at=body.expires_at
    )
    return Status(201, {**TokenOut.from_orm(token).dict(), "token": text})


@router.delete("/tokens/{token_id}", response={204: None}, summary="Revoke one of my tokens")
def revoke_token(request: HttpRequest, token_id: int) -> Status[None]:
    _refuse_read_only(request)
    token = ApiToken.objects.get(pk=token_id, user=cast(User, request.user))
    services.revoke_token(token, actor=actor_of(request))
    return Status(204, None)


@router.get("/people", response=list[PersonOut], summary="Everybody (administrators)")
def list_people(request: HttpRequest) -> list[User]:
    _require_admin_to_read(request)
    return list(queries.people())


@router.post("/people", response={201: NewPersonOut}, summary="Add a person with a one-time password (administrators)")
def add_person(request: HttpRequest, body: NewPersonIn) -> Status[dict[str, Any]]:
    actor = require_admin(request)
    person, password = services.add_person(username=body.username, role=body.role, actor=actor)
    return Status(201, {**PersonOut.from_orm(person).dict(), "password": password})


@router.patch("/people/{person_id}", response=PersonOut, summary="Change a role, let go, let in again (administrators)")
def change_person(request: HttpRequest, person_id: int, body: PersonIn) -> User:
    actor = require_admin(request)
    person = User.objects.get(pk=person_id)
    with transaction.atomic():
        if body.role is not None:
            services.change_role(person, role=body.role, actor=actor)
        if body.is_active is not None:
            (services.reactivate_person if body.is_active else services.deactivate_person)(person, actor=actor)
    return User.objects.get(pk=person_id)


def _refuse_read_only(request: HttpRequest) -> None:
    """Everybody may make and end their own tokens, but not with one that can only read: it would lend itself more."""
    token: ApiToken | None = getattr(request, "api_token", None)
    if token is not None and token.is_read_only:
        raise Forbidden("This token can only read.", remedy="Use a token without “read only”.")


def _require_admin_to_read(request: HttpRequest) -> None:
    if not cast(User, request.user).may_administer:
        raise Forbidden("This needs the role administrator.", remedy="Ask an administrator to change your role.")
