"""Stopping: drain, kill what is left, look whether anything remains. The host program does it; this is the asking."""

from controlplane.drivers.errors import HostError, HostRefused
from controlplane.fleet.domain.lifecycle import Observation
from controlplane.fleet.models import Attempt, Instance
from controlplane.fleet.reconcile.looking import ABSENT, SILENT, observation_of_stop
from controlplane.fleet.reconcile.wording import what_is_left
from controlplane.fleet.services.rendering import DRAIN_S
from controlplane.inventory.services import call_host

TERM_TIMEOUT_S = DRAIN_S + 10.0
KILL_TIMEOUT_S = 10.0
MARGIN_S = 15.0


def stop_and_look(instance: Instance, attempt: Attempt, *, is_kill: bool) -> Observation:
    """End every process of the attempt and answer what is left: first SIGTERM and time to drain (not with `is_kill`),
    then SIGKILL, then a look at processes, ports and GPU memory. Takes up to a minute; safe to repeat."""
    term_timeout_s = 0.0 if is_kill else TERM_TIMEOUT_S
    params = {"launch_id": attempt.launch_id, "term_timeout_s": term_timeout_s, "kill_timeout_s": KILL_TIMEOUT_S}
    try:
        report = call_host(instance.host, "stop", params, timeout_s=term_timeout_s + KILL_TIMEOUT_S + MARGIN_S)
    except HostRefused as refusal:
        return ABSENT if refusal.code == "unknown_launch" else SILENT
    except HostError:  # noted on the host by call_host
        return SILENT
    attempt.stop_report = report
    attempt.save(update_fields=["stop_report"])
    if not report["is_gone"]:
        Instance.objects.filter(pk=instance.pk).update(reason=what_is_left(report))
    return observation_of_stop(report)
