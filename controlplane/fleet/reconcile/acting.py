"""Carrying out the lifecycle's decision. Nothing is decided here.

An act that looked at the host again (a stop, a question) brings a new observation, and the lifecycle is asked once
more: a stop that left nothing is written down at once, one that left something is not repeated in the same breath.
"""

import logging
from dataclasses import replace

from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.fleet.domain import log_reading
from controlplane.fleet.domain.lifecycle import Act, Observation, Seen, Step
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.reconcile import engine_http
from controlplane.fleet.reconcile.attempts import end_attempt
from controlplane.fleet.reconcile.deciding import decide, limits_of
from controlplane.fleet.reconcile.ending import stop_and_look
from controlplane.fleet.reconcile.looking import Sighting
from controlplane.fleet.reconcile.starting import become_ready, begin, note_start
from controlplane.fleet.services.states import move
from controlplane.inventory.queries import is_blind

logger = logging.getLogger(__name__)

SOON_S = 0.5
"""How soon a starting instance is looked at again."""
NEARLY_S = 0.1
"""The same for its last seconds: this bounds what readiness costs on top of the engine's own start."""
RETRY_S = 5.0
"""How soon a silent host, or what will not die, is looked at again."""


def pursue(instance: Instance, attempt: Attempt | None, sighting: Sighting) -> float | None:
    """Decide and act on one look; returns in how many seconds the next is wanted, None when the tick will do."""
    step = decide(instance, attempt, sighting.observation, timezone.now())
    learned = _act(instance, attempt, step, sighting)
    if learned is not None:
        sighting = replace(sighting, observation=learned)
        step = decide(instance, attempt, learned, timezone.now())
        if step.act in {Act.NOTE, Act.WAIT}:
            _act(instance, attempt, step, sighting)
    return _next_look_s(instance, attempt, step)


def _act(instance: Instance, attempt: Attempt | None, step: Step, sighting: Sighting) -> Observation | None:
    """Do one thing; returns what it taught about the launch, when it looked."""
    if step.is_alarm:
        logger.warning("%s: %s %s", instance.name, step.reason, step.pids or "")
    match step.act:
        case Act.START if not _is_frozen(instance):
            begin(instance)
        case Act.NOTE:
            _note(instance, attempt, step, sighting)
        case Act.PROBE if attempt is not None and instance.state == State.STARTING:
            if engine_http.is_worth_asking(attempt, timezone.now()):
                return replace(sighting.observation, answers=engine_http.one_token(instance).is_ok)
        case Act.STOP | Act.KILL if attempt is not None and not _is_frozen(instance):
            return _end_processes(instance, attempt, step)
    return None


def _end_processes(instance: Instance, attempt: Attempt, step: Step) -> Observation:
    if step.state is not None:
        _note(instance, attempt, step, Sighting(Observation(Seen.RUNNING)))
    changes: dict[str, object] = {}
    if step.gives_up:
        limits = limits_of(instance)
        changes["given_up_after_s"] = (
            limits.recover_timeout_s if attempt.ready_at is not None else limits.launch_timeout_s
        )
    if step.act is Act.KILL:
        changes["is_kill_sent"] = True
    if changes:
        Attempt.objects.filter(pk=attempt.pk).update(**changes)
        for name, value in changes.items():
            setattr(attempt, name, value)
    return stop_and_look(instance, attempt, is_kill=step.act is Act.KILL)


def _note(instance: Instance, attempt: Attempt | None, step: Step, sighting: Sighting) -> None:
    """Write down what was decided. The outcome of an attempt that ended brings its diagnosis."""
    if step.state is None:
        return
    after = State(step.state.value)
    is_open = attempt is not None and attempt.outcome == Attempt.Outcome.RUNNING
    if step.reason == "found_running" and attempt is not None and attempt.launched_at is None:
        note_start(attempt, sighting.launch)
    if after == State.READY and attempt is not None:
        become_ready(instance, attempt)
    elif is_open and attempt is not None and (step.outcome or after in {State.STOPPED, State.FAILED}):
        end_attempt(instance, attempt, after, step, sighting)
    else:
        move(instance, after, reason=_reason(step, after), attempt=attempt, unanswered_probes=0)


def _reason(step: Step, after: State) -> str:
    if after == State.STOPPED:
        return _("Nothing of it is left.")
    return _REASONS[step.reason]()


def _is_frozen(instance: Instance) -> bool:
    """When many hosts fall silent at once, we are the likelier fault: nothing is started, stopped or killed that no
    person asked for."""
    is_asked_for = instance.desired == Instance.Desired.STOPPED or instance.deployment_id is None
    return not is_asked_for and is_blind(timezone.now())


def _next_look_s(instance: Instance, attempt: Attempt | None, step: Step) -> float | None:
    if instance.state == State.STARTING and step.reason != "host_silent":
        return NEARLY_S if attempt is not None and log_reading.is_nearly_up(attempt.startup) else SOON_S
    if instance.state in {State.PENDING, State.STARTING, State.DRAINING}:
        return RETRY_S
    if instance.state == State.FAILED and step.act is Act.KILL:
        return RETRY_S
    return SOON_S if step.reason == "being_cleared_away" else None


_REASONS = {
    "found_running": lambda: _("Its process was found running."),
    "not_wanted": lambda: _("Open requests are finished, then the process is stopped."),
    "too_many_failed_starts": lambda: _("It failed to start several times in a row; a person must look."),
    "no_progress": lambda: _("Requests run, but no token comes: it is watched, and killed when that lasts."),
    "does_not_answer": lambda: _("It does not answer any more: it is watched, and killed when that lasts."),
    "wanted": lambda: _("It is wanted again."),
    "will_not_die": lambda: _("Something of it cannot be killed."),
    # Of an instance whose attempts are gone there is nothing to diagnose.
    **dict.fromkeys(
        ("lost", "crashed", "start_failed", "timed_out"),
        lambda: _("Its process is gone, and nothing is known of its end."),
    ),
}
