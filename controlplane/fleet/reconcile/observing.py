"""The tick: one cheap look at everything that serves on a host, and the steps that a lost message left undone.

It also adopts what an earlier worker, web process or machine's network left running: nothing here remembers who started
what; the launch id does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from controlplane.core import dispatch, leases
from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostError, HostRefused, StillOpening
from controlplane.fleet.domain import serving
from controlplane.fleet.domain.drift import differences
from controlplane.fleet.models import LIVE_STATES, Attempt, Instance, Preflight, State
from controlplane.fleet.reconcile import engine_http
from controlplane.fleet.reconcile.acting import pursue
from controlplane.fleet.reconcile.advancing import LEASE_S, lease_name, whole
from controlplane.fleet.reconcile.logs import copy_log
from controlplane.fleet.reconcile.looking import Sighting, sighting_of
from controlplane.inventory.models import Host
from controlplane.inventory.services import call_host
from controlplane.protocol.engine_metrics import parse_metrics

METRICS_EVERY = timedelta(seconds=10)
METRICS_TIMEOUT_S = 5.0
LIST_TIMEOUT_S = 10.0
CONNECT_WAIT_S = 0.5
"""The next tick finds the connection open; a worker's threads are few, and some hosts may be without power."""
LIST_LEASE_S = 60.0
REST_S = 10.0
"""A host that is known not to answer is not asked at every tick."""
STEP_IS_LATE = timedelta(seconds=3)
CHECK_IS_LATE = timedelta(seconds=30)
SMOKE_IS_LATE = timedelta(minutes=2)
"""Longer than one short answer takes; asked twice does no harm."""

_SERVING = Q(state=State.READY, desired=Instance.Desired.RUNNING)


def hosts_to_observe() -> list[int]:
    """Hosts on which something serves, without those that somebody is looking at or that rest."""
    hosts = Instance.objects.filter(_SERVING).order_by().values_list("host_id", flat=True).distinct()
    taken = leases.running("observe-host-")
    return [host_id for host_id in hosts if _lease(host_id) not in taken]


def send_late_steps() -> None:
    """Steps, checks and smoke requests that are wanted and not coming: their message was lost, or the worker that had
    it died."""
    now = timezone.now()
    never_planned = Q(state__in=LIVE_STATES, step_due_at=None) & ~_SERVING
    late = Q(step_due_at__lt=now - STEP_IS_LATE)
    for instance_id in Instance.objects.filter(never_planned | late).order_by("pk").values_list("pk", flat=True):
        dispatch.after_commit("fleet.advance", instance_id=instance_id)
    unanswered_checks = Preflight.objects.filter(state=Preflight.State.QUEUED, created_at__lt=now - CHECK_IS_LATE)
    for preflight_id in unanswered_checks.order_by("pk").values_list("pk", flat=True):
        dispatch.after_commit("fleet.preflight", preflight_id=preflight_id)
    before = (now - SMOKE_IS_LATE).isoformat()
    unanswered_smoke = Instance.objects.filter(_SERVING, smoke__state="asked", smoke__asked_at__lt=before)
    for instance_id, prompt in unanswered_smoke.order_by("pk").values_list("pk", "smoke__prompt"):
        dispatch.after_commit("fleet.smoke", instance_id=instance_id, prompt=prompt)


def observe_host(host_id: int) -> None:
    """One look at what serves on a host. When it does not answer, its instances keep their state, marked as old."""
    with leases.held(_lease(host_id), for_s=LIST_LEASE_S) as mine:
        rests = mine and not _look_at(host_id)
    if rests:
        leases.take(_lease(host_id), holder="rest", for_s=REST_S)


def _lease(host_id: int) -> str:
    return f"observe-host-{host_id}"


def _look_at(host_id: int) -> bool:
    """False when it did not answer and is known for that."""
    instances = list(whole().filter(_SERVING, host_id=host_id))
    attempts = _newest_attempts(instances)
    ids = [attempt.launch_id for attempt in attempts.values()]
    if not ids:
        return True
    host = instances[0].host
    try:
        answer = call_host(host, "list", {"launch_ids": ids}, timeout_s=LIST_TIMEOUT_S, wait_s=CONNECT_WAIT_S)
    except StillOpening:
        return True
    except (HostError, Problem):  # noted on the host by call_host
        Instance.objects.filter(host_id=host_id, state__in=LIVE_STATES).update(is_host_silent=True)
        return host.state not in {Host.State.UNREACHABLE, Host.State.REFUSED}
    launches = {launch["launch_id"]: launch for launch in answer["launches"]}
    for instance in instances:
        instance.host = host  # whose key is read by now
        if attempt := attempts.get(instance.pk):
            _observe(instance, attempt, launches.get(attempt.launch_id))
    return True


def _newest_attempts(instances: Sequence[Instance]) -> dict[int, Attempt]:
    newest = Attempt.objects.filter(instance__in=instances).order_by("instance_id", "-number").distinct("instance_id")
    by_instance = {attempt.instance_id: attempt for attempt in newest}
    for instance in instances:
        if attempt := by_instance.get(instance.pk):
            attempt.instance = instance
    return by_instance


def _observe(instance: Instance, attempt: Attempt, launch: Mapping[str, Any] | None) -> None:
    """Note what was seen of one serving instance, and have the lifecycle decide whether that changes anything."""
    with leases.held(lease_name(instance.pk), for_s=LEASE_S) as mine:
        if not mine or not Instance.objects.filter(_SERVING, pk=instance.pk).exists():
            return  # somebody is at it
        sighting = sighting_of(launch)
        try:
            if launch is not None and launch["is_main_alive"]:
                sighting = _note_serving(instance, attempt, sighting, timezone.now())
            wait_s = pursue(instance, attempt, sighting)
        except HostError:  # noted on the host by call_host; the next tick looks again
            return
        if wait_s is not None and instance.state != State.READY:
            Instance.objects.filter(pk=instance.pk).update(step_due_at=None)
            dispatch.after_commit("fleet.advance", instance_id=instance.pk)


def _note_serving(instance: Instance, attempt: Attempt, sighting: Sighting, now: datetime) -> Sighting:
    """Memory and drift at every look, figures and log at every fifth; the sighting with what the figures tell."""
    launch, seen = sighting.launch, sighting.observation
    drift = differences(attempt.argv, _running_argv(launch))
    changes: dict[str, Any] = {
        "observed_at": now,
        "is_host_silent": False,
        "resident_bytes": launch["rss_bytes"] or None,
        "drift": [asdict(one) for one in drift],
    }
    if serving.is_due(instance.metrics, now, every=METRICS_EVERY):
        answer = engine_http.ask(instance, "/metrics", timeout_s=METRICS_TIMEOUT_S)
        if answer.is_ok:
            changes["metrics"] = serving.figures(instance.metrics, asdict(parse_metrics(answer.body)), now)
            changes["unanswered_probes"] = 0
            seen = replace(seen, answers=True, is_progressing=serving.is_progressing(changes["metrics"], now))
        else:
            changes["metrics"] = serving.no_figures(instance.metrics, now)
            changes["unanswered_probes"] = instance.unanswered_probes + 1
            seen = replace(seen, answers=False)
        _copy_log(attempt)
    Instance.objects.filter(pk=instance.pk).update(**changes)
    return replace(sighting, observation=seen)


def _running_argv(launch: Mapping[str, Any]) -> list[str]:
    """The main process's command line as the kernel shows it; as it was started when the process has renamed itself."""
    run = launch.get("run") or {}
    shown: list[str] = next((one["command"] for one in launch["processes"] if one["pid"] == run.get("pid")), [])
    return shown if "serve" in shown else run.get("argv", [])


def _copy_log(attempt: Attempt) -> None:
    try:
        copy_log(attempt)
    except HostRefused:  # its directory is gone: what was copied stays
        return
