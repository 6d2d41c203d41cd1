"""Importing a config: check it, see everything that is wrong, keep it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from controlplane.configs import queries, services
from controlplane.configs.forms import ImportForm
from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Problem
from controlplane.core.permissions import require_operator

PAGE = "configs/config_import.html"


@require_http_methods(["GET", "POST"])
def config_import(request: HttpRequest) -> HttpResponse:
    """The form; `check` answers what the text would become, `import` keeps it. Under htmx the answer alone."""
    actor = require_operator(request)
    if request.method == "GET":
        initial = {"name": request.GET.get("name", ""), "target": queries.default_target().key}
        return render(request, PAGE, {"form": ImportForm(initial=initial)})
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _answer(request, form, {}, status=422)
    preview = queries.preview_of(
        form.cleaned_data["raw"], name=form.cleaned_data["name"], target=form.cleaned_data["target"]
    )
    if request.POST.get("action") != "import":
        return _answer(request, form, {"preview": preview})
    try:
        version, is_new = services.import_config(
            raw=form.cleaned_data["raw"], name=preview.name, note=form.cleaned_data["note"], actor=actor
        )
    except Problem as problem:
        return _answer(request, form, {"preview": preview, "refusal": problem}, status=problem.status)
    _say(request, version, is_new=is_new)
    return _to(request, version)


def _answer(request: HttpRequest, form: ImportForm, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """The result; on a whole page also the text of an uploaded file, which the browser does not send back twice."""
    if request.headers.get("HX-Request"):
        return render(request, f"{PAGE}#result", {"form": form, **context}, status=status)
    text = form.data.get("toml") or (form.cleaned_data.get("raw") or b"").decode(errors="ignore")
    form.data = {**request.POST.dict(), "toml": text}
    return render(request, PAGE, {"form": form, **context}, status=status)


def _say(request: HttpRequest, version: ConfigVersion, *, is_new: bool) -> None:
    said = _("%(version)s is kept.") if is_new else _("Nothing new: it is the same file as %(version)s.")
    messages.success(request, said % {"version": version})


def _to(request: HttpRequest, version: ConfigVersion) -> HttpResponse:
    response = redirect("configs:version_detail", version.pk)
    if not request.headers.get("HX-Request"):
        return response
    return HttpResponse(headers={"HX-Redirect": response["Location"]})
