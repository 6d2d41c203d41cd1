"""The comparison page: a picker without runs, the table with them."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from controlplane.bench import queries, services
from controlplane.bench.domain.comparison import COLUMNS
from controlplane.bench.domain.comparison_export import to_csv, to_markdown
from controlplane.bench.models import Run, Workload
from controlplane.bench.queries import Comparison
from controlplane.bench.views.wording import COLUMN_WORDS, best_side, heading, notices_of, scale_of, side_views
from controlplane.configs.domain.difference import side_by_side
from controlplane.core.errors import Problem
from controlplane.core.listing import template_of
from controlplane.core.permissions import require_operator

EXPORTS = {"csv": to_csv, "md": to_markdown}
TYPES = {"csv": "text/csv", "md": "text/markdown"}


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """`?runs=1,2,3&baseline=1`; `&format=csv` or `md` is the table as a file. Without runs: choose them."""
    numbers = queries.run_ids(request.GET.getlist("runs"))
    if not numbers:
        return _picker(request)
    try:
        found = queries.comparison(numbers, baseline=_number(request.GET.get("baseline")))
    except Problem as problem:
        return _picker(request, problem)
    if (form := request.GET.get("format", "")) in EXPORTS:
        return _download(found, form)
    return render(request, template_of(request, "bench/compare.html", "live"), _context(request, found))


@require_POST
def measure_again(request: HttpRequest) -> HttpResponse:
    """One more run of every side, with the same prompts, and back to the comparison with them."""
    actor = require_operator(request)
    numbers = queries.run_ids(request.POST.getlist("runs"))
    found = queries.comparison(numbers, baseline=_number(request.POST.get("baseline")))
    made = services.measure_again([side.runs[-1] for side in found.sides], actor=actor)
    return redirect(address([*numbers, *(run.pk for run in made)], found.baseline.runs[0].pk))


def address(numbers: list[int], baseline: int | None = None) -> str:
    """The page that compares these runs."""
    query = {"runs": ",".join(map(str, numbers)), **({"baseline": baseline} if baseline else {})}
    return f"{reverse('bench:compare')}?{urlencode(query, safe=',')}"


def _context(request: HttpRequest, found: Comparison) -> dict[str, Any]:
    views = side_views(found)
    numbers = [run.pk for run in found.runs]
    here = address(numbers, found.baseline.runs[0].pk)
    joined = ",".join(map(str, numbers))
    return {
        "found": found,
        "views": views,
        "heading": heading(found, views),
        "columns": [{"key": column.key, "label": COLUMN_WORDS[column.key][0], "unit": COLUMN_WORDS[column.key][1]}
                    for column in COLUMNS],
        "scale": scale_of(views),
        "uncounted": found.uncounted,
        "notices": notices_of(found, views),
        "differences": [_difference(found, view.side) for view in views],
        "numbers": joined,
        "here": here,
        "rows": [{"view": view, "rebased": address(numbers, view.side.runs[0].pk)} for view in views],
        "best": best_side(found),
        "promotable": [side for side in found.sides if side.version and side.valid_ids],
        "api_call": "curl -H 'Authorization: Bearer …' "
        + request.build_absolute_uri(f"/api/v1/compare?runs={joined}&baseline={found.baseline.runs[0].pk}"),
    }  # fmt: skip


def _difference(found: Comparison, side: Any) -> dict[str, Any]:
    """The two files side by side."""
    texts = [
        bytes(each.version.toml).decode(errors="replace") if each.version else "" for each in (found.baseline, side)
    ]
    return {"side": side, "rows": side_by_side(*texts) if any(texts) else ()}


def _picker(request: HttpRequest, problem: Problem | None = None) -> HttpResponse:
    """Finished runs to choose from; with the problem of what was chosen before."""
    workload = request.GET.get("workload", "")
    context = {
        "problem": problem,
        "page": queries.runs_page(request.GET.get("page"), state=Run.State.FINISHED, workload=workload),
        "workloads": list(Workload.objects.order_by("name").values_list("name", flat=True)),
        "workload": workload,
        "chosen": [] if problem is None else request.GET.getlist("runs"),
    }
    status = problem.status if problem else 200
    return render(request, "bench/compare_pick.html", context, status=status)


def _download(found: Comparison, form: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{_("comparison")}.{form}"'}
    return HttpResponse(EXPORTS[form](found.rows), content_type=f"{TYPES[form]}; charset=utf-8", headers=headers)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None
