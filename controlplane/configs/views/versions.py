"""One version: what it says, what it becomes on an engine, how it differs, and a next one with a change."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.configs import queries, services
from controlplane.configs.domain.checking import moved_defaults
from controlplane.configs.domain.difference import differences, side_by_side
from controlplane.configs.domain.document import read
from controlplane.configs.forms import ChangeForm
from controlplane.configs.models import ConfigVersion
from controlplane.configs.views.configs import api_call
from controlplane.core.errors import Problem
from controlplane.core.listing import template_of
from controlplane.core.permissions import require_operator

CHANGE_PAGE = "configs/version_change.html"


@require_GET
def version_detail(request: HttpRequest, version_id: int) -> HttpResponse:
    """Text, content, check and command line, for the engine or release of `target`."""
    version = _version(version_id)
    target = _target(request, version)
    checked = queries.check_version(version, target)
    marks = {problem["line"]: problem["severity"] for problem in reversed(checked.problems) if problem["line"]}
    text = bytes(version.toml).decode(errors="replace")
    context: dict[str, Any] = {
        "version": version,
        "target": target,
        "targets": queries.target_choices(),
        "checked": checked,
        "settings": queries.settings_of(version.content, target),
        "lines": [(number, line, marks.get(number)) for number, line in enumerate(text.splitlines(), start=1)],
        "words": [queries.words_of(change) for change in queries.changes_of(version)],
        "is_comments_only": queries.is_comments_only(version),
        "siblings": queries.siblings_of(version)[:50],
        "instances": queries.where_version_runs(version),
        "runs": queries.runs_of(config_version=version),
        "form": ChangeForm(),
        "formats": queries.EXPORT_FORMATS,
        "api_call": api_call(request, f"configs/{version.config.name}/versions/{version.number}"),
    }
    return render(request, template_of(request, "configs/version_detail.html", "check"), context)


@require_GET
def version_raw(request: HttpRequest, version_id: int) -> HttpResponse:
    """The file, byte for byte."""
    version = _version(version_id)
    return _download(f"{version.config.name}-v{version.number}.toml", bytes(version.toml))


@require_GET
def version_export(request: HttpRequest, version_id: int, format: str) -> HttpResponse:
    """Shell script, systemd unit or compose service for the engine or release of `target`."""
    version = _version(version_id)
    name, text = queries.export_for(version, _target(request, version), format)
    return _download(name, text.encode())


@require_GET
def version_diff(request: HttpRequest, version_id: int) -> HttpResponse:
    """Two versions beside each other; with `before` and `after`, also which defaults moved between two releases."""
    right = _version(version_id)
    left = _other_side(request, right)
    before, after = request.GET.get("before", ""), request.GET.get("after", "")
    moved: tuple[Any, ...] = ()
    if before and after:
        first, last = queries.target_of(release=before).release, queries.target_of(release=after).release
        moved = moved_defaults(right.content, before=first, after=last)
    context = {
        "left": left,
        "right": right,
        "changes": _change_rows(left, right),
        "rows": side_by_side(_text(left), _text(right)),
        "siblings": queries.siblings_of(right)[:50],
        "releases": queries.releases(),
        "before": before,
        "after": after,
        "moved": moved,
    }
    return render(request, "configs/version_diff.html", context)


@require_http_methods(["GET", "POST"])
def version_change(request: HttpRequest, version_id: int) -> HttpResponse:
    """A next version with one key changed: `preview` shows what it would be, `save` keeps it."""
    actor = require_operator(request)
    version = _version(version_id)
    initial = {"key": request.GET.get("key", ""), "value": request.GET.get("value", "")}
    form = ChangeForm(request.POST or None, initial=initial)
    context: dict[str, Any] = {"version": version, "form": form}
    if request.method == "GET" or not form.is_valid():
        return _changing(request, context, status=422 if form.errors else 200)
    try:
        if request.POST.get("action") == "save":
            made, is_new = services.change_version(
                version=version, values=form.values(), note=form.cleaned_data["note"], actor=actor
            )
            return _made(request, made, is_new=is_new)
        context |= _preview(version, form)
    except Problem as problem:
        return _changing(request, {**context, "refusal": problem}, status=problem.status)
    return _changing(request, context)


@require_POST
def version_fix(request: HttpRequest, version_id: int) -> HttpResponse:
    """The version without what the engine or release of `target` refuses."""
    actor = require_operator(request)
    target = queries.target_named(request.POST.get("target", ""))
    made, is_new = services.fix_version(version=_version(version_id), target=target, actor=actor)
    return _made(request, made, is_new=is_new)


def _version(version_id: int) -> ConfigVersion:
    return get_object_or_404(queries.version_details(), pk=version_id)


def _target(request: HttpRequest, version: ConfigVersion) -> queries.Target:
    key = request.GET.get("target", "")
    return queries.target_named(key) if key else queries.default_target_of(version)


def _other_side(request: HttpRequest, right: ConfigVersion) -> ConfigVersion:
    """`against`, else the parent, else the version itself."""
    against = request.GET.get("against", "")
    if against.isdecimal() and len(against) < 19:
        return _version(int(against))
    return right.parent or right


def _change_rows(left: ConfigVersion, right: ConfigVersion) -> list[dict[str, Any]]:
    return [
        {"change": change, "before": queries.text_of(change.before), "after": queries.text_of(change.after)}
        for change in differences(left.content, right.content)
    ]


def _preview(version: ConfigVersion, form: ChangeForm) -> dict[str, Any]:
    """What the change would make of the text, by line and by meaning, and what the engine would say."""
    changed = services.changed_document(version=version, values=form.values())
    raw = changed.with_secret("new").toml.encode()
    checked = queries.check_text(raw, read(raw), queries.default_target_of(version))
    changes = differences(version.content, changed.content)
    rows = [row for row in side_by_side(_text(version), raw.decode()) if row.kind != "same"]
    return {"changes": changes, "words": [queries.words_of(one) for one in changes], "rows": rows, "checked": checked}


def _changing(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    return render(request, template_of(request, CHANGE_PAGE, "result"), context, status=status)


def _made(request: HttpRequest, version: ConfigVersion, *, is_new: bool) -> HttpResponse:
    said = _("%(version)s is kept.") if is_new else _("Nothing new: it is the same file as %(version)s.")
    messages.success(request, said % {"version": version})
    response = redirect("configs:version_detail", version.pk)
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": response["Location"]})
    return response


def _download(name: str, content: bytes) -> HttpResponse:
    return HttpResponse(
        content,
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _text(version: ConfigVersion) -> str:
    return bytes(version.toml).decode(errors="replace")
