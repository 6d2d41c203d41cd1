"""One instance: its story and log, its figures, and what can be done with it. No page waits for a host."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from controlplane.core.listing import template_of
from controlplane.core.permissions import require_operator
from controlplane.fleet import queries, services
from controlplane.fleet.forms import ReasonForm, SmokeForm
from controlplane.fleet.models import Attempt, Instance, State, Transition
from controlplane.fleet.services.rendering import DRAIN_S
from controlplane.fleet.views.attempts import attempt_context
from controlplane.fleet.views.story import story
from controlplane.inventory.queries import events_of

EXPORTS = {"shell": "sh", "systemd": "service", "compose": "compose.yaml"}
BUSY, SERVING = "1s", "5s"
"""How often a page asks again: something changes by itself within seconds, or only figures move."""


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
    reason = form.cleaned_data["override_reason"] if form.is_valid() else ""
    services.relaunch(_instance(instance_id), override_reason=reason, actor=actor)
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
    transitions = queries.transitions_of(instance)
    return {
        "instance": instance,
        "steps": story(instance, None, now=timezone.now()),
        **told,
        "attempts": queries.attempt_rows(instance),
        "transitions": _with_durations(transitions),
        "runs": queries.runs_on(instance),
        "events": events_of("instance", instance.pk),
        "every": _pace(instance),
        "may": _allowed(instance),
        "metrics": _figures(instance),
        "left": _left(attempt),
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
    """Whether a smoke answer is awaited; the first question follows readiness by itself."""
    return instance.smoke.get("state") in {None, "asked"}


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


def _left(attempt: Attempt | None) -> list[dict[str, Any]]:
    """Processes that outlived the main one, or that the last stop could not end: pid, command, what became of them."""
    if attempt is None:
        return []
    report = attempt.stop_report
    is_gone = report.get("is_gone", True)
    alive = [] if is_gone else [{**process, "fate": _("still there")} for process in report.get("still_alive", [])]
    ended = [
        {**process, "fate": _("removed with %(signal)s") % {"signal": process.get("signal") or "SIGKILL"}}
        for process in attempt.leftovers
    ]
    return [{**process, "command": " ".join(process.get("command") or [])} for process in (*alive, *ended)]


def _with_durations(transitions: Sequence[Transition]) -> list[dict[str, Any]]:
    """Newest first, each with how long the state it led to lasted (None: it still does)."""
    ends = [*(transition.at for transition in transitions[1:]), None]
    rows = [
        {"transition": transition, "lasted_s": (end - transition.at).total_seconds() if end else None}
        for transition, end in zip(transitions, ends, strict=False)
    ]
    return rows[::-1]
