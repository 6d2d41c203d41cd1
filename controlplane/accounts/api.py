"""Tokens over REST, and how requests to the API are authenticated."""

from datetime import datetime
from typing import cast

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.security import HttpBearer
from ninja.security.apikey import APIKeyCookie

from controlplane.accounts import services
from controlplane.accounts.models import ApiToken, User
from controlplane.core.permissions import actor_of


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
        return cast(User, request.user) if request.user.is_authenticated else None


class TokenOut(Schema):
    id: int
    name: str
    prefix: str
    is_read_only: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewTokenIn(Schema):
    name: str
    is_read_only: bool = False
    expires_at: datetime | None = None


class NewTokenOut(TokenOut):
    token: str


class MeOut(Schema):
    username: str
    role: str
    may_operate: bool
    may_administer: bool


router = Router(tags=["accounts"])


@router.get("/me", response=MeOut, summary="Who am I?")
def me(request: HttpRequest) -> User:
    return cast(User, request.user)


@router.get("/tokens", response=list[TokenOut], summary="My API tokens")
def list_tokens(request: HttpRequest) -> list[ApiToken]:
    return list(ApiToken.objects.filter(user=cast(User, request.user)))


@router.post("/tokens", response={201: NewTokenOut}, summary="Make an API token; its text is in this answer only")
def create_token(request: HttpRequest, body: NewTokenIn) -> tuple[int, dict[str, object]]:
    token, text = services.create_token(
        user=cast(User, request.user), name=body.name, is_read_only=body.is_read_only, expires_at=body.expires_at
    )
    return 201, {**TokenOut.from_orm(token).dict(), "token": text}


@router.delete("/tokens/{token_id}", response={204: None}, summary="Revoke one of my tokens")
def revoke_token(request: HttpRequest, token_id: int) -> tuple[int, None]:
    token = ApiToken.objects.get(pk=token_id, user=cast(User, request.user))
    services.revoke_token(token, actor=actor_of(request))
    return 204, None
