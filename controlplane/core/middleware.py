"""A Problem that a page did not handle itself becomes a page that says what happened and what to do."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.core.errors import Problem


class ProblemMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """htmx gets the notice alone, anyone else a whole page; the status is the problem's."""
        if not isinstance(error, Problem):
            return None
        template = "errors/problem_notice.html" if request.headers.get("HX-Request") else "errors/problem.html"
        return render(request, template, {"problem": error}, status=error.status)
