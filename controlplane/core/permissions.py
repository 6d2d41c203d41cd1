"""Who asks, and may they. Pages and API operations ask here, so that both refuse alike."""

from typing import Protocol, cast

from django.http import HttpRequest

from controlplane.core.errors import Forbidden


class Person(Protocol):
    """What a user must be able to say about themselves; `controlplane.accounts.models.User` does."""

    @property
    def may_operate(self) -> bool: ...

    @property
    def may_administer(self) -> bool: ...


def actor_of(request: HttpRequest) -> str:
    """How the event log names whoever sent this request."""
    token = getattr(request, "api_token", None)
    name = request.user.get_username()
    return f"{name} (token {token.name})" if token is not None else name


def require_operator(request: HttpRequest) -> str:
    """The actor, when they may change configs, instances, runs and promotions; Forbidden otherwise."""
    return _require(request, allowed=cast(Person, request.user).may_operate, role="operator")


def require_admin(request: HttpRequest) -> str:
    """The actor, when they may change hosts, people and secrets; Forbidden otherwise."""
    return _require(request, allowed=cast(Person, request.user).may_administer, role="administrator")


def _require(request: HttpRequest, *, allowed: bool, role: str) -> str:
    token = getattr(request, "api_token", None)
    if token is not None and token.is_read_only:
        raise Forbidden("This token can only read.", remedy="Use a token without “read only”.")
    if not allowed:
        raise Forbidden(f"This needs the role {role}.", remedy="Ask an administrator to change your role.")
    return actor_of(request)
