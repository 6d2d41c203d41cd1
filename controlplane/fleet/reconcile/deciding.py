"""Asking the lifecycle for the one next step: the database's half of what it wants to know."""

from datetime import datetime

from django.conf import settings

from controlplane.fleet.domain import lifecycle
from controlplane.fleet.domain.lifecycle import Limits, Observation, Record, Step
from controlplane.fleet.models import Attempt, Instance


def decide(instance: Instance, attempt: Attempt | None, seen: Observation, now: datetime) -> Step:
    """What to do next about `instance`, of which `attempt` is the newest."""
    return lifecycle.next_step(
        desired=lifecycle.Desired(instance.desired),
        record=record_of(instance, attempt),
        observation=seen,
        now=now,
        limits=limits_of(instance),
    )


def record_of(instance: Instance, attempt: Attempt | None) -> Record:
    state = lifecycle.State(instance.state)
    if attempt is None:
        return Record(state, since=instance.state_since, failed_starts=instance.failed_starts)
    return Record(
        state,
        since=instance.state_since,
        attempt_started_at=attempt.launched_at,
        has_served=attempt.ready_at is not None,
        served_since=attempt.ready_at,
        failed_starts=instance.failed_starts,
        unanswered_probes=instance.unanswered_probes,
        is_kill_sent=attempt.is_kill_sent,
        is_given_up=attempt.given_up_after_s is not None,
    )


def limits_of(instance: Instance) -> Limits:
    """What a person launched is theirs to launch again; what an environment wants is started again by itself."""
    launch_timeout_s = settings.LAUNCH_TIMEOUT_S
    if instance.deployment_id is None:
        return Limits(launch_timeout_s=launch_timeout_s, restarts=False, failed_starts=1)
    return Limits(launch_timeout_s=launch_timeout_s)
