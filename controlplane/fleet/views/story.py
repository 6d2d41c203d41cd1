"""The story of a launch: its steps in order, each with its state, time and one line. A pure reading of the rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.core.templatetags import formats
from controlplane.fleet.domain.log_reading import GRAPHS, KV_CACHE, LISTENING, STEP_ORDER, WEIGHTS
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.reconcile.wording import stop_sentence

PREFLIGHT, PROCESS, FIRST_TOKEN, SMOKE, END = "preflight", "process", "first_token", "smoke", "end"
Outcome = Attempt.Outcome


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `state`: done, running, waiting, warning, skipped, stopped or failed (words of core's states).
    `seconds`: how long it took, or has taken so far."""

    key: str
    name: str
    state: str = "waiting"
    summary: str = ""
    seconds: float | None = None


def story(instance: Instance, attempt: Attempt | None, *, now: datetime, is_newest: bool = True) -> list[Step]:
    """The steps of `attempt`; None: nobody has begun yet. What the instance itself knows (the smoke answer, what is
    left of it) belongs to its newest attempt only."""
    if attempt is None:
        first, *rest = (Step(key, name) for key, name in _names())
        return [replace(first, state="running" if instance.is_live else "skipped"), *rest]
    steps = list(_told(instance, attempt, _ways(attempt), now))
    if is_newest:
        steps.append(_smoke(instance, attempt))
    return [*steps, *_end(instance, attempt, is_newest=is_newest)]


def _names() -> tuple[tuple[str, str], ...]:
    return (
        (PREFLIGHT, _("Preflight")),
        (PROCESS, _("Process started")),
        (WEIGHTS, _("Weights loaded")),
        (KV_CACHE, _("KV cache")),
        (GRAPHS, _("Graphs")),
        (LISTENING, _("Listening")),
        (FIRST_TOKEN, _("First token")),
    )


def _ways(attempt: Attempt) -> list[bool]:
    """Which steps are behind it, in order. Whatever comes before a step that was reached was passed, too."""
    seen = {step["name"] for step in attempt.startup.get("steps", [])}
    reached = [
        bool(attempt.preflight) and not is_refused_by_check(attempt),
        attempt.launched_at is not None,
        *(name in seen for name in STEP_ORDER[1:]),
        attempt.ready_at is not None,
    ]
    return [any(reached[place:]) for place in range(len(reached))]


def _told(instance: Instance, attempt: Attempt, done: Sequence[bool], now: datetime) -> Iterator[Step]:
    took = _durations(attempt)
    current = done.index(False) if False in done else None
    for place, (key, name) in enumerate(_names()):
        step = Step(key, name, seconds=took.get(key))
        if done[place]:
            yield _finished(step, instance, attempt)
        elif key == GRAPHS and attempt.startup.get("is_eager") and current == place and _is_going(instance, attempt):
            yield replace(step, state="skipped", summary=_("Eager: none are captured."))
            current = place + 1
        elif place == current:
            yield _unfinished(step, instance, attempt, now)
        else:
            yield replace(step, state="waiting" if _is_going(instance, attempt) else "skipped")


def _is_going(instance: Instance, attempt: Attempt) -> bool:
    return attempt.outcome == Outcome.RUNNING and instance.state in {State.PENDING, State.STARTING}


def _unfinished(step: Step, instance: Instance, attempt: Attempt, now: datetime) -> Step:
    """The first step that was not passed: it runs, or it is where the launch ended."""
    if _is_going(instance, attempt):
        return replace(step, state="running", seconds=max(0.0, (now - _last_known(attempt)).total_seconds()))
    if attempt.outcome in {Outcome.RUNNING, Outcome.STOPPED}:
        return replace(step, state="stopped", summary=_("It was stopped before this."))
    return replace(step, state="failed")


def _finished(step: Step, instance: Instance, attempt: Attempt) -> Step:
    summary = _SUMMARIES[step.key](instance, attempt)
    state = "done"
    if step.key == PREFLIGHT and failed_checks(attempt.preflight):
        state = "warning"
    elif step.key == GRAPHS and not _has_step(attempt, GRAPHS):
        state = "skipped"
    return replace(step, state=state, summary=summary)


# -- Times -----------------------------------------------------------------------------------------------------------


def _durations(attempt: Attempt) -> dict[str, float]:
    """Seconds each passed step took, by the stamps of our clock and of the log."""
    took: dict[str, float] = {}
    if begun := attempt.launched_at or attempt.ended_at:
        took[PREFLIGHT] = (begun - attempt.started_at).total_seconds()
    before = 0.0
    for step in attempt.startup.get("steps", []):
        if step["seconds"] is None:
            continue
        if step["name"] in {WEIGHTS, KV_CACHE, GRAPHS, LISTENING}:
            took[step["name"]] = max(0.0, step["seconds"] - before)
        before = step["seconds"]
    return took


def _last_known(attempt: Attempt) -> datetime:
    """Since when the running step runs: the last thing that we know was passed."""
    if attempt.launched_at is None:
        return attempt.started_at
    logged = [step["seconds"] for step in attempt.startup.get("steps", []) if step["seconds"] is not None]
    return attempt.launched_at + timedelta(seconds=logged[-1] if logged else 0)


# -- One line for each -----------------------------------------------------------------------------------------------


def failed_checks(checks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that refuse a launch."""
    return [check for check in checks if check["outcome"] == "fail"]


def is_refused_by_check(attempt: Attempt) -> bool:
    """Whether one of its checks refused it; where that was overridden, the host itself may still have."""
    codes = {check["code"] for check in failed_checks(attempt.preflight)}
    return attempt.outcome == Outcome.REFUSED and attempt.failure_code in codes


def counted(checks: Sequence[Mapping[str, Any]]) -> str:
    """ "8 passed, 1 warning, 2 skipped": only what there is."""
    count = {
        outcome: sum(check["outcome"] == outcome for check in checks) for outcome in ("pass", "fail", "warn", "skip")
    }
    parts = [
        _("%(n)d passed") % {"n": count["pass"]} if count["pass"] else "",
        _("%(n)d failed") % {"n": count["fail"]} if count["fail"] else "",
        ngettext("%(n)d warning", "%(n)d warnings", count["warn"]) % {"n": count["warn"]} if count["warn"] else "",
        _("%(n)d skipped") % {"n": count["skip"]} if count["skip"] else "",
    ]
    return ", ".join(part for part in parts if part)


def _preflight(instance: Instance, attempt: Attempt) -> str:
    return counted(attempt.preflight)


def _process(instance: Instance, attempt: Attempt) -> str:
    pid = attempt.process.get("pid")
    if pid is None:
        return _("on %(host)s") % {"host": instance.host.name}
    return _("pid %(pid)s on %(host)s") % {"pid": pid, "host": instance.host.name}


def _weights(instance: Instance, attempt: Attempt) -> str:
    size, took = attempt.startup.get("weights_bytes"), attempt.startup.get("weights_s")
    parts = [formats.binary_size(size)] if size is not None else []
    if took is not None:
        parts.append(_("read in %(time)s") % {"time": formats.seconds(took)})
    return ", ".join(parts)


def _kv_cache(instance: Instance, attempt: Attempt) -> str:
    """Measured beside predicted; the prediction is kept on the instance."""
    tokens = attempt.startup.get("kv_cache_tokens")
    if tokens is None:
        return ""
    parts = [_("%(n)s tokens measured") % {"n": formats.number(tokens)}]
    if predicted := instance.predicted_kv_tokens:
        parts.append(
            _("%(n)s predicted (%(ratio)s)")
            % {"n": formats.number(predicted), "ratio": formats.ratio(tokens / predicted)}
        )
    if (often := attempt.startup.get("max_concurrency")) is not None:
        parts.append(_("%(n)s requests of full length at once") % {"n": formats.number(often, 1)})
    return ", ".join(parts)


def _graphs(instance: Instance, attempt: Attempt) -> str:
    took, size = attempt.startup.get("graph_capture_s"), attempt.startup.get("graph_bytes")
    if not _has_step(attempt, GRAPHS):
        return _("Eager: none are captured.") if attempt.startup.get("is_eager") else _("None were captured.")
    parts = [_("captured in %(time)s") % {"time": formats.seconds(took)}] if took is not None else []
    return ", ".join([*parts, formats.binary_size(size)] if size else parts)


def _listening(instance: Instance, attempt: Attempt) -> str:
    return str(attempt.startup.get("listening_url") or "")


def _first_token(instance: Instance, attempt: Attempt) -> str:
    if attempt.ready_at is None:
        return ""
    took = (attempt.ready_at - attempt.started_at).total_seconds()
    return _("Ready %(time)s after the launch began") % {"time": formats.seconds(took)}


def _has_step(attempt: Attempt, name: str) -> bool:
    return any(step["name"] == name for step in attempt.startup.get("steps", []))


_SUMMARIES = {
    PREFLIGHT: _preflight,
    PROCESS: _process,
    WEIGHTS: _weights,
    KV_CACHE: _kv_cache,
    GRAPHS: _graphs,
    LISTENING: _listening,
    FIRST_TOKEN: _first_token,
}


# -- After it was ready ----------------------------------------------------------------------------------------------


def _smoke(instance: Instance, attempt: Attempt) -> Step:
    step = Step(SMOKE, _("Smoke answer"))
    if attempt.ready_at is None:
        return replace(step, state="waiting" if _is_going(instance, attempt) else "skipped")
    state = instance.smoke.get("state")
    if state is None:
        is_ready = instance.state == State.READY
        return replace(
            step, state="waiting" if is_ready else "skipped", summary=_("Not asked yet.") if is_ready else ""
        )
    if state == "asked" and attempt.outcome != Outcome.RUNNING:
        return replace(step, state="skipped", summary=_("It ended before it answered."))
    looks = {"asked": "running", "answered": "done", "failed": "failed"}
    return replace(step, state=looks.get(state, "waiting"))


def _end(instance: Instance, attempt: Attempt, *, is_newest: bool) -> Iterator[Step]:
    """How it stopped, or how it ended after it had served. A launch that never served ended at one of the steps."""
    if is_newest and instance.state == State.DRAINING:
        yield Step(END, _("Draining"), "running")
    elif attempt.outcome == Outcome.STOPPED:
        yield Step(END, _("Stopped"), "stopped", stop_sentence(attempt.stop_report))
    elif attempt.outcome != Outcome.RUNNING and attempt.ready_at is not None:
        yield Step(END, _("Serving"), "failed")
