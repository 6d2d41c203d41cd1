"""What a browser or a script sees when Django itself refuses or breaks."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from controlplane.core.errors import Problem
from controlplane.core.rest import problem_response

API_PREFIX = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(
        request, 400, "bad_request", _("This request cannot be read."), _("Go back, reload the page and try again.")
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(
        request, 403, "forbidden", _("You may not see this."), _("Ask an administrator to change your role.")
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(
        request,
        404,
        "not_found",
        _("There is no page at this address."),
        _("It may have been removed. Search for it with / or start from the overview."),
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Rendered without request or database: either may be what broke."""
    sentence, remedy = (
        _("Something broke on our side."),
        _("Nothing you typed is at fault. Try again; if it stays, look into the log of the web process."),
    )
    if request.path.startswith(API_PREFIX):
        return problem_response(500, "server_error", sentence, remedy)
    return HttpResponse(render_to_string("web/server_error.html", {"sentence": sentence, "remedy": remedy}), status=500)


def _answer(request: HttpRequest, status: int, code: str, sentence: str, remedy: str) -> HttpResponse:
    if request.path.startswith(API_PREFIX):
        return problem_response(status, code, sentence, remedy)
    problem = Problem(sentence, remedy=remedy, code=code)
    template = "errors/problem_notice.html" if request.headers.get("HX-Request") else "errors/problem.html"
    return render(request, template, {"problem": problem}, status=status)
