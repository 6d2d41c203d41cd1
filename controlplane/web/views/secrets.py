"""Secrets: stored, replaced, deleted; their text is never shown."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.core import secrets_store
from controlplane.core.errors import Problem
from controlplane.core.listing import put_into
from controlplane.core.models import Secret
from controlplane.core.permissions import require_admin
from controlplane.ops import queries, services
from controlplane.web.forms import ReplaceSecretForm, SecretForm


@sensitive_post_parameters("text")
@require_http_methods(["GET", "POST"])
def secrets(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return _page(request, form=SecretForm())
    actor, form = require_admin(request), SecretForm(request.POST)
    if not form.is_valid():
        return _page(request, form=form, status=422)
    given = form.cleaned_data
    try:
        secret = secrets_store.store(
            name=given["name"], kind=given["kind"], plain=given["text"], hint=given["hint"], actor=actor
        )
    except Problem as problem:
        put_into(form, problem)
        return _page(request, form=form, status=problem.status)
    messages.success(request, _("Stored. Refer to it as %(reference)s.") % {"reference": secret.reference})
    return redirect("web:secrets")


@sensitive_post_parameters("text")
@require_POST
def replace_secret(request: HttpRequest, name: str) -> HttpResponse:
    actor, secret, form = require_admin(request), get_object_or_404(Secret, name=name), ReplaceSecretForm(request.POST)
    if form.is_valid():
        secrets_store.replace(secret, plain=form.cleaned_data["text"], hint=form.cleaned_data["hint"], actor=actor)
        messages.success(request, _("%(name)s has a new text.") % {"name": secret.reference})
    else:
        messages.error(request, _("Nothing was changed: the new text is missing or too long."))
    return redirect("web:secrets")


@require_POST
def delete_secret(request: HttpRequest, name: str) -> HttpResponse:
    actor, secret = require_admin(request), get_object_or_404(Secret, name=name)
    try:
        services.delete_secret(secret, actor=actor)
    except Problem as problem:
        messages.error(request, f"{problem.sentence} {problem.remedy}")
    else:
        messages.success(request, _("%(name)s is deleted.") % {"name": secret.reference})
    return redirect("web:secrets")


def _page(request: HttpRequest, *, form: SecretForm, status: int = 200, **more: Any) -> HttpResponse:
    context = {"secrets": queries.secrets_with_uses(), "form": form, **more}
    return render(request, "web/secrets.html", context, status=status)
