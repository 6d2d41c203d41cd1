"""What a state looks like: a tone (colour), a shape, and a word. Colour never stands alone."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

# Each shape is the inside of a 12 × 12 SVG, drawn with currentColor, so the tone's class colours it.
_LINE = 'fill="none" stroke="currentColor" stroke-width="1.5"'
_BOLD = 'fill="none" stroke="currentColor" stroke-width="2"'
SHAPES = {
    "disc": '<circle cx="6" cy="6" r="4.5" fill="currentColor"/>',
    "ring": f'<circle cx="6" cy="6" r="3.75" {_LINE}/>',
    "dashed": f'<circle cx="6" cy="6" r="3.75" {_LINE} stroke-dasharray="2 2"/>',
    "arc": f'<path class="state-spin" d="M6 1.75A4.25 4.25 0 1 1 1.75 6" {_BOLD}/>',
    "half": f'<circle cx="6" cy="6" r="3.75" {_LINE}/><path d="M6 2.25a3.75 3.75 0 0 1 0 7.5z" fill="currentColor"/>',
    "square": f'<rect x="2" y="2" width="8" height="8" {_LINE}/>',
    "cross": f'<path d="M2.5 2.5l7 7m0-7l-7 7" {_BOLD}/>',
    "triangle": f'<path d="M6 1.5L11 10.5H1z" {_LINE} stroke-linejoin="round"/>',
    "check": f'<path d="M1.75 6.5l3 3 5.5-7" {_BOLD}/>',
    "slash": f'<circle cx="6" cy="6" r="3.75" {_LINE}/><path d="M3.4 8.6l5.2-5.2" {_LINE}/>',
    "diamond": '<path d="M6 1l5 5-5 5-5-5z" fill="currentColor"/>',
}
TONES = ("ok", "work", "warn", "bad", "idle")


@dataclass(frozen=True, slots=True)
class Look:
    tone: str
    shape: str
    word: str | Promise


LOOKS = {
    # instances and attempts
    "pending": Look("idle", "ring", _("pending")),
    "starting": Look("work", "arc", _("starting")),
    "ready": Look("ok", "disc", _("ready")),
    "draining": Look("warn", "half", _("draining")),
    "stopping": Look("warn", "half", _("stopping")),
    "stopped": Look("idle", "square", _("stopped")),
    "failed": Look("bad", "cross", _("failed")),
    "crashed": Look("bad", "cross", _("crashed")),
    "lost": Look("bad", "dashed", _("lost")),
    # jobs: runs, probes, promotions, rollouts
    "queued": Look("idle", "ring", _("queued")),
    "waiting": Look("idle", "ring", _("waiting")),
    "running": Look("work", "arc", _("running")),
    "finished": Look("ok", "check", _("finished")),
    "succeeded": Look("ok", "check", _("succeeded")),
    "done": Look("ok", "check", _("done")),
    "cancelling": Look("warn", "half", _("cancelling")),
    "cancelled": Look("idle", "slash", _("cancelled")),
    "skipped": Look("idle", "slash", _("skipped")),
    "invalid": Look("bad", "triangle", _("invalid")),
    # hosts and engines
    "reachable": Look("ok", "disc", _("reachable")),
    "unreachable": Look("bad", "cross", _("unreachable")),
    "probing": Look("work", "arc", _("probing")),
    "unprobed": Look("idle", "dashed", _("not probed")),
    "degraded": Look("warn", "triangle", _("degraded")),
    "refused": Look("bad", "slash", _("refused")),
    # checks and evidence
    "passed": Look("ok", "check", _("passed")),
    "warning": Look("warn", "triangle", _("warning")),
    "valid": Look("ok", "check", _("valid")),
    "stale": Look("warn", "triangle", _("stale")),
    "drifted": Look("warn", "triangle", _("drifted")),
    # environments
    "live": Look("ok", "disc", _("live")),
    "retired": Look("idle", "square", _("retired")),
    "rolling": Look("work", "arc", _("rolling out")),
    "open": Look("warn", "diamond", _("open")),
    "resolved": Look("ok", "check", _("resolved")),
    # verdicts
    "better": Look("ok", "check", _("better")),
    "worse": Look("bad", "cross", _("worse")),
    "no difference": Look("idle", "ring", _("no difference")),
    "cannot tell": Look("idle", "dashed", _("cannot tell")),
    "unknown": Look("idle", "dashed", _("unknown")),
}


def look_of(state: str) -> Look:
    """How `state` looks. A state nobody described keeps its own word, with the dashed ring of the unknown."""
    return LOOKS.get(state) or Look("idle", "dashed", state or LOOKS["unknown"].word)
