"""Data of charts: JSON in the shapes of docs/internals/pages.md."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from controlplane.bench import queries
from controlplane.bench.models import Run

# Chart → its lines: column of the series, label, unit, factor, axis.
SERIES: Mapping[str, Sequence[tuple[str, Any, str, float, str]]] = {
    "tokens": (("output_tokens", gettext_lazy("Output tokens"), "tok/s", 1.0, "left"),),
    "queue": (
        ("running", gettext_lazy("Running"), "", 1.0, "left"),
        ("waiting", gettext_lazy("Waiting"), "", 1.0, "left"),
    ),
    "cache": (
        ("kv_usage", gettext_lazy("KV cache used"), "%", 100.0, "left"),
        ("prefix_hit_share", gettext_lazy("Prefix hits"), "%", 100.0, "left"),
    ),
    "gpu": (("gpu_utilisation_percent", gettext_lazy("GPU utilisation"), "%", 1.0, "left"),),
}
CURVES = {
    "ttft": ("ttft.any.v1", "TTFT", "ms", 1.0),
    "tpot": ("tpot.excl.v1", "TPOT", "ms", 1.0),
    "e2el": ("e2e.lasttoken.v1", "E2EL", "s", 1000.0),
}


@require_GET
def run_chart(request: HttpRequest, run_id: int, name: str) -> HttpResponse:
    """A one-second series of a run, or a distribution of its latencies."""
    run = get_object_or_404(Run.objects.only("pk", "state"), pk=run_id)
    if name in CURVES:
        return JsonResponse(_curve([run.pk], name, lambda each: CURVES[name][1]))
    if name not in SERIES:
        raise Http404
    series = queries.series_of(run)
    lines = [
        {"label": str(label), "unit": unit, "axis": axis, "values": _scaled(series[column], factor)}
        for column, label, unit, factor, axis in SERIES[name]
        if column in series
    ]
    x = series.get("t", [])
    return JsonResponse(
        {"x": [second - x[0] for second in x], "x_label": _("Time"), "x_unit": "s", "x_kind": "number", "series": lines}
    )


@require_GET
def compare_chart(request: HttpRequest, name: str) -> HttpResponse:
    """Throughput against latency of the compared runs, or their distributions on top of each other."""
    numbers = queries.run_ids(request.GET.getlist("runs"))
    if name in CURVES:
        return JsonResponse(_curve(numbers, name, lambda run: f"{run.config_version} · {run.pk}"))
    if name != "tradeoff":
        raise Http404
    found = queries.comparison(numbers)
    series = [
        {
            "label": side.label,
            "joined": False,
            "points": [
                [run.output_throughput, run.ttft_ms_p99]
                for run in side.runs
                if run.state == Run.State.FINISHED and run.output_throughput is not None
            ],
        }
        for side in found.sides
    ]
    return JsonResponse(
        {"x_label": _("Throughput"), "x_unit": "tok/s", "y_label": _("TTFT p99"), "y_unit": "ms", "series": series}
    )


def series_table(series: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """The charts of a run as one table: a row per second, a column per line that was sampled."""
    lines = [line for group in SERIES.values() for line in group if any(v is not None for v in series.get(line[0], ()))]
    times = series.get("t", [])
    columns = [_scaled(series[column], factor) for column, *_rest, factor, _axis in lines]
    rows = [
        (int(second - times[0]), [column[at] for column in columns])
        for at, second in enumerate(times)
        if second is not None and times[0] is not None
    ]
    return {"heads": [(label, unit) for _column, label, unit, *_rest in lines], "rows": rows}


def _curve(numbers: Sequence[int], name: str, label: Callable[[Run], str]) -> dict[str, Any]:
    definition, title, unit, divisor = CURVES[name]
    found = queries.curves(numbers, definition)
    is_alone = len(numbers) == 1  # beside others only what counts
    series = [
        {"label": label(run), "values": [value / divisor for value in values]}
        for run, values in found
        if values and (is_alone or run.state == Run.State.FINISHED)
    ]
    return {"label": title, "unit": unit, "series": series}


def _scaled(values: Sequence[float | None], factor: float) -> list[float | None]:
    return [None if value is None else value * factor for value in values]
