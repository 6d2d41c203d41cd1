"""From pending to a process, and from a process to ready. Everything is written down before the host is asked."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import dispatch
from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostRefused
from controlplane.fleet.domain.json_forms import fixes_as_json
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.reconcile.attempts import close, open_attempt
from controlplane.fleet.reconcile.command import command_of
from controlplane.fleet.reconcile.preflight import check_launch
from controlplane.fleet.services.keys import key_of, seal_key
from controlplane.fleet.services.smoking import DEFAULT_PROMPT, asked
from controlplane.fleet.services.states import move
from controlplane.inventory.models import Engine
from controlplane.inventory.services import call_host

START_TIMEOUT_S = 45.0
CPU_ENGINE_NICE = 10
"""A CPU engine takes every core there is; whatever else must run beside it (the host program, sshd, the load generator)
would come late by seconds (docs/explain/benchmarking.md). Alone on its cores it loses nothing by it."""
KEPT_OF_RUN = ("boot_id", "pid", "pgid", "start_ticks", "keeper_pid", "started_at")


def begin(instance: Instance) -> None:
    """Check, then start the process. A failed check refuses the launch before anything runs, unless it is overridden.

    Asked again after a worker died half-way, it starts the same launch with the same words: attempt, nonce, command and
    key are in the database before the host hears of them. Raises HostError when the host does not answer.
    """
    attempt = open_attempt(instance)
    if not attempt.preflight and not _is_cleared(instance, attempt):
        return
    try:
        if not attempt.argv:
            _remember_command(instance, attempt)
        launch = call_host(instance.host, "start", _start_request(instance, attempt), timeout_s=START_TIMEOUT_S)
    except HostRefused as refusal:
        _refuse(instance, attempt, code=refusal.code, sentence=refusal.message, remedy=refusal.remedy)
    except Problem as problem:  # no command line for this engine, or no such secret
        _refuse(instance, attempt, code=problem.code, sentence=problem.sentence, remedy=problem.remedy)
    else:
        note_start(attempt, launch)
        move(instance, State.STARTING, reason=_("The process is started; it loads the model."), attempt=attempt)


def note_start(attempt: Attempt, launch: Mapping[str, Any]) -> None:
    """Keep the identity of the process: boot id, pid, start time; the nonce is there already."""
    run = launch.get("run") or {}
    attempt.process = {**attempt.process, **{name: run.get(name) for name in KEPT_OF_RUN}}
    attempt.launched_at = timezone.now()
    attempt.save(update_fields=["process", "launched_at"])


def become_ready(instance: Instance, attempt: Attempt) -> None:
    """It answered: note how long it took and, the first time, ask the smoke question."""
    now = timezone.now()
    is_first = attempt.ready_at is None
    fields: dict[str, Any] = {"unanswered_probes": 0}
    if is_first:
        fields |= {"ready_s": (now - attempt.started_at).total_seconds(), "smoke": asked(DEFAULT_PROMPT)}
        Attempt.objects.filter(pk=attempt.pk).update(ready_at=now)
        attempt.ready_at = now
    reason = _("It answered a one-token request.")
    if move(instance, State.READY, reason=reason, attempt=attempt, **fields) and is_first:
        dispatch.after_commit("fleet.smoke", instance_id=instance.pk, prompt=DEFAULT_PROMPT)


def _is_cleared(instance: Instance, attempt: Attempt) -> bool:
    """Run the checks and keep them; False when one refused the launch."""
    report = check_launch(instance)
    attempt.preflight = report.as_json()
    attempt.save(update_fields=["preflight"])
    instance.predicted_kv_tokens = report.predicted_kv_tokens
    instance.save(update_fields=["predicted_kv_tokens"])
    refusal = report.refusal
    if refusal is None or instance.override_reason:
        return True
    fixes = fixes_as_json(refusal.fixes)
    _refuse(instance, attempt, code=refusal.code, sentence=refusal.sentence, remedy=refusal.remedy, fixes=fixes)
    return False


def _remember_command(instance: Instance, attempt: Attempt) -> None:
    command = command_of(instance)
    attempt.argv, attempt.injected, attempt.environment = command.argv, command.injected, command.env
    attempt.save(update_fields=["argv", "injected", "environment"])
    instance.sealed_key = seal_key(instance, command.api_key)
    instance.save(update_fields=["sealed_key"])


def _start_request(instance: Instance, attempt: Attempt) -> dict[str, Any]:
    return {
        "launch_id": attempt.launch_id,
        "nonce": attempt.process["nonce"],
        "argv": attempt.argv,
        "kind": "engine",
        "env": attempt.environment,
        "secret_env": {"VLLM_API_KEY": key_of(instance)},
        "ports": [instance.port],
        "nice": CPU_ENGINE_NICE if instance.engine.device == Engine.Device.CPU else 0,
    }


def _refuse(instance: Instance, attempt: Attempt, *, code: str, sentence: str, remedy: str, fixes: Any = ()) -> None:
    """Nothing runs; trying again by itself would change nothing."""
    found = {"failure_code": code, "failure": sentence, "remedy": remedy, "fixes": list(fixes)}
    close(instance, attempt, State.FAILED, outcome=Attempt.Outcome.REFUSED, reason=sentence, attempt_fields=found)
