"""One promotion, and what can be done at a click: give up, go back, take out of service."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from controlplane.configs.domain.difference import differences
from controlplane.configs.queries import version_details, words_of
from controlplane.core.listing import template_of
from controlplane.core.permissions import require_operator
from controlplane.fleet.models import Deployment
from controlplane.release import queries, services
from controlplane.release.models import Promotion
from controlplane.release.views.words import MEASURE_WORDS, api_call


@require_GET
def promotion_detail(request: HttpRequest, promotion_id: int) -> HttpResponse:
    """Steps with their times, evidence, difference, outcome, events; refreshes until it is over."""
    try:
        promotion = queries.promotion_detail(promotion_id)
    except Promotion.DoesNotExist:
        promotion = get_object_or_404(Promotion, pk=promotion_id)
    evidence = queries.evidence_of(promotion)
    context = {
        "promotion": promotion,
        "steps": queries.story_of(promotion, queries.passages_of([promotion])),
        "evidence": evidence,
        "numbers": queries.side_by_side(evidence.runs, []),
        "measures": MEASURE_WORDS,
        "changes": _changes(promotion),
        "events": queries.events_of_promotion(promotion),
        "api_call": api_call(request, f"promotions/{promotion.pk}"),
    }
    return render(request, template_of(request, "release/promotion_detail.html", "live"), context)


@require_POST
def promotion_abort(request: HttpRequest, promotion_id: int) -> HttpResponse:
    actor = require_operator(request)
    promotion = get_object_or_404(Promotion, pk=promotion_id)
    services.abort(promotion, actor=actor)
    messages.info(request, _("Given up: what ran before serves, or is started again."))
    return redirect("release:promotion_detail", promotion.pk)


@require_POST
def deployment_roll_back(request: HttpRequest, deployment_id: int) -> HttpResponse:
    actor = require_operator(request)
    deployment = get_object_or_404(Deployment.objects.select_related("environment"), pk=deployment_id)
    promotion = services.roll_back(deployment, why=request.POST.get("why", ""), actor=actor)
    return redirect("release:promotion_detail", promotion.pk)


@require_POST
def deployment_stop(request: HttpRequest, deployment_id: int) -> HttpResponse:
    actor = require_operator(request)
    deployment = get_object_or_404(Deployment.objects.select_related("environment"), pk=deployment_id)
    services.stop_serving(deployment, why=request.POST.get("why", ""), actor=actor)
    messages.success(request, _("%(deployment)s is taken out of service.") % {"deployment": deployment})
    return redirect("release:environment_detail", deployment.environment_id)


def _changes(promotion: Promotion) -> list[str]:
    """What the version changed of the one before, in words."""
    if promotion.previous_version_id is None or promotion.previous_version_id == promotion.config_version_id:
        return []
    wanted: dict[int, Any] = version_details().in_bulk([promotion.previous_version_id, promotion.config_version_id])
    before, after = wanted[promotion.previous_version_id], wanted[promotion.config_version_id]
    return [words_of(change) for change in differences(before.content, after.content)]
