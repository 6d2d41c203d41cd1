"""Attempts: what one try at launching did, and its log."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from controlplane.core.listing import template_of
from controlplane.fleet import queries
from controlplane.fleet.models import Attempt
from controlplane.fleet.reconcile.logs import log_text
from controlplane.fleet.views.commands import lines_of
from controlplane.fleet.views.story import counted, is_refused_by_check, story

KEPT_LINES = 5000
"""As many lines as the viewer keeps (static/js/log.js); an answer never brings more."""
BEFORE_MARK = 200
"""How much of the log stands before the line that a link asks for."""
MOST = 2**31 - 2
SHOWN_PROCESS = ("boot_id", "pid", "pgid", "start_ticks", "keeper_pid")


@require_GET
def attempt_detail(request: HttpRequest, attempt_id: int) -> HttpResponse:
    """One attempt; with `?line=` its log begins shortly before that line, which is marked."""
    attempt = _attempt(attempt_id)
    instance = attempt.instance
    context = {
        "instance": instance,
        **attempt_context(attempt, is_newest=False, line=_whole(request.GET.get("line"))),
        "is_moving": attempt.outcome == Attempt.Outcome.RUNNING,
    }
    return render(request, template_of(request, "fleet/attempt_detail.html", "live"), context)


@require_GET
def attempt_log(request: HttpRequest, attempt_id: int) -> HttpResponse:
    """The lines after `?after=`, and where to ask for the next; 204 when nothing came, an end when none will come."""
    attempt = get_object_or_404(Attempt.objects.only("outcome", "ready_at", "log_bytes"), pk=attempt_id)
    is_over = attempt.outcome != Attempt.Outcome.RUNNING  # read before the lines: then none can be missed
    page = queries.log_lines(attempt, after_line=_whole(request.GET.get("after")), limit=KEPT_LINES)
    if not page.lines and not is_over:
        return HttpResponse(status=204)
    mark = _whole(request.GET.get("mark"))
    context = {
        "attempt": attempt,
        "lines": page.lines,
        "mark": mark,
        "next_url": "" if is_over and page.is_end else log_url(attempt, page.last_line),
        "trigger": _pace(attempt, has_more=not page.is_end),
    }
    return render(request, "fleet/parts/log_chunk.html", context)


@require_GET
def attempt_log_download(request: HttpRequest, attempt_id: int) -> HttpResponse:
    """Everything that was copied of the log, as the engine wrote it, without keys."""
    attempt = get_object_or_404(
        Attempt.objects.select_related("instance").only("number", "instance__name"), pk=attempt_id
    )
    name = f"{attempt.instance.name}-attempt-{attempt.number}.log"
    return HttpResponse(
        log_text(attempt),
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def attempt_context(attempt: Attempt | None, *, is_newest: bool, line: int = 0) -> dict[str, Any]:
    """What the parts of a page say about an attempt: story, checks, command, identity, where its log begins."""
    if attempt is None:
        return {"attempt": None}
    start = max(0, line - BEFORE_MARK) if line else max(0, queries.last_line_number(attempt) - KEPT_LINES)
    mark = line or (attempt.failure_line_number or 0)
    return {
        "attempt": attempt,
        "is_newest": is_newest,
        "steps": story(attempt.instance, attempt, now=timezone.now(), is_newest=is_newest),
        "checks_line": counted(attempt.preflight),
        "is_refused_by_check": is_refused_by_check(attempt),
        "command": lines_of(attempt.argv, attempt.injected),
        "identity": {name: attempt.process[name] for name in SHOWN_PROCESS if attempt.process.get(name) is not None},
        "left": _left(attempt),
        "log_url": log_url(attempt, start, mark=mark),
        "next_number": queries.newest_number(attempt.instance.config_version.config_id) + 1,
    }


def _left(attempt: Attempt) -> list[dict[str, Any]]:
    """Processes that outlived the main one, or that the last stop could not end: pid, command, what became of them."""
    report = attempt.stop_report
    is_gone = report.get("is_gone", True)
    alive = [] if is_gone else [{**process, "fate": _("still there")} for process in report.get("still_alive", [])]
    ended = [
        {**process, "fate": _("removed with %(signal)s") % {"signal": process.get("signal") or "SIGKILL"}}
        for process in attempt.leftovers
    ]
    return [{**process, "command": " ".join(process.get("command") or [])} for process in (*alive, *ended)]


def log_url(attempt: Attempt, after: int, *, mark: int = 0) -> str:
    marked = f"&mark={mark}" if mark else ""
    return f"{reverse('fleet:attempt_log', args=[attempt.pk])}?after={after}{marked}"


def _pace(attempt: Attempt, *, has_more: bool) -> str:
    """How the viewer asks on: at once for the rest of a long log, each second while it starts, seldom later."""
    if has_more:
        return "load, every 1s"
    return "every 3s" if attempt.ready_at else "every 1s"


def _attempt(attempt_id: int) -> Attempt:
    get_object_or_404(Attempt.objects.only("pk"), pk=attempt_id)
    return queries.attempt_detail(attempt_id)


def _whole(text: str | None) -> int:
    """A line number out of the address; nonsense means from the beginning."""
    return min(int(text), MOST) if text and text.isdecimal() and len(text) <= len(str(MOST)) else 0
