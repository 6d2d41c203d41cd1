"""One look at a running run, and what follows from it."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from controlplane.bench.domain.following import Act, process_of, running_step
from controlplane.bench.models import Run
from controlplane.bench.reconcile.ending import cancel_unfinished, collect, fail
from controlplane.bench.reconcile.files import read_json
from controlplane.bench.reconcile.starting import start
from controlplane.inventory.models import Host
from controlplane.inventory.services import call_host
from controlplane.protocol.launches import StopRequest
from controlplane.protocol.shapes import to_wire

SOON_S = 1.0
"""How often a run is looked at: its progress file is written once a second."""
RETRY_S = 5.0
"""How soon a host that did not answer is asked again."""
STOP_TIMEOUT_S = 20.0
"""The load generator needs a moment to write down what it had; then it is killed."""


def pursue(run: Run) -> float | None:
    """Look at the load generator and the engine, and take the step that follows; None when the run is over.

    Raises HostError when the host does not answer: that says nothing about the run.
    """
    host = _host(run)
    launches = _look(run, host)
    engine_id = run.attempt.launch_id if run.attempt else ""
    job, engine = process_of(launches.get(run.job_id)), process_of(launches.get(engine_id))
    step = running_step(
        is_started=run.started_at is not None,
        is_cancel_requested=run.is_cancel_requested,
        job=job,
        engine=engine,
    )
    match step.act:
        case Act.START:
            start(run, host, (launches.get(engine_id) or {}))
        case Act.FOLLOW:
            follow(run, host)
        case Act.STOP:
            stop(run, host)
        case Act.COLLECT:
            collect(run, host, launches[run.job_id])
        case Act.CANCEL:
            cancel_unfinished(run)
        case Act.FAIL:
            fail(run, step.reason)
    return None if run.is_over else SOON_S


def follow(run: Run, host: Host) -> None:
    """Keep what the load generator says about itself."""
    if run.started_at is None:  # whoever started it died before noting that
        run.started_at = timezone.now()
        Run.objects.filter(pk=run.pk, started_at=None).update(started_at=run.started_at)
    progress = read_json(host, run.job_id, "progress.json")
    if progress:
        if progress.get("phase") == "measure":  # rates begin when the measured requests do
            progress["measuring_since_s"] = run.progress.get("measuring_since_s", progress.get("elapsed_s"))
        Run.objects.filter(pk=run.pk, state=Run.State.RUNNING).update(progress=progress)


def stop(run: Run, host: Host) -> None:
    """SIGTERM: it ends its requests and writes what it has. The next look collects that."""
    request = StopRequest(launch_id=run.job_id, term_timeout_s=STOP_TIMEOUT_S)
    call_host(host, "stop", to_wire(request), timeout_s=STOP_TIMEOUT_S + request.kill_timeout_s + RETRY_S)


def _look(run: Run, host: Host) -> Mapping[str, Any]:
    ids = [run.job_id, *([run.attempt.launch_id] if run.attempt else [])]
    answer = call_host(host, "list", {"launch_ids": ids})
    return {launch["launch_id"]: launch for launch in answer["launches"]}


def _host(run: Run) -> Host:
    if run.host is None:
        raise ValueError(f"run {run.pk} is running on no host")
    return run.host
