"""Workloads, runs and comparisons over REST: viewers read, operators measure.

Nothing here waits for a run: the worker carries it out, and `state` and `progress` tell.
"""

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Query, Router, Status

from controlplane.bench import queries, schemas, services
from controlplane.bench.domain.comparison_export import to_csv, to_markdown
from controlplane.bench.models import Run, Workload
from controlplane.core.permissions import require_operator
from controlplane.core.rest import PageOut, page_out
from controlplane.fleet.models import Instance

router = Router(tags=["bench"])

EXPORTS = {"markdown": to_markdown, "csv": to_csv}


@router.get("/workloads", response=list[schemas.WorkloadOut], summary="Workloads")
def list_workloads(request: HttpRequest) -> list[Any]:
    return [schemas.workload_out(workload) for workload in queries.workloads()]


@router.get("/runs", response=PageOut[schemas.RunOut], summary="Runs")
def list_runs(request: HttpRequest, chosen: Query[schemas.RunFilter], page: int = 1) -> dict[str, Any]:
    """Filters are names; `state` is one of the states, or `moving`. `sort`: created, state, workload, config, host,
    instance, throughput, ttft50, ttft, tpot50, tpot, e2el50, e2el, failed, gpu, duration; `-` turns it round."""
    return page_out(queries.runs_page(page, **chosen.dict()), schemas.run_out)


@router.post("/runs", response={202: schemas.RunDetailOut}, summary="Measure an instance")
def start_run(request: HttpRequest, body: schemas.RunIn) -> Status[Any]:
    """One run at a time measures an instance; later ones wait as `queued`."""
    run = services.request_run(
        instance=Instance.objects.get(pk=body.instance_id),
        workload=Workload.objects.get(name=body.workload),
        note=body.note,
        seed=body.seed,
        actor=require_operator(request),
    )
    return Status(202, _detail(run.pk))


@router.get("/runs/{run_id}", response=schemas.RunDetailOut, summary="One run with its metrics")
def get_run(request: HttpRequest, run_id: int) -> Any:
    return _detail(run_id)


@router.patch("/runs/{run_id}", response=schemas.RunDetailOut, summary="Change the note")
def patch_run(request: HttpRequest, run_id: int, body: schemas.RunPatch) -> Any:
    services.annotate_run(Run.objects.get(pk=run_id), note=body.note, actor=require_operator(request))
    return _detail(run_id)


@router.get("/runs/{run_id}/series", response=schemas.SeriesOut, summary="One-second series")
def get_series(request: HttpRequest, run_id: int) -> Any:
    """Empty until the run is over."""
    return {"run_id": run_id, "series": queries.series_of(Run.objects.only("pk").get(pk=run_id))}


@router.get("/runs/{run_id}/requests", response=schemas.RequestsOut, summary="Every request of a run")
def get_requests(request: HttpRequest, run_id: int) -> Any:
    """Times in microseconds of the run's clock. Empty until the run is over."""
    return {"run_id": run_id, "columns": queries.request_columns_of(Run.objects.only("pk").get(pk=run_id))}


@router.post("/runs/{run_id}/cancel", response={202: schemas.RunDetailOut}, summary="End a run early")
def cancel_run(request: HttpRequest, run_id: int) -> Status[Any]:
    """What it had done by then is counted; it keeps no metrics. Of a run that is over nothing changes."""
    services.cancel_run(Run.objects.get(pk=run_id), actor=require_operator(request))
    return Status(202, _detail(run_id))


@router.delete("/runs/{run_id}", response={204: None}, summary="Forget a run")
def remove_run(request: HttpRequest, run_id: int) -> Status[None]:
    """Refused while it is not over, and when a promotion rests on it."""
    services.remove_run(Run.objects.get(pk=run_id), actor=require_operator(request))
    return Status(204, None)


@router.get("/compare", response=schemas.ComparisonOut, summary="Compare runs")
def compare(
    request: HttpRequest,
    runs: str,
    baseline: int | None = None,
    format: Literal["json", "markdown", "csv"] = "json",
) -> Any:
    """`runs`: numbers with commas between them. `baseline`: one of them; without it the oldest. `markdown` and `csv`
    answer the table as text."""
    found = queries.comparison(queries.run_ids(runs), baseline=baseline)
    if format != "json":
        return HttpResponse(EXPORTS[format](found.rows), content_type=f"text/{format}; charset=utf-8")
    address = f"{reverse('bench:compare')}?runs={runs}&baseline={found.baseline.runs[0].pk}"
    return schemas.comparison_out(found, url=request.build_absolute_uri(address))


def _detail(run_id: int) -> dict[str, Any]:
    return schemas.run_detail_out(queries.run_detail(run_id))
