"""vLLM's releases: what would break on one, and the catalogue of options."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from controlplane.configs import queries
from controlplane.configs.queries import slice_of
from controlplane.core.listing import csv_response, template_of, wants_csv

FLAGS_A_PAGE = 100


@require_GET
def what_breaks(request: HttpRequest) -> HttpResponse:
    """Every config against one release."""
    found = queries.what_breaks(request.GET.get("release", ""))
    if wants_csv(request):
        return _breakage_as_csv(found)
    context = {
        "found": found,
        "page": slice_of(found.rows, request.GET.get("page")),
        "releases": queries.releases(),
    }
    return render(request, template_of(request, "configs/what_breaks.html", "found"), context)


@require_GET
def flag_list(request: HttpRequest) -> HttpResponse:
    """Options of all releases: when each came and went, what replaces it, how its default moved."""
    search, status = request.GET.get("q", ""), request.GET.get("status", "")
    found = queries.flags(search=search, status=status)
    if wants_csv(request):
        return _flags_as_csv(found)
    context = {
        "page": slice_of(found, request.GET.get("page"), size=FLAGS_A_PAGE),
        "filter": {"q": search, "status": status},
        "statuses": [("current", _("In the newest release")), ("removed", _("Removed")), ("moved", _("Default moved"))],
        "oldest": queries.releases()[-1],
        "newest": queries.releases()[0],
    }
    return render(request, template_of(request, "configs/flag_list.html", "rows"), context)


def _breakage_as_csv(found: queries.Breakage) -> HttpResponse:
    header = ("config", "version", "environments", "severity", "code", "key", "message", "remedy", "replacement")
    rows: list[Sequence[Any]] = [
        (
            *(row.version.config.name, row.version.number, " ".join(row.environments)),
            *(problem.severity, problem.code, problem.key, problem.message, problem.remedy, problem.replacement),
        )
        for row in found.rows
        for problem in row.problems
    ]
    return csv_response(f"what-breaks-{found.target.release}", header, rows)


def _flags_as_csv(found: Sequence[queries.FlagEntry]) -> HttpResponse:
    header = ("name", "key", "kind", "added_in", "removed_in", "replacement", "note", "default")
    rows = (
        (
            *(entry.dest, entry.key, entry.flag.kind, entry.added_in, entry.removed_in, entry.replacement, entry.note),
            str(entry.flag.default),
        )
        for entry in found
    )
    return csv_response("vllm-options", header, rows)
