"""What is live, why, and how to go back: all environments, and one with its history."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from controlplane.core.listing import ListFilter, csv_response, template_of, wants_csv
from controlplane.core.paging import page_of
from controlplane.fleet.models import Environment
from controlplane.fleet.queries import number_in
from controlplane.release import queries
from controlplane.release.models import Promotion
from controlplane.release.views.words import api_call

HISTORY_ROWS = 20
CHANGES_SHOWN = 3
SHOWN_EACH, SHOWN_OF_ONE = 5, 10
"""Deployments of each environment, and of the one whose page it is: each is drawn with its actions, 4 ms on two busy
cores, and a page keeps within 150 ms."""
MOST = 10_000
CSV_HEADER = (
    "id",
    "environment",
    "config",
    "version",
    "previous_version",
    "state",
    "why",
    "outcome",
    "runs",
    "host",
    "instance",
    "created_by",
    "created_at",
    "ended_at",
)


@dataclass(frozen=True, slots=True)
class HistoryFilter(ListFilter):
    """`?q=…&config=…&state=…&who=…&sort=…`"""

    config: str = ""
    state: str = ""
    who: str = ""


@require_GET
def environment_list(request: HttpRequest) -> HttpResponse:
    """Every environment with what serves in it; refreshes while something moves."""
    views = queries.environment_views(limit=SHOWN_EACH, changes=CHANGES_SHOWN)
    context = {
        "environments": views,
        "is_moving": any(view.is_moving for view in views),
        "is_empty": not any(view.rows for view in views),
        "api_call": api_call(request, "environments"),
    }
    return render(request, template_of(request, "release/environment_list.html", "environments"), context)


@require_GET
def environment_detail(request: HttpRequest, environment_id: int) -> HttpResponse:
    """One environment: what serves (`?start=10`: after the first ten), every promotion, events. `?part=live` is what
    refreshes."""
    environment = get_object_or_404(Environment, pk=environment_id)
    chosen = HistoryFilter.of(request.GET)
    found = queries.promotions(
        environment=environment.name,
        config=chosen.config,
        state=chosen.state,
        who=chosen.who,
        search=chosen.q,
        sort=chosen.sort,
    )
    if wants_csv(request):
        rows = _as_rows(found.prefetch_related("instance"))
        return csv_response(f"promotions-{environment.name}", CSV_HEADER, rows)
    is_live_part = request.GET.get("part") == "live"
    view = _serving_in(environment, number_in(request.GET.get("start", "")) or 0)
    context: dict[str, Any] = {"view": view, "environment": environment, **_ways(view)}
    if not is_live_part:
        context |= {
            "page": page_of(queries.history(found), request.GET.get("page"), size=HISTORY_ROWS),
            "filter": chosen,
            "configs": sorted(one.name for one in view.standings),
            "states": Promotion.State.choices,
            "under_way": queries.UNDER_WAY_WORD,
            "events": queries.events_of_environment(environment),
            "api_call": api_call(request, f"environments/{environment.name}"),
        }
    part = "live" if is_live_part else "history"
    return render(request, template_of(request, "release/environment_detail.html", part), context)


def _serving_in(environment: Environment, start: int) -> queries.EnvironmentView:
    """The first ones where there are none (any more) after `start`."""
    view = queries.environment_views(environment, start=min(start, MOST), limit=SHOWN_OF_ONE)[0]
    return view if view.rows or not start else _serving_in(environment, 0)


def _ways(view: queries.EnvironmentView) -> dict[str, Any]:
    """Where the deployments before and after these are; None where there are none."""
    return {
        "before": max(0, view.start - SHOWN_OF_ONE) if view.start else None,
        "after": view.end if view.end < view.total else None,
    }


def _as_rows(found: Iterable[Promotion]) -> Iterable[tuple[Any, ...]]:
    for one in found:
        yield (
            one.pk,
            one.environment.name,
            one.config_version.config.name,
            one.config_version.number,
            one.previous_version.number if one.previous_version else None,
            one.state,
            one.why,
            one.reason,
            " ".join(str(run.pk) for run in one.runs.all()),
            one.engine.host.name,
            one.instance.name if one.instance else None,
            one.created_by,
            one.created_at,
            one.ended_at,
        )
