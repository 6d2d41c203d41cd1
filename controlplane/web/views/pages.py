"""The overview, the search, and what tells about the installation itself."""

from typing import cast

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from controlplane.accounts.models import User
from controlplane.core.listing import template_of
from controlplane.web import queries
from controlplane.web.queries.installation import installation


@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    template = template_of(request, "web/overview.html", "live")
    return render(request, template, {"overview": queries.overview()})


@require_GET
def palette(request: HttpRequest) -> HttpResponse:
    user, text = cast(User, request.user), request.GET.get("q", "")
    hits = queries.search(text, may_operate=user.may_operate, may_administer=user.may_administer)
    return render(request, "components/palette_results.html", {"results": hits, "query": text.strip()})


@require_GET
def about(request: HttpRequest) -> HttpResponse:
    return render(request, "web/about.html", {"about": installation()})


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """For load balancers and compose: 200 while this process reaches its database, else 503."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"status": "unavailable", "database": "unreachable"}, status=503)
    return JsonResponse({"status": "ok", "database": "ok"})
