"""What a browser or a script sees when Django itself refuses or breaks."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from controlplane.core.rest import problem_response

API_PREFIX = "/api/"


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
    """Rendered without the request and so without database: either may be what broke."""
    if _is_api(request):
        remedy = _("The log of the web process has the cause at this time.")
        return problem_response(500, "server_error", _("The server failed to answer."), remedy)
    return HttpResponse(render_to_string("web/server_error.html"), status=500)


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith(API_PREFIX)
