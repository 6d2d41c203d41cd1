"""Workloads: what each sends, and what was measured with it."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from controlplane.bench import queries
from controlplane.bench.models import Workload
from controlplane.bench.views.workload_words import in_words, parameters_of

RUNS_SHOWN = 20

PURPOSES = {
    "seed-64x256": gettext_lazy("The reference load: 64 users press Enter at the same moment, and all wait."),
    "smoke-8x32": gettext_lazy("Seconds long: does the server answer under load at all?"),
    "shared-prefix-16x64": gettext_lazy("Many questions behind one long instruction: where prefix caching shows."),
    "chat-short": gettext_lazy("Everyday chat: a paragraph in, a paragraph out."),
}


@require_GET
def workload_list(request: HttpRequest) -> HttpResponse:
    rows = [_row(workload) for workload in queries.workloads()]
    return render(request, "bench/workload_list.html", {"rows": rows})


@require_GET
def workload_detail(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Its parameters and the runs of it."""
    workload = get_object_or_404(queries.workloads(), pk=workload_id)
    api_url = request.build_absolute_uri("/api/v1/workloads")
    context = {
        "row": _row(workload),
        "workload": workload,
        "parameters": parameters_of(workload.spec),
        "runs": queries.runs(workload=workload.name)[:RUNS_SHOWN],
        "api_call": f"curl -H 'Authorization: Bearer …' {api_url}",
    }
    return render(request, "bench/workload_detail.html", context)


def _row(workload: Workload) -> dict[str, Any]:
    return {
        "workload": workload,
        "purpose": PURPOSES.get(workload.name) if workload.is_built_in else workload.description,
        "words": in_words(workload.spec),
    }
