"""The promote page: choose, see what serves now and what would, the difference, the evidence; then promote."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from controlplane.bench.models import Run
from controlplane.configs.domain.difference import Change, differences
from controlplane.configs.models import ConfigVersion
from controlplane.configs.queries import text_of
from controlplane.core.errors import Problem
from controlplane.core.listing import put_into, template_of
from controlplane.core.permissions import require_operator
from controlplane.fleet.models import Deployment, Environment, Instance
from controlplane.fleet.queries import Place, engine_numbered, engine_offer, number_in, place_of, version_offer
from controlplane.inventory.models import Engine
from controlplane.release import queries, services
from controlplane.release.forms import PromoteForm
from controlplane.release.views.words import MEASURE_WORDS

PAGE = "release/promote.html"
FINDERS = {"find_version": f"{PAGE}#versions", "find_engine": f"{PAGE}#engines"}
"""What a search asks for: the select it narrows, and nothing else of the page."""


@require_http_methods(["GET", "POST"])
def promote(request: HttpRequest) -> HttpResponse:
    """GET shows the choices of the address (`environment`, `version`, `runs`, `instance`, `engine`, `gpu`) and what
    follows from them, `?part=find_…` only what a search finds; POST promotes."""
    actor = require_operator(request)
    sent = request.POST if request.method == "POST" else _completed(request.GET)
    engine = engine_numbered(sent.get("engine", ""))
    place = None if engine is None else place_of(engine)
    form = PromoteForm(sent, gpu_uuids=[choice.gpu.uuid for choice in place.gpus] if place else ())
    is_complete = form.is_valid()
    if request.method == "GET":
        if found := FINDERS.get(request.GET.get("part", "")):
            return render(request, found, {"form": form, **_offers(form)})
        return render(request, template_of(request, PAGE, "choices"), _context(form, place))
    if is_complete:
        data = form.cleaned_data
        try:
            promotion = services.promote(
                environment=data["environment"],
                config_version=data["version"],
                engine=data["engine"],
                gpu_uuids=[] if data["instance"] else data["gpu"],
                instance=data["instance"],
                runs=list(data["runs"]),
                why=data["why"],
                actor=actor,
            )
            return redirect("release:promotion_detail", promotion.pk)
        except Problem as problem:
            put_into(form, problem)
    return render(request, PAGE, {**_context(form, place), "is_sent": True}, status=422)


# -- What was chosen -------------------------------------------------------------------------------------------------


def _completed(query: QueryDict) -> QueryDict:
    """The choices of an address, with what follows from them where it says nothing: the place, and all the runs of the
    version. `runs` may be one list with commas. `of` and `into` are what the choices were made for: other runs or
    another place than theirs are not taken along to another version or environment."""
    chosen = query.copy()
    environment = Environment.objects.filter(name=chosen.get("environment", "")[:60].replace("\x00", "")).first()
    version = _version(chosen.get("version", ""))
    if environment is None:
        first = Environment.objects.order_by("rank", "name").first()
        environment = first if "environment" not in query else None
        chosen["environment"] = environment.name if environment else ""
    if version is None:
        return chosen
    _complete_runs(chosen, version)
    _complete_place(chosen, version, environment)
    return chosen


def _complete_runs(chosen: QueryDict, version: ConfigVersion) -> None:
    if chosen.get("of") == str(version.pk):
        return
    offered = [str(pk) for pk in queries.finished_runs(version).values_list("pk", flat=True)[: queries.RUNS_OFFERED]]
    named = [part.strip() for text in chosen.getlist("runs") for part in text.split(",")]
    fitting = [number for number in named if number in offered or _is_run_of(number, version)]
    chosen.setlist("runs", fitting or offered)


def _complete_place(chosen: QueryDict, version: ConfigVersion, environment: Environment | None) -> None:
    ready = [str(instance.pk) for instance in queries.instances_to_take_over(version)]
    if chosen.get("instance") not in ready:
        asked = "instance" in chosen and chosen.get("of") == str(version.pk)
        chosen["instance"] = "" if asked or not ready else ready[0]
    is_same = environment is not None and chosen.get("into") == environment.name and chosen.get("of") == str(version.pk)
    if chosen.get("engine") and (is_same or "into" not in chosen):
        return
    deployment = _deployment(environment, version)
    if deployment is not None:
        chosen["engine"] = str(deployment.engine_id)


def _is_run_of(number: str, version: ConfigVersion) -> bool:
    wanted = number_in(number)
    return wanted is not None and queries.finished_runs(version).filter(pk=wanted).exists()


def _version(wanted: str) -> ConfigVersion | None:
    number = number_in(wanted)
    return None if number is None else ConfigVersion.objects.select_related("config").filter(pk=number).first()


def _deployment(environment: Environment | None, version: ConfigVersion) -> Deployment | None:
    return queries.deployments().filter(environment=environment, name=version.config.name).first()


# -- What follows from it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Preview:
    """What serves now and what would; None where nothing serves now. `obstacle`: why it would be refused."""

    now: queries.DeploymentView | None
    to: ConfigVersion
    changes: Sequence[Change]
    numbers: Sequence[queries.SideBySide]
    problems: Sequence[queries.EvidenceProblem]
    compare_ids: str
    obstacle: str = ""


def _preview(form: PromoteForm) -> Preview | None:
    """None before version and environment are chosen."""
    data = getattr(form, "cleaned_data", {})
    version, environment = data.get("version"), data.get("environment")
    if version is None or environment is None:
        return None
    deployment = _deployment(environment, version)
    now = queries.deployment_views([deployment])[0] if deployment else None
    live = now.live if now else None
    runs = list(data.get("runs") or [])
    before = list(live.runs.all()) if live else []
    shown = [*before, *runs] if live and live.config_version_id != version.pk else runs
    return Preview(
        now=now,
        to=version,
        changes=_changes(live.config_version if live else None, version),
        numbers=queries.side_by_side(runs, before),
        problems=queries.problems_with(runs, version, _engine(data)),
        compare_ids=",".join(str(run.pk) for run in shown),
        obstacle=_("Another promotion of it is under way there.") if now and now.under_way else "",
    )


def _engine(data: dict[str, Any]) -> Engine | None:
    engine: Engine | None = data.get("engine")
    return engine


def _changes(before: ConfigVersion | None, after: ConfigVersion) -> Sequence[Change]:
    """With their values as a config writes them."""
    if before is None or before.pk == after.pk:
        return ()
    return [
        replace(change, before=_written(change.before), after=_written(change.after))
        for change in differences(before.content, after.content)
    ]


def _written(value: Any) -> str | None:
    return None if value is None else text_of(value)


def _context(form: PromoteForm, place: Place | None) -> dict[str, Any]:
    data = getattr(form, "cleaned_data", {})
    version: ConfigVersion | None = data.get("version")
    ticked: list[Run] = list(data.get("runs") or [])
    offered = list(queries.finished_runs(version)[: queries.RUNS_OFFERED]) if version else []
    ready: Sequence[Instance] = queries.instances_to_take_over(version) if version else ()
    return {
        "form": form,
        **_offers(form),
        "environments": Environment.objects.order_by("-rank", "name"),
        "engine": _engine(data),
        "gpus": place.gpus if place else (),
        "version": version,
        "ready": ready,
        "taken_over": data.get("instance"),
        "runs": [*offered, *(run for run in ticked if run not in offered)],
        "ticked": {run.pk for run in ticked},
        "ticked_gpus": data.get("gpu") or [],
        "measures": MEASURE_WORDS,
        "preview": _preview(form),
    }


def _offers(form: PromoteForm) -> dict[str, Any]:
    """What the two selects list. What is chosen is always among it, so a search never loses it."""
    data = getattr(form, "cleaned_data", {})
    versions = version_offer(search=form.data.get("version_q", ""), chosen=data.get("version"))
    engines = engine_offer(search=form.data.get("engine_q", ""), chosen=data.get("engine"))
    return {"versions": versions, "groups": queries.version_groups(versions), "engines": engines}
