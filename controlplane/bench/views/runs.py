"""Runs: the list, the form that starts one, and one run while it goes and after."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.bench import queries, services
from controlplane.bench.domain.live import standing
from controlplane.bench.forms import RunForm
from controlplane.bench.models import Run, RunData, Workload
from controlplane.bench.views.charts import series_table
from controlplane.bench.views.wording import error_words, figures_of, reasons_against, told_warnings
from controlplane.core.errors import NotFound, Problem
from controlplane.core.listing import ListFilter, csv_response, put_into, template_of, wants_csv
from controlplane.core.permissions import require_operator
from controlplane.fleet.models import Instance, State

CSV_COLUMNS = (
    "state", "workload", "config", "host", "instance", "engine_version", "seed", "planned", "ok", "failed", "cancelled",
    "duration_s", "output_throughput", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "e2el_ms_p50",
    "e2el_ms_p99", "gpu_status", "gpu_utilisation_percent", "note", "created_by", "created_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFilter(ListFilter):
    """`?q=…&state=…&workload=…&config=…&host=…&instance=…&sort=…`"""

    state: str = ""
    workload: str = ""
    config: str = ""
    host: str = ""
    instance: str = ""


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    """All runs; those that are ticked go to the comparison."""
    chosen = RunFilter.of(request.GET)
    names = {name: getattr(chosen, name) for name in ("state", "workload", "config", "host", "instance", "sort")}
    if wants_csv(request):
        return _as_csv(queries.runs(search=chosen.q, **names))
    page = queries.runs_page(request.GET.get("page"), search=chosen.q, **names)
    context = {
        "page": page,
        "filter": chosen,
        "choices": queries.filter_choices(),
        "states": Run.State.choices,
        "is_moving": any(not run.is_over for run in page.items),
        "is_empty": not page.total and not chosen.is_set,
    }
    return render(request, template_of(request, "bench/run_list.html", "rows"), context)


@require_http_methods(["GET", "POST"])
def run_start(request: HttpRequest) -> HttpResponse:
    """Choose instance and workload; `?instance=` and `?workload=` choose beforehand."""
    actor = require_operator(request)
    form = RunForm(request.POST or None, initial=_chosen_before(request.GET))
    if request.method == "POST" and form.is_valid():
        try:
            run = services.request_run(**form.cleaned_data, actor=actor)
        except Problem as problem:
            put_into(form, problem)
        else:
            return redirect("bench:run_detail", run.pk)
    context = {
        "form": form,
        "workloads": Workload.objects.order_by("-is_built_in", "name"),
        "has_ready": Instance.objects.filter(state=State.READY).exists(),
        "not_ready": _named_instance(request.GET),
    }
    return render(request, "bench/run_start.html", context, status=422 if form.errors else 200)


@require_GET
def run_detail(request: HttpRequest, run_id: int) -> HttpResponse:
    """One run: its progress while it goes, its numbers after."""
    run = _run(run_id)
    metrics = queries.metrics_of(run)
    api_url = request.build_absolute_uri(f"/api/v1/runs/{run.pk}")
    context: dict[str, Any] = {
        "run": run,
        "figures": figures_of(metrics),
        "against": reasons_against(run),
        "warnings": told_warnings(run),
        "errors": [{**error, "words": error_words(error.get("class") or "")} for error in run.errors],
        "has_numbers": bool(metrics),
        "table": series_table(queries.series_of(run)) if metrics else None,
        "standing": standing(
            run.progress,
            planned=run.planned,
            planned_tokens=_planned_tokens(run),
        ),
        "ahead": queries.runs_ahead_of(run) if run.state == Run.State.QUEUED else 0,
        "has_data": RunData.objects.filter(run=run).exists(),
        "others": queries.other_runs(run) if run.state == Run.State.FINISHED else [],
        "argv": shlex.join(run.argv),
        "command": shlex.join(run.command),
        "spec": json.dumps(run.spec, indent=1, sort_keys=True, ensure_ascii=False),
        "events": queries.events_of(run),
        "api_call": f"curl -H 'Authorization: Bearer …' {api_url}",
    }
    return render(request, template_of(request, "bench/run_detail.html", "live"), context)


@require_POST
def run_cancel(request: HttpRequest, run_id: int) -> HttpResponse:
    actor = require_operator(request)
    services.cancel_run(_run(run_id), actor=actor)
    return redirect("bench:run_detail", run_id)


@require_POST
def run_note(request: HttpRequest, run_id: int) -> HttpResponse:
    actor = require_operator(request)
    services.annotate_run(_run(run_id), note=request.POST.get("note", "").replace("\x00", "")[:1000], actor=actor)
    return redirect("bench:run_detail", run_id)


@require_POST
def run_remove(request: HttpRequest, run_id: int) -> HttpResponse:
    actor = require_operator(request)
    services.remove_run(_run(run_id), actor=actor)
    messages.success(request, _("Run %(number)s is removed.") % {"number": run_id})
    return redirect("bench:run_list")


@require_GET
def run_result(request: HttpRequest, run_id: int) -> HttpResponse:
    """The load generator's result file, as it wrote it."""
    data = _data(run_id)
    response = JsonResponse(data.result, json_dumps_params={"ensure_ascii": False, "indent": 1})
    response["Content-Disposition"] = f'attachment; filename="run-{run_id}-result.json"'
    return response


@require_GET
def run_requests(request: HttpRequest, run_id: int) -> HttpResponse:
    """A row per request: lengths, times in microseconds, hashes; never a prompt."""
    columns = queries.request_columns_of(_run(run_id))
    if not columns:
        raise NotFound(_("Run %(number)s kept no requests.") % {"number": run_id})
    return csv_response(f"run-{run_id}-requests", list(columns), zip(*columns.values(), strict=True))


def _planned_tokens(run: Run) -> int:
    """Output tokens of all requests, when answers go on to their limit; else nobody can tell: 0."""
    spec = run.workload.spec
    return run.planned * int(spec.get("max_tokens", 0)) if spec.get("ignore_eos") else 0


def _run(run_id: int) -> Run:
    return get_object_or_404(queries.run_details(), pk=run_id)


def _data(run_id: int) -> RunData:
    data = RunData.objects.filter(run=run_id).defer("requests", "series").first()
    if data is None or not data.result:
        raise NotFound(_("Run %(number)s left no result.") % {"number": run_id})
    return data


def _chosen_before(query: QueryDict) -> dict[str, Any]:
    """What links choose: an instance by number, a workload by name or number, note and seed."""
    initial: dict[str, Any] = {name: query[name] for name in ("instance", "note", "seed") if query.get(name)}
    wanted = query.get("workload", "").replace("\x00", "")
    workload = Workload.objects.filter(name=wanted).first() if wanted else Workload.objects.order_by("pk").first()
    return {**initial, "workload": workload.pk if workload else None}


def _named_instance(query: QueryDict) -> Instance | None:
    """The instance that a link names, when it cannot be measured: the page says so instead of choosing another."""
    number = query.get("instance", "")
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        return None
    return Instance.objects.filter(pk=int(number)).exclude(state=State.READY).first()


def _as_csv(found: Iterable[Run]) -> HttpResponse:
    def value(run: Run, name: str) -> Any:
        joined = {"workload": run.workload, "config": run.config_version, "host": run.host, "instance": run.instance}
        if name in joined:
            return str(joined[name]) if joined[name] is not None else None
        return getattr(run, name)

    rows = ((run.pk, *(value(run, name) for name in CSV_COLUMNS)) for run in found)
    return csv_response("runs", ("run", *CSV_COLUMNS), rows)
