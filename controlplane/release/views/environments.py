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
from controlplane.release import queries
from controlplane.release.models import Promotion
from controlplane.release.views.words import api_call

HISTORY_ROWS = 25
SHOWN_EACH, SHOWN_OF_ONE = 8, 20
"""Deployments on a page before “all of them”: each is drawn with its actions, and a page keeps within 150 ms."""
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
    views = queries.environment_views(limit=SHOWN_EACH)
    context = {
        "environments": views,
        "is_moving": any(view.is_moving for view in views),
        "is_empty": not any(view.rows for view in views),
        "api_call": api_call(request, "environments"),
    }
    return render(request, template_of(request, "release/environment_list.html", "environments"), context)


@require_GET
def environment_detail(request: HttpRequest, environment_id: int) -> HttpResponse:
    """One environment: what serves, every promotion, events. `?part=live` is what refreshes."""
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
        return csv_response(f"promotions-{environment.name}", CSV_HEADER, _as_rows(found))
    is_live_part = request.GET.get("part") == "live"
    is_all = "all" in request.GET
    view = queries.environment_views(environment, limit=None if is_all else SHOWN_OF_ONE)[0]
    context: dict[str, Any] = {"view": view, "environment": environment, "is_all": is_all}
    if not is_live_part:
        context |= {
            "page": page_of(found, request.GET.get("page"), size=HISTORY_ROWS),
            "filter": chosen,
            "states": Promotion.State.choices,
            "under_way": queries.UNDER_WAY_WORD,
            "events": queries.events_of_environment(environment),
            "api_call": api_call(request, f"environments/{environment.name}"),
        }
    part = "live" if is_live_part else "history"
    return render(request, template_of(request, "release/environment_detail.html", part), context)


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
