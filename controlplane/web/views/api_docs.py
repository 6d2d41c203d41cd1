"""The API reference, rendered here from the API's own description: no CDN, no inline script, works offline."""

import json
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import resolve, reverse
from django.views.decorators.http import require_GET

from controlplane.core.listing import template_of
from controlplane.web.domain.reference import Reference, reference_of

# The API lives above us, so its description is asked for by address, as any client does.
DESCRIPTION = "api:openapi-json"


@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:100]
    whole = _reference(request)
    template = template_of(request, "web/api_docs.html", "operations")
    context = {"reference": whole.matching(text), "q": text, "description_url": reverse(DESCRIPTION)}
    return render(request, template, context)


def _reference(request: HttpRequest) -> Reference:
    base_url = f"{request.scheme}://{request.get_host()}"
    known = _references()
    if base_url not in known:
        known.clear()  # one address at a time: a Host header must not fill the memory
        known[base_url] = reference_of(_document(request), base_url=base_url)
    return known[base_url]


@cache
def _references() -> dict[str, Reference]:
    """Base address → what is shown; the description does not change while this process lives."""
    return {}


def _document(request: HttpRequest) -> dict[str, Any]:
    match = resolve(reverse(DESCRIPTION))
    response = match.func(request, *match.args, **match.kwargs)
    document: dict[str, Any] = json.loads(response.content)
    return document
