"""Nothing is public but the login page and static files."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware as DjangoLoginRequired
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, resolve_url

from controlplane.accounts import services
from controlplane.core.rest import problem_response

# What somebody may open whose password was made by somebody else: the page that changes it, and the way out.
OPEN_BEFORE_CHANGE = frozenset({"settings", "change_password", "change_language", "logout"})
API_NAMESPACE = "api"
API_DESCRIPTION = "openapi-json"


class LoginRequiredMiddleware(DjangoLoginRequired):
    """Django's, except that htmx is told to load the login page instead of being handed it as a fragment, and that a
    one-time password opens only the page that replaces it.

    The API's operations answer for themselves (401 as problem JSON); its description needs a session or a token here.
    """

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., Any],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        match = request.resolver_match
        if match is None or not getattr(view_func, "login_required", True):
            return None
        if API_NAMESPACE in match.namespaces:
            return _describe_to_nobody(request) if match.url_name == API_DESCRIPTION else None
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is not None or not getattr(request.user, "must_change_password", False):
            return refused
        is_open = match.app_name == "accounts" and match.url_name in OPEN_BEFORE_CHANGE
        return None if is_open else _to_password_page(request)

    def handle_no_permission(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseRedirect:
        response = super().handle_no_permission(request, view_func)
        if request.headers.get("HX-Request"):
            response.status_code = 401
            response["HX-Redirect"] = resolve_url(self.get_login_url(view_func))
        return response


def _to_password_page(request: HttpRequest) -> HttpResponseBase:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401, headers={"HX-Redirect": resolve_url("accounts:settings")})
    return redirect("accounts:settings")


def _describe_to_nobody(request: HttpRequest) -> HttpResponseBase | None:
    """The API's own description is a view of django-ninja's that no authentication guards."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if request.user.is_authenticated or (scheme.lower() == "bearer" and services.authenticate(token)):
        return None
    return problem_response(401, "unauthenticated", "No valid token or session.", "Send “Authorization: Bearer vcp_…”.")
