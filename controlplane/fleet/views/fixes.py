"""Fix buttons: one change of a config that a check or a diagnosis proposes, made as a new version.

A button names a stored proposal (whose, which); key and value never come from the browser.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from controlplane.configs.models import ConfigVersion
from controlplane.configs.queries import target_named
from controlplane.configs.services import change_version, fix_version
from controlplane.core.errors import NotFound
from controlplane.core.permissions import require_operator
from controlplane.fleet.models import Attempt, Preflight


@require_POST
def preflight_fix(request: HttpRequest, preflight_id: int) -> HttpResponse:
    """Make the version that a check proposes and come back to the launch form with it."""
    actor = require_operator(request)
    preflight = get_object_or_404(Preflight.objects.select_related("config_version__config"), pk=preflight_id)
    fix = _proposed(preflight.checks, (), request.POST)
    version = _changed(request, preflight.config_version, fix, because=_("preflight"), actor=actor)
    place = {"engine": str(preflight.engine_id), "gpu": preflight.gpu_uuids, "port": request.POST.get("port", "")}
    return _to_launch(version, place)


@require_POST
def attempt_fix(request: HttpRequest, attempt_id: int) -> HttpResponse:
    """Make the version that a check or the diagnosis of an attempt proposes; the launch form has the same place."""
    actor = require_operator(request)
    attempt = get_object_or_404(Attempt.objects.select_related("instance__config_version__config"), pk=attempt_id)
    fix = _proposed(attempt.preflight, attempt.fixes, request.POST)
    version = _changed(request, attempt.instance.config_version, fix, because=str(attempt), actor=actor)
    return _to_launch(version, {"instance": str(attempt.instance_id)})


@require_POST
def version_fix(request: HttpRequest, version_id: int) -> HttpResponse:
    """Make the version without what the chosen engine refuses, and come back with it."""
    actor = require_operator(request)
    version = get_object_or_404(ConfigVersion.objects.select_related("config"), pk=version_id)
    place = {name: request.POST.get(name, "") for name in ("engine", "port")}
    made, is_new = fix_version(version=version, target=target_named(f"engine:{place['engine']}"), actor=actor)
    words = {"version": str(made)}
    messages.success(request, (_("%(version)s is made.") if is_new else _("%(version)s says that already.")) % words)
    return _to_launch(made, {**place, "gpu": request.POST.getlist("gpu")})


def _proposed(
    checks: Sequence[Mapping[str, Any]], diagnosed: Sequence[Mapping[str, Any]], post: QueryDict
) -> Mapping[str, Any]:
    """Proposal number `fix` of the check `check`, or of the diagnosis without one. Raises NotFound."""
    code, number = post.get("check", ""), post.get("fix", "")
    found = next((check["fixes"] for check in checks if check["code"] == code), []) if code else diagnosed
    if not number.isdecimal() or len(number) > 3 or int(number) >= len(found):
        raise NotFound(_("This proposal is not there any more."), remedy=_("Run the check again."))
    return dict(found[int(number)])


def _changed(
    request: HttpRequest, version: ConfigVersion, fix: Mapping[str, Any], *, because: str, actor: str
) -> ConfigVersion:
    note = _("%(fix)s, proposed by %(because)s") % {"fix": fix["label"], "because": because}
    values = {(edit["section"], edit["key"]): edit["value"] for edit in (fix, *fix.get("also", ()))}
    made, is_new = change_version(version=version, values=values, note=note, actor=actor)
    words = {"version": str(made), "fix": fix["label"]}
    if is_new:
        messages.success(request, _("%(version)s is made: %(fix)s.") % words)
    else:
        messages.info(request, _("%(version)s says that already.") % words)
    return made


def _to_launch(version: ConfigVersion, place: Mapping[str, Any]) -> HttpResponse:
    query = QueryDict(mutable=True)
    query["version"] = str(version.pk)
    for name, value in place.items():
        if isinstance(value, list):
            query.setlist(name, value)
        elif value:
            query[name] = value
    return redirect(f"{reverse('fleet:launch')}?{query.urlencode()}")
