"""The API reference, rendered here from the API's own description: no CDN, no inline script, works offline."""

import json
from functools import cache
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import resolve, reverse
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.views.decorators.http import require_GET

from controlplane.core.listing import template_of
from controlplane.web.domain.reference import Reference, reference_of

# The API lives above us, so its description is asked for by address, as any client does.
DESCRIPTION = "api:openapi-json"
PAGE, PARTIAL = "web/api_docs.html", "operations"


@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()[:100]
    reference = _reference(request)
    operations = _matching(request, reference, text) if text else _all(request, reference)
    if template_of(request, PAGE, PARTIAL) != PAGE:
        return HttpResponse(operations)
    context = {"reference": reference, "operations": operations, "q": text, "description_url": reverse(DESCRIPTION)}
    return render(request, PAGE, context)


def _all(request: HttpRequest, reference: Reference) -> SafeString:
    """Hundreds of tables, the same for everybody: rendered once a language. A new address empties this too."""
    kept = _rendered()
    if kept.get("reference") is not reference:
        kept.clear()
        kept["reference"] = reference
    language = get_language()
    if language not in kept:
        kept[language] = _matching(request, reference, "")
    return cast(SafeString, kept[language])


def _matching(request: HttpRequest, reference: Reference, text: str) -> SafeString:
    context = {"reference": reference.matching(text), "q": text}
    return render_to_string(f"{PAGE}#{PARTIAL}", context, request)


@cache
def _rendered() -> dict[str | None, object]:
    """Language → HTML, and under "reference" what it was made from."""
    return {}


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
