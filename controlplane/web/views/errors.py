"""What a browser or a script sees when Django itself refuses or breaks."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from controlplane.core.rest import problem_response

API_PREFIX = "/api/"
RETRY_AFTER_S = "5"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        return problem_response(400, "bad_request", _("The request is not understood."))
    return render(request, "errors/400.html", status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        return problem_response(403, "forbidden", _("This is not allowed."))
    return render(request, "errors/403.html", {"exception": str(exception)}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        remedy = _("The operations are listed at /api/docs.")
        return problem_response(404, "not_found", _("There is nothing at this address."), remedy)
    return render(request, "errors/404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Rendered without the request and so without database: either may be what broke.

    503 with Retry-After when it was the database that did not answer, else 500.
    """
    is_database_away = _is_database_away(sys.exception())  # Django calls this while it handles what broke
    if not _is_api(request):
        page = render_to_string("web/server_error.html", {"is_database_away": is_database_away})
        response = HttpResponse(page, status=503 if is_database_away else 500)
    elif is_database_away:
        remedy = _("GET /healthz says when it is back. Look what was kept before you send a change again.")
        response = problem_response(503, "database_unavailable", _("The database does not answer."), remedy)
    else:
        remedy = _("The log of the web process has the cause at this time.")
        response = problem_response(500, "server_error", _("The server failed to answer."), remedy)
    if is_database_away:
        response["Retry-After"] = RETRY_AFTER_S
    return response


def _is_database_away(error: BaseException | None) -> bool:
    """A deadlock or a timeout is an OperationalError too, but one with a code of the server, which is there."""
    code = getattr(getattr(error, "__cause__", None), "sqlstate", None) or ""
    is_gone = not code or code.startswith(("08", "53", "57P"))  # connection, too many clients, shutting down
    return isinstance(error, InterfaceError) or (isinstance(error, OperationalError) and is_gone)


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith(API_PREFIX)
