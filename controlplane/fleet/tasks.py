"""The hands of the fleet. Each task takes ids, may run twice, and is also found by the tick."""

from typing import Any

from celery import shared_task

from controlplane.core import dispatch
from controlplane.fleet import reconcile


@shared_task(name="fleet.observe")
def observe(**_: Any) -> None:
    """The tick: look at every host on which something serves, and send the steps that got lost."""
    reconcile.send_late_steps()
    for host_id in reconcile.hosts_to_observe():
        dispatch.after_commit("fleet.observe_host", host_id=host_id)


@shared_task(name="fleet.observe_host")
def observe_host(host_id: int, **_: Any) -> None:
    reconcile.observe_host(host_id)


@shared_task(name="fleet.advance")
def advance(instance_id: int, **_: Any) -> None:
    wait_s = reconcile.advance(instance_id)
    if wait_s is not None:
        dispatch.later("fleet.advance", wait_s, instance_id=instance_id)


@shared_task(name="fleet.preflight")
def preflight(preflight_id: int, **_: Any) -> None:
    reconcile.fill_preflight(preflight_id)


@shared_task(name="fleet.clear_away")
def clear_away(host_id: int, launch_ids: list[str], **_: Any) -> None:
    reconcile.clear_away(host_id, launch_ids)


@shared_task(name="fleet.smoke")
def smoke(instance_id: int, prompt: str, **_: Any) -> None:
    reconcile.ask_smoke(instance_id, prompt)
