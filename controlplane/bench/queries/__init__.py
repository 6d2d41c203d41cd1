"""What pages, API and the apps above ask about runs and workloads. Import from here, not from the modules below."""

from controlplane.bench.queries.comparing import Comparison, Side, UnlikeRuns, comparison, curves, run_ids
from controlplane.bench.queries.runs import (
    RUN_SORTS,
    events_of,
    filter_choices,
    metrics_of,
    other_runs,
    request_columns_of,
    run_detail,
    run_details,
    runs,
    runs_ahead_of,
    runs_page,
    series_of,
    workloads,
)

__all__ = [
    "RUN_SORTS",
    "Comparison",
    "Side",
    "UnlikeRuns",
    "comparison",
    "curves",
    "events_of",
    "filter_choices",
    "metrics_of",
    "other_runs",
    "request_columns_of",
    "run_detail",
    "run_details",
    "run_ids",
    "runs",
    "runs_ahead_of",
    "runs_page",
    "series_of",
    "workloads",
]
