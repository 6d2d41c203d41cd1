"""One step for one instance: look, have the lifecycle decide, act. And how soon the next.

The steps of an instance follow each other as messages, each sent when the one before is done. `step_due_at` says when
the next is planned: a message that comes before that belongs to a second chain and ends it. When the chain breaks (a
lost message, a killed worker), the tick finds the overdue step.
"""

import logging
import time
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.core import leases
from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostError, HostRefused
from controlplane.fleet.domain.lifecycle import Seen
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.reconcile.acting import NEARLY_S, RETRY_S, pursue
from controlplane.fleet.reconcile.attempts import current_attempt
from controlplane.fleet.reconcile.logs import copy_log
from controlplane.fleet.reconcile.looking import Sighting, look

logger = logging.getLogger(__name__)

LEASE_S = 120.0
"""Longer than the longest step: preflight and start, or a stop that drains and kills."""
HERE_AT_MOST_S = 5.0
"""A start in its last seconds holds one of the worker's threads for so long, then lets others through."""
EARLY = timedelta(seconds=0.05)


def advance(instance_id: int, *, here_at_most_s: float = HERE_AT_MOST_S) -> float | None:
    """Take the next steps of an instance; returns in how many seconds it wants another, None when the tick will do.

    Waits that are too short for a message are waited here, for a while: a worker's clock ticks once a second (kombu's
    hub wakes no sooner for a countdown), and the last seconds of a start are what a launch may cost too much.
    """
    until = time.monotonic() + here_at_most_s
    while (wait_s := _advance(instance_id)) is not None and wait_s <= NEARLY_S and time.monotonic() < until:
        time.sleep(wait_s)
    return wait_s


def _advance(instance_id: int) -> float | None:
    with leases.held(lease_name(instance_id), for_s=LEASE_S) as mine:
        if not mine:
            return None  # somebody is at it; what they leave undone the tick finds
        instance = whole().filter(pk=instance_id).first()
        if instance is None:
            return None
        if instance.step_due_at and instance.step_due_at > timezone.now() + EARLY:
            return None  # another message is on its way: two chains of messages become one
        wait_s = _step(instance)
        due_at = None if wait_s is None else timezone.now() + timedelta(seconds=wait_s)
        Instance.objects.filter(pk=instance_id).update(step_due_at=due_at)
        return wait_s


def lease_name(instance_id: int) -> str:
    return f"instance-{instance_id}"


def whole() -> QuerySet[Instance]:
    """Instances with what every step reads. What few of them read (a key, the engine's options) is read when it is
    needed: with all of it, Postgres spent 4 ms on eight joins, and 0.7 ms on these."""
    return Instance.objects.select_related("host", "engine", "config_version")


def _step(instance: Instance) -> float | None:
    attempt = current_attempt(instance)
    try:
        sighting = look(instance, attempt)
        _note_look(instance, sighting)
        if instance.state == State.STARTING and attempt is not None:
            _read_startup(instance, attempt)
        return pursue(instance, attempt, sighting)
    except HostError as error:  # in the middle of a step: the next one looks again
        logger.warning("%s: %s", instance.name, error.message)
    except Problem as problem:  # for example a host key that nobody has pinned yet
        logger.warning("%s: %s", instance.name, problem.sentence)
    return RETRY_S


def _note_look(instance: Instance, sighting: Sighting) -> None:
    if sighting.observation.seen is Seen.SILENT:
        Instance.objects.filter(pk=instance.pk, is_host_silent=False).update(is_host_silent=True)
        return
    resident_bytes = sighting.launch.get("rss_bytes") or None
    Instance.objects.filter(pk=instance.pk).update(
        observed_at=timezone.now(), is_host_silent=False, resident_bytes=resident_bytes
    )


def _read_startup(instance: Instance, attempt: Attempt) -> None:
    """What the log has said since the last look: the page shows the steps, the instance keeps the figures."""
    try:
        facts = copy_log(attempt)
    except HostRefused:  # no such launch: what the look says about that counts
        return
    Instance.objects.filter(pk=instance.pk).update(
        measured_kv_tokens=facts.kv_cache_tokens,
        max_concurrency=facts.max_concurrency,
        weights_bytes=facts.weights_bytes,
    )
