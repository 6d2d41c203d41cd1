"""One instance: its story and log, its figures, and what can be done with it. No page waits for a host."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from controlplane.core.errors import Invalid
from controlplane.core.listing import template_of
from controlplane.core.permissions import require_operator
from controlplane.fleet import queries, services
from controlplane.fleet.forms import ReasonForm, SmokeForm
from controlplane.fleet.models import Instance, State, Transition
from controlplane.fleet.services.rendering import DRAIN_S
from controlplane.fleet.views.attempts import attempt_context
from controlplane.fleet.views.story import story
from controlplane.inventory.queries import events_of

EXPORTS = {"shell": "sh", "systemd": "service", "compose": "compose.yaml"}
BUSY, SERVING = "1s", "5s"
"""How often a page asks again: something changes by itself within seconds, or only figures move."""
STATES_SHOWN = 50
FIRST_QUESTION_WITHIN = timedelta(seconds=30)


@require_GET
def instance_detail(request: HttpRequest, instance_id: int) -> HttpResponse:
    """Everything about one instance; the fragment refreshes for as long as something can change by itself."""
    instance = get_object_or_404(queries.instance_details(), pk=instance_id)
    context = _context(request, instance, SmokeForm())
    return render(request, template_of(request, "fleet/instance_detail.html", "live"), context)


@require_POST
def instance_stop(request: HttpRequest, instance_id: int) -> HttpResponse:
    services.request_stop(_instance(instance_id), actor=require_operator(request))
    return redirect("fleet:instance_detail", instance_id)


@require_POST
def instance_relaunch(request: HttpRequest, instance_id: int) -> HttpResponse:
    """Again, at the same place; with `override_reason` although a check fails."""
    actor = require_operator(request)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        raise Invalid(
            " ".join(map(str, form.errors["override_reason"])), remedy=_("Go back: what you wrote is still there.")
        )
    services.relaunch(_instance(instance_id), override_reason=form.cleaned_data["override_reason"], actor=actor)
    return redirect("fleet:instance_detail", instance_id)


@require_POST
def instance_smoke(request: HttpRequest, instance_id: int) -> HttpResponse:
    """Ask one question; the answer appears in the story."""
    actor = require_operator(request)
    form = SmokeForm(request.POST)
    if not form.is_valid():
        instance = get_object_or_404(queries.instance_details(), pk=instance_id)
        return render(request, "fleet/instance_detail.html", _context(request, instance, form), status=422)
    services.request_smoke(_instance(instance_id), prompt=form.cleaned_data["prompt"], actor=actor)
    return redirect("fleet:instance_detail", instance_id)


@require_POST
def instance_remove(request: HttpRequest, instance_id: int) -> HttpResponse:
    actor = require_operator(request)
    instance = _instance(instance_id)
    services.remove_instance(instance, actor=actor)
    messages.success(request, _("%(name)s is removed with its attempts and logs.") % {"name": instance.name})
    return redirect("fleet:instance_list")


@require_GET
def instance_export(request: HttpRequest, instance_id: int, format: str) -> HttpResponse:
    """The launch as a file that runs without this product; no key is in it."""
    if format not in EXPORTS:
        raise Http404
    instance = _instance(instance_id)
    _argv, text = services.exported(instance, format)  # type: ignore[arg-type]  # one of EXPORTS
    return HttpResponse(
        text,
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{instance.name}.{EXPORTS[format]}"'},
    )


def _instance(instance_id: int) -> Instance:
    whole = Instance.objects.select_related("host", "engine__option_list", "config_version__config")
    return get_object_or_404(whole, pk=instance_id)


def _context(request: HttpRequest, instance: Instance, smoke_form: SmokeForm) -> dict[str, Any]:
    attempt = queries.newest_attempt(instance)
    if attempt is not None:
        attempt.instance = instance
    told = attempt_context(attempt, is_newest=True)
    transitions = queries.transitions_of(instance, limit=STATES_SHOWN)
    return {
        "instance": instance,
        "steps": story(instance, None, now=timezone.now()),
        **told,
        "attempts": queries.attempt_rows(instance),
        "transitions": _states(instance, transitions),
        "runs": queries.runs_on(instance),
        "events": events_of("instance", instance.pk),
        "every": _pace(instance),
        "may": _allowed(instance),
        "metrics": _figures(instance),
        "drain_s": DRAIN_S,
        "smoke_form": smoke_form,
        "api_call": f"curl -H 'Authorization: Bearer …' {_api_url(request, instance)}",
    }


def _api_url(request: HttpRequest, instance: Instance) -> str:
    return request.build_absolute_uri(f"/api/v1/instances/{instance.pk}")


def _pace(instance: Instance) -> str:
    """How often the page refreshes; "" when nothing changes any more without a person."""
    if instance.state == State.READY:
        return BUSY if _is_asked(instance) or instance.desired == Instance.Desired.STOPPED else SERVING
    if instance.is_live:
        return BUSY
    is_being_cleared = instance.state == State.FAILED and instance.desired == Instance.Desired.STOPPED
    starts_again = instance.state == State.FAILED and instance.deployment_id is not None
    return SERVING if is_being_cleared or starts_again else ""


def _is_asked(instance: Instance) -> bool:
    """Whether a smoke answer is awaited. The first question follows readiness by itself, unless its message is lost."""
    has_just_come_up = timezone.now() - instance.state_since < FIRST_QUESTION_WITHIN
    return instance.smoke.get("state") == "asked" or (not instance.smoke and has_just_come_up)


def _allowed(instance: Instance) -> dict[str, bool]:
    """Which actions make sense in this state; the services say the last word."""
    is_wanted = instance.desired == Instance.Desired.RUNNING
    is_ready = instance.state == State.READY and is_wanted
    return {
        "stop": instance.is_live and is_wanted,
        "clear": instance.state == State.FAILED and is_wanted,
        "relaunch": not instance.is_live,
        "use": is_ready,
        "remove": not instance.is_live,
    }


def _figures(instance: Instance) -> dict[str, Any]:
    """The engine's own figures of the last look, with the shares a page shows; {} when there are none."""
    found = instance.metrics
    if "running" not in found:
        return {}
    queried, hit = found.get("prefix_queries"), found.get("prefix_hits")
    return {**found, "prefix_hit_rate": hit / queried if queried and hit is not None else None}


def _states(instance: Instance, transitions: Sequence[Transition]) -> list[dict[str, Any]]:
    """Every state it was in, newest first: since when, by whom, why, and for how long (None: it still is)."""
    rows: list[dict[str, Any]] = [
        {"at": one.at, "state": one.after, "actor": one.actor, "reason": one.reason, "before": one.before}
        for one in transitions
    ]
    if len(rows) < STATES_SHOWN:  # otherwise the beginning is out of sight
        asked = {"at": instance.created_at, "state": State.PENDING, "actor": instance.created_by, "reason": ""}
        rows.insert(0, {**asked, "before": ""})
    ends = [*(row["at"] for row in rows[1:]), None]
    lasted = [(end - row["at"]).total_seconds() if end else None for row, end in zip(rows, ends, strict=True)]
    return [{**row, "lasted_s": seconds} for row, seconds in zip(rows, lasted, strict=True)][::-1]
