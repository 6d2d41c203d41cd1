"""Attempts: opening one, and closing it with its reason."""

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from controlplane.drivers.errors import HostRefused
from controlplane.fleet.domain import diagnosis
from controlplane.fleet.domain.diagnosis import Diagnosis
from controlplane.fleet.domain.json_forms import fixes_as_json
from controlplane.fleet.domain.lifecycle import Outcome, Step
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.reconcile.gpus import gpus_as_probed
from controlplane.fleet.reconcile.logs import copy_log, log_text
from controlplane.fleet.reconcile.looking import Sighting
from controlplane.fleet.reconcile.wording import stop_sentence
from controlplane.fleet.services.states import move

logger = logging.getLogger(__name__)

_OUTCOMES = {
    Outcome.STOPPED: Attempt.Outcome.STOPPED,
    Outcome.CRASHED: Attempt.Outcome.CRASHED,
    Outcome.START_FAILED: Attempt.Outcome.FAILED,
    Outcome.TIMED_OUT: Attempt.Outcome.FAILED,
    Outcome.LOST: Attempt.Outcome.LOST,
}


def open_attempt(instance: Instance) -> Attempt:
    """The attempt that is under way, or a new one.

    Its launch id and nonce are kept before anything is started, so that a worker that dies in between is followed by
    one that asks for the same launch again.
    """
    with transaction.atomic():
        Instance.objects.select_for_update().get(pk=instance.pk)
        going = current_attempt(instance)
        if going is not None and going.outcome == Attempt.Outcome.RUNNING:
            return going
        number = (instance.attempts.aggregate(last=Max("number"))["last"] or 0) + 1
        return Attempt.objects.create(
            instance=instance,
            number=number,
            launch_id=f"i{instance.pk}-{number}-{secrets.token_hex(4)}",
            process={"nonce": secrets.token_urlsafe(24)},
        )


def current_attempt(instance: Instance) -> Attempt | None:
    """The newest attempt, with `instance` at hand (its host, engine and version already read)."""
    attempt = instance.attempts.order_by("-number").first()
    if attempt is not None:
        attempt.instance = instance
    return attempt


def end_attempt(instance: Instance, attempt: Attempt, after: State, step: Step, sighting: Sighting) -> bool:
    """Close the attempt as the step says and take the instance to `after`; False when another worker was first.

    An end that nobody asked for is explained: the earliest telling line of the log, a sentence, the change to make.
    """
    outcome = step.outcome or Outcome.STOPPED
    _copy_rest_of_log(attempt)
    found = None if outcome is Outcome.STOPPED else _explain(instance, attempt, sighting)
    return close(
        instance,
        attempt,
        after,
        outcome=_OUTCOMES[outcome],
        reason=found.sentence if found else stop_sentence(attempt.stop_report),
        attempt_fields={**_end_of(attempt, sighting), **(_findings(found) if found else {})},
        failed_starts=instance.failed_starts + 1 if step.counts_as_failed_start else 0,
    )


def close(
    instance: Instance,
    attempt: Attempt,
    after: State,
    *,
    outcome: Attempt.Outcome,
    reason: str,
    attempt_fields: Mapping[str, Any],
    **instance_fields: Any,
) -> bool:
    """End the attempt and take the instance to its next state, together."""
    with transaction.atomic():
        won = move(
            instance,
            after,
            reason=reason,
            attempt=attempt,
            is_host_silent=False,
            metrics={},
            unanswered_probes=0,
            **instance_fields,
        )
        if won:
            Attempt.objects.filter(pk=attempt.pk).update(outcome=outcome, ended_at=timezone.now(), **attempt_fields)
            attempt.outcome = outcome
    return won


def _copy_rest_of_log(attempt: Attempt) -> None:
    try:
        copy_log(attempt, is_over=True)
    except HostRefused as refusal:  # the host has no such launch (any more): what was copied is all there is
        logger.info("%s: %s", attempt.launch_id, refusal.message)


def _explain(instance: Instance, attempt: Attempt, sighting: Sighting) -> Diagnosis:
    code = sighting.exit.get("rc")
    return diagnosis.explain(
        log_text=log_text(attempt),
        exit_code=code if code is not None else diagnosis.exit_code_of_signal(sighting.exit.get("signal")),
        stop_requested=False,
        content=instance.config_version.content,
        gpus=gpus_as_probed(instance.host, without_nonce=attempt.process.get("nonce")),
        timed_out_after_s=attempt.given_up_after_s,
    )


def _findings(found: Diagnosis) -> dict[str, Any]:
    return {
        "failure_code": found.code,
        "failure": found.sentence,
        "failure_line": found.evidence_line,
        "failure_line_number": found.line_number,
        "remedy": found.remedy,
        "fixes": fixes_as_json(found.fixes),
    }


def _end_of(attempt: Attempt, sighting: Sighting) -> dict[str, Any]:
    """Exit code and leftovers from whoever saw the end: the keeper's record, else our stop's report."""
    report = attempt.stop_report
    record = sighting.exit or report.get("exit") or {}
    killed = [{**_named(process), "signal": "SIGKILL"} for process in report.get("killed") or []]
    return {
        "exit_code": record.get("rc"),
        "exit_signal": record.get("signal") or "",
        "leftovers": [*(record.get("leftovers") or []), *killed],
    }


def _named(process: Mapping[str, Any]) -> dict[str, Any]:
    return {"pid": process["pid"], "command": process.get("command") or []}
