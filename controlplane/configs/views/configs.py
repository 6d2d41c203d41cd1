"""Configs: the list, and one config with its versions, where it runs and what was measured."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.configs import queries, services
from controlplane.configs.forms import ConfigForm
from controlplane.configs.models import Config
from controlplane.core.errors import Problem
from controlplane.core.listing import csv_response, template_of, wants_csv
from controlplane.core.paging import page_of
from controlplane.core.permissions import require_operator


@require_GET
def config_list(request: HttpRequest) -> HttpResponse:
    """All configs with their latest version, and where they run."""
    search, sort = request.GET.get("q", ""), request.GET.get("sort", "")
    is_archived = request.GET.get("archived") == "1"
    found = queries.configs(search=search, is_archived=is_archived, sort=sort)
    if wants_csv(request):
        return _as_csv(queries.rows_of(found))
    page = page_of(found, request.GET.get("page"))
    context = {
        "page": page,
        "rows": queries.rows_of(page.items),
        "filter": {"q": search, "sort": sort, "is_archived": is_archived},
        "is_empty": not page.total and not search and not Config.objects.exists(),
    }
    return render(request, template_of(request, "configs/config_list.html", "rows"), context)


@require_GET
def config_detail(request: HttpRequest, config: str) -> HttpResponse:
    """One config: versions and what each changed, instances, environments, runs, events."""
    found = config_or_404(config)
    page = page_of(queries.versions_of(found), request.GET.get("page"))
    context: dict[str, Any] = {
        "config": found,
        "page": page,
        "rows": [_version_row(version) for version in page.items],
        "latest": queries.latest_version(found),
        "instances": queries.where_it_runs(found),
        "deployments": queries.deployments_of(found),
        "runs": queries.runs_of(config_version__config=found),
        "events": queries.events_of(found),
        "api_call": api_call(request, f"configs/{found.name}"),
    }
    return render(request, template_of(request, "configs/config_detail.html", "versions"), context)


@require_http_methods(["GET", "POST"])
def config_edit(request: HttpRequest, config: str) -> HttpResponse:
    """Rename it, or say what it is for."""
    actor = require_operator(request)
    found = config_or_404(config)
    form = ConfigForm(request.POST or None, initial={"name": found.name, "description": found.description})
    if request.method == "POST" and form.is_valid():
        try:
            services.rename_config(config=found, name=form.cleaned_data["name"], actor=actor)
        except Problem as problem:
            form.add_error("name", f"{problem.sentence} {problem.remedy}")
        else:
            services.describe_config(config=found, description=form.cleaned_data["description"], actor=actor)
            return redirect("configs:config_detail", found.name)
    context = {"form": form, "config": found}
    return render(request, "configs/config_edit.html", context, status=422 if form.errors else 200)


@require_POST
def config_archive(request: HttpRequest, config: str) -> HttpResponse:
    """Put it into the archive, or with `back` take it out."""
    actor = require_operator(request)
    found = config_or_404(config)
    if request.POST.get("back"):
        services.unarchive_config(config=found, actor=actor)
    else:
        services.archive_config(config=found, actor=actor)
        messages.success(request, _("%(name)s is in the archive.") % {"name": found.name})
    return redirect("configs:config_detail", found.name)


def config_or_404(name: str) -> Any:
    try:
        return queries.config_named(name)
    except Config.DoesNotExist:
        raise Http404 from None


def api_call(request: HttpRequest, path: str) -> str:
    """The same over REST, ready to be pasted."""
    return f"curl -H 'Authorization: Bearer …' '{request.build_absolute_uri(f'/api/v1/{path}')}'"


def _version_row(version: Any) -> dict[str, Any]:
    return {
        "version": version,
        "words": [queries.words_of(change) for change in queries.changes_of(version)],
        "is_comments_only": queries.is_comments_only(version),
    }


def _as_csv(rows: list[queries.ConfigRow]) -> HttpResponse:
    header = ("name", "description", "latest_version", "versions", "model_path", "live_instances")
    table = (
        (
            *(row.config.name, row.config.description, row.latest.number if row.latest else None),
            *(row.config.version_count, row.model_path, row.config.live_instances),
            *(" ".join(row.environments), row.config.changed_at, row.config.last_run_at, row.config.archived_at),
        )
        for row in rows
    )
    return csv_response("configs", (*header, "environments", "changed_at", "last_run_at", "archived_at"), table)
