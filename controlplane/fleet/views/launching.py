"""Launching: choose what, where and on which GPUs; see at once what needs no host; check; launch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from controlplane.configs.queries import check_version, target_of
from controlplane.core.errors import Problem
from controlplane.core.listing import put_into, template_of
from controlplane.core.permissions import require_operator
from controlplane.fleet import queries, services
from controlplane.fleet.forms import CHECK, LaunchForm
from controlplane.fleet.models import Instance, Preflight
from controlplane.fleet.services import placement
from controlplane.fleet.services.rendering import arguments
from controlplane.fleet.views.commands import Line, lines_of
from controlplane.fleet.views.story import counted, failed_checks

PAGE = "fleet/launch.html"
CHOICES = ("version", "engine", "port")
FINDERS = {"find_version": f"{PAGE}#versions", "find_engine": f"{PAGE}#engines"}
"""What a search asks for: the select it narrows, and nothing else of the page."""


@require_http_methods(["GET", "POST"])
def launch(request: HttpRequest) -> HttpResponse:
    """GET shows the choices of the address and what follows from them, `?part=find_…` only what a search finds; POST
    checks (`do=check`) or launches."""
    actor = require_operator(request)
    if request.method == "GET":
        form = LaunchForm(_chosen(request.GET))
        form.is_valid()
        if found := FINDERS.get(request.GET.get("part", "")):
            return render(request, found, {"form": form, **_offers(form)})
        context = _context(form, _preflight(request.GET))
        return render(request, template_of(request, PAGE, "choices"), context)
    form = LaunchForm(request.POST)
    preflight = _preflight(request.POST)
    if form.is_valid() and _is_reasoned(form, preflight, request.POST):
        try:
            return _act(form, request.POST, actor=actor)
        except Problem as problem:
            put_into(form, problem)
    return render(request, PAGE, {**_context(form, preflight), "is_sent": True}, status=422)


@require_GET
def preflight_detail(request: HttpRequest, preflight_id: int) -> HttpResponse:
    """What the checks found so far; refreshes until the worker has filled them in."""
    require_operator(request)
    preflight = get_object_or_404(_preflights(), pk=preflight_id)
    form = LaunchForm({})
    return render(request, f"{PAGE}#preflight", {"preflight": preflight, "form": form, **_found(preflight)})


def _act(form: LaunchForm, post: QueryDict, *, actor: str) -> HttpResponse:
    data = form.cleaned_data
    place: dict[str, Any] = {
        "config_version": data["version"],
        "engine": data["engine"],
        "gpu_uuids": form.gpu_uuids,
        "port": data["port"],
    }
    if post.get("do") == CHECK:
        preflight = services.request_preflight(**place, actor=actor)
        query = _query({name: post.get(name, "") for name in CHOICES}, post.getlist("gpu"))
        return redirect(f"{reverse('fleet:launch')}?{query}&preflight={preflight.pk}#preflight-{preflight.pk}")
    instance = services.request_launch(**place, override_reason=data["override_reason"], actor=actor)
    return redirect("fleet:instance_detail", instance.pk)


def _is_reasoned(form: LaunchForm, preflight: Preflight | None, post: QueryDict) -> bool:
    """A launch whose check is known to have failed needs a reason in words."""
    if post.get("do") == CHECK or preflight is None or not _fits(preflight, form):
        return True
    if not failed_checks(preflight.checks) or form.cleaned_data["override_reason"].strip():
        return True
    form.add_error("override_reason", _("A check failed. Correct it, or write why it shall be launched all the same."))
    return False


# -- What was chosen -------------------------------------------------------------------------------------------------


def _chosen(query: QueryDict) -> QueryDict:
    """The choices of an address. `?instance=` stands for its version and place, `?host=` for the first engine there;
    what the address names itself goes before."""
    chosen = query.copy()
    if not chosen.get("version") or not chosen.get("engine"):
        _take_instance(chosen)
        _take_host(chosen)
    return chosen


def _take_instance(chosen: QueryDict) -> None:
    wanted = queries.number_in(chosen.get("instance", ""))
    instance = None if wanted is None else Instance.objects.filter(pk=wanted).first()
    if instance is None:
        return
    if not chosen.get("version"):
        chosen["version"] = str(instance.config_version_id)
    if not chosen.get("engine"):
        chosen["engine"] = str(instance.engine_id)
        if "gpu" not in chosen:
            chosen.setlist("gpu", instance.gpu_uuids)
        if not chosen.get("port") and not instance.is_live:
            chosen["port"] = str(instance.port)


def _take_host(chosen: QueryDict) -> None:
    host_id = queries.number_in(chosen.get("host", ""))
    if chosen.get("engine") or host_id is None:
        return
    if engine := queries.usable_engine_of(host_id):
        chosen["engine"] = str(engine.pk)


def _query(values: dict[str, str], gpu_uuids: Sequence[str]) -> str:
    query = QueryDict(mutable=True)
    query.update({name: value for name, value in values.items() if value})
    query.setlist("gpu", list(gpu_uuids))
    return query.urlencode()


def _preflights() -> Any:
    return Preflight.objects.select_related("config_version__config", "engine__host")


def _preflight(query: QueryDict) -> Preflight | None:
    wanted = queries.number_in(query.get("preflight", ""))
    found = None if wanted is None else _preflights().filter(pk=wanted).first()
    return found if isinstance(found, Preflight) else None


def _fits(preflight: Preflight, form: LaunchForm) -> bool:
    """Whether it checked what is chosen now."""
    data = form.cleaned_data
    return (
        data.get("version") == preflight.config_version
        and data.get("engine") == preflight.engine
        and (not data.get("gpu") or sorted(data["gpu"]) == sorted(preflight.gpu_uuids))
        and data.get("port") in {None, preflight.port}
    )


# -- What follows from it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outlook:
    """What can be said without asking the host: the engine's view of every flag, and the command line.

    `can_be_fixed`: some of the problems go away without a person, by taking keys out or replacing them."""

    problems: Sequence[Any] = ()
    remarks: Sequence[Any] = ()
    note: str | None = None
    command: Sequence[Line] = field(default_factory=list)
    refusal: str = ""
    can_be_fixed: bool = False


def _outlook(form: LaunchForm) -> Outlook | None:
    """None before version and engine are chosen."""
    data = getattr(form, "cleaned_data", {})
    version, engine = data.get("version"), data.get("engine")
    if version is None or engine is None:
        return None
    try:
        checked = check_version(version, target_of(engine_id=engine.pk))
        note, found, remarks = checked.target.note, checked.errors, checked.remarks
        if found:
            return Outlook(found, remarks, note, can_be_fixed=bool(checked.fixes))
        port = data.get("port") or placement.port_for(version, engine.host, None)
        bind = placement.bind_of(version)
        argv, injected = arguments(version.content, checked.target.flags, host=bind, port=port)
    except Problem as problem:
        return Outlook(refusal=f"{problem.sentence} {problem.remedy}".strip())
    return Outlook(found, remarks, note, lines_of([engine.executable, *argv], injected))


def _context(form: LaunchForm, preflight: Preflight | None) -> dict[str, Any]:
    data = getattr(form, "cleaned_data", {})
    version, engine = data.get("version"), data.get("engine")
    return {
        "form": form,
        **_offers(form),
        "chosen": None if engine is None else queries.place_of(engine),
        "ticked": data.get("gpu") or [],
        "outlook": _outlook(form),
        "next_number": None if version is None else queries.newest_number(version.config_id) + 1,
        "preflight": preflight if preflight is not None and _fits(preflight, form) else None,
        "is_outdated": preflight is not None and not _fits(preflight, form),
        **(_found(preflight) if preflight is not None else {}),
    }


def _offers(form: LaunchForm) -> dict[str, Any]:
    """What the two selects list. What is chosen is always among it, so a search never loses it."""
    data = getattr(form, "cleaned_data", {})
    versions = queries.version_offer(search=form.data.get("version_q", ""), chosen=data.get("version"))
    engines = queries.engine_offer(search=form.data.get("engine_q", ""), chosen=data.get("engine"))
    return {"versions": versions, "groups": queries.by_config(versions.rows), "engines": engines}


def _found(preflight: Preflight) -> dict[str, Any]:
    return {
        "checks_line": counted(preflight.checks),
        "failed": failed_checks(preflight.checks),
        "next_number": queries.newest_number(preflight.config_version.config_id) + 1,
    }
