"""Nothing is public but the login page and static files."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware as DjangoLoginRequired
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, resolve_url

# What somebody may open whose password was made by somebody else: the page that changes it, and the way out.
OPEN_BEFORE_CHANGE = frozenset({"settings", "change_password", "change_language", "logout"})


class LoginRequiredMiddleware(DjangoLoginRequired):
    """Django's, except that htmx is told to load the login page instead of being handed it as a fragment, and that a
    one-time password opens only the page that replaces it.

    The API answers for itself (401 as problem JSON), so its views are marked with `login_not_required`.
    """

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., Any],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is not None or not getattr(request.user, "must_change_password", False):
            return refused
        match = request.resolver_match
        if match and match.app_name == "accounts" and match.url_name in OPEN_BEFORE_CHANGE:
            return None
        return None if not getattr(view_func, "login_required", True) else _to_password_page(request)

    def handle_no_permission(self, request: HttpRequest, view_func: object) -> HttpResponseBase:
        response = super().handle_no_permission(request, view_func)  # type: ignore[misc]
        if request.headers.get("HX-Request"):
            response.status_code = 401
            response["HX-Redirect"] = resolve_url(self.get_login_url(view_func))
        return response  # type: ignore[no-any-return]


def _to_password_page(request: HttpRequest) -> HttpResponseBase:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401, headers={"HX-Redirect": resolve_url("accounts:settings")})
    return redirect("accounts:settings")
