"""Events and secrets over REST."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from controlplane.core import secrets_store
from controlplane.core.models import Event, Secret
from controlplane.core.paging import page_of
from controlplane.core.permissions import require_admin
from controlplane.core.rest import PageOut, page_out
from controlplane.ops import queries, services
from controlplane.ops.schemas import EventFilterIn, EventOut, NewSecretIn, SecretName, SecretOut, SecretTextIn

router = Router()


@router.get("/events", response=PageOut[EventOut], tags=["events"], summary="Who did what, when; newest first")
def list_events(request: HttpRequest, wanted: Query[EventFilterIn], page: int = 1) -> dict[str, Any]:
    found = queries.events(queries.EventFilter(**wanted.dict()))
    return page_out(page_of(found, page), _event_out)


@router.get(
    "/secrets", response=list[SecretOut], tags=["secrets"], summary="Names and uses of secrets, never their text"
)
def list_secrets(request: HttpRequest) -> list[dict[str, Any]]:
    return [_secret_out(secret, uses) for secret, uses in queries.secrets_with_uses()]


@router.post("/secrets", response={201: SecretOut}, tags=["secrets"], summary="Store a secret (administrators)")
def store_secret(request: HttpRequest, body: NewSecretIn) -> Status[dict[str, Any]]:
    actor = require_admin(request)
    secret = secrets_store.store(name=body.name, kind=body.kind, plain=body.text, hint=body.hint, actor=actor)
    return Status(201, _secret_out(secret, []))


@router.put("/secrets/{name}", response=SecretOut, tags=["secrets"], summary="Replace a secret's text (administrators)")
def replace_secret(request: HttpRequest, name: SecretName, body: SecretTextIn) -> dict[str, Any]:
    actor = require_admin(request)
    secret = Secret.objects.get(name=name)
    secrets_store.replace(secret, plain=body.text, hint=body.hint, actor=actor)
    return _secret_out(secret, queries.uses_of(secret))


@router.delete(
    "/secrets/{name}", response={204: None}, tags=["secrets"], summary="Delete an unused secret (administrators)"
)
def delete_secret(request: HttpRequest, name: SecretName) -> Status[None]:
    actor = require_admin(request)
    services.delete_secret(Secret.objects.get(name=name), actor=actor)
    return Status(204, None)


def _event_out(event: Event) -> EventOut:
    return EventOut.from_orm(event)


def _secret_out(secret: Secret, uses: list[queries.Use]) -> dict[str, Any]:
    fields = ("name", "reference", "kind", "hint", "created_by", "created_at", "updated_at")
    return {**{field: getattr(secret, field) for field in fields}, "used_by": [use.label for use in uses]}
