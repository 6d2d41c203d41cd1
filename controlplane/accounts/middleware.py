"""Nothing is public but the login page and static files."""

from django.contrib.auth.middleware import LoginRequiredMiddleware as DjangoLoginRequired
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import resolve_url


class LoginRequiredMiddleware(DjangoLoginRequired):
    """Django's, except that htmx is told to load the login page instead of being handed it as a fragment.

    The API answers for itself (401 as problem JSON), so its views are marked with `login_not_required`.
    """

    def handle_no_permission(self, request: HttpRequest, view_func: object) -> HttpResponseBase:
        response = super().handle_no_permission(request, view_func)  # type: ignore[misc]
        if request.headers.get("HX-Request"):
            response.status_code = 401
            response["HX-Redirect"] = resolve_url(self.get_login_url(view_func))
        return response  # type: ignore[no-any-return]
