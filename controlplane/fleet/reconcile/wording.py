"""Sentences about stops, for people."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

LONGEST_COMMAND = 60


def stop_sentence(report: Mapping[str, Any]) -> str:
    """What a stop did, or could not do (protocol.launches.StopReport as JSON; {}: nothing had been started)."""
    if not report:
        return _("Stopped before it was started.")
    if not report["is_gone"]:
        return what_is_left(report)
    took = _("Stopped in %(seconds).1f s; no process, port or GPU memory of it is left.") % {
        "seconds": report["took_s"]
    }
    count = len(report.get("killed") or [])
    if not count:
        return took
    killed = ngettext("%(count)d process had to be killed.", "%(count)d processes had to be killed.", count)
    return f"{took} {killed % {'count': count}}"


def what_is_left(report: Mapping[str, Any]) -> str:
    """What still stands in the way of "stopped"."""
    alive = ", ".join(
        f"{process['pid']} ({' '.join(process['command'])[:LONGEST_COMMAND]})" for process in report["still_alive"]
    )
    ports = ", ".join(str(holder["port"]) for holder in report.get("ports_held") or [])
    gpus = ", ".join(str(pid) for pid in report.get("gpu_pids_held") or [])
    parts = [
        _("processes %(list)s") % {"list": alive} if alive else "",
        _("port %(list)s") % {"list": ports} if ports else "",
        _("GPU memory of processes %(list)s") % {"list": gpus} if gpus else "",
    ]
    return _("Not stopped yet; still there: %(what)s.") % {"what": "; ".join(part for part in parts if part)}
