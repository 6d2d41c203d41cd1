"""The hands of the benchmarks. Each task takes ids, may run twice, and is also found by the tick."""

from typing import Any

from celery import shared_task

from controlplane.bench import reconcile
from controlplane.core import dispatch


@shared_task(name="bench.follow")
def follow(**_: Any) -> None:
    """The tick: send the steps that got lost, and those that waited for an instance."""
    reconcile.send_late_steps()


@shared_task(name="bench.advance")
def advance(run_id: int, **_: Any) -> None:
    wait_s = reconcile.advance(run_id)
    if wait_s is not None:
        dispatch.later("bench.advance", wait_s, run_id=run_id)
