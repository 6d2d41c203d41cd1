"""Bringing the load generator to the host of the instance, and starting it there as a job."""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.utils import timezone

from controlplane.bench.domain import order
from controlplane.bench.domain.bundle import build_loadgen
from controlplane.bench.domain.spec import KEY_VARIABLE, InvalidSpec, RunSpec
from controlplane.bench.domain.workloads import InvalidWorkload, Workload
from controlplane.bench.models import Run
from controlplane.bench.reconcile.ending import fail
from controlplane.drivers.errors import HostRefused
from controlplane.fleet.models import Instance
from controlplane.fleet.services import key_of
from controlplane.inventory.models import Engine, Host
from controlplane.inventory.services import call_host
from controlplane.protocol.launches import StartRequest
from controlplane.protocol.shapes import to_wire
from controlplane.protocol.transfers import PutRequest

START_TIMEOUT_S = 45.0
JOB = "job"


def start(run: Run, host: Host, engine_launch: Mapping[str, Any]) -> None:
    """Put program and spec on the host and start the job. Asked again, it starts the same launch.

    A host that refuses ends the run. Raises HostError when it does not answer.
    """
    instance = run.instance
    if instance is None:
        fail(run, "instance_removed")
        return
    try:
        loadgen_path = _put(host, order.LOADGEN_NAME, loadgen())
        spec = spec_of(run, instance, order.launch_folder(loadgen_path, run.job_id))
        spec_path = _put(host, order.SPEC_NAME, json.dumps(spec.to_json(), sort_keys=True).encode())
        running = _main_command(engine_launch)
        argv = order.command(order.interpreter(instance.engine.executable, running), loadgen_path, spec_path)
        Run.objects.filter(pk=run.pk).update(spec=spec.to_json(), command=argv)
        call_host(host, "start", to_wire(_request(run, instance, argv)), timeout_s=START_TIMEOUT_S)
    except (InvalidSpec, InvalidWorkload) as error:
        fail(run, "spec_refused", detail=str(error))
        return
    except HostRefused as refusal:
        fail(run, "start_refused", detail=f"{refusal.message} {refusal.remedy}".strip())
        return
    run.started_at = timezone.now()
    Run.objects.filter(pk=run.pk, started_at=None).update(started_at=run.started_at)


def spec_of(run: Run, instance: Instance, output_dir: str) -> RunSpec:
    """The order for one run. Raises InvalidSpec, InvalidWorkload."""
    return RunSpec(
        base_url=order.own_url(instance.bind, instance.port),
        model=instance.served_model_name,
        workload=Workload.from_json(run.workload.spec),
        seed=run.seed,
        output_dir=output_dir,
        run_id=str(run.pk),
        gpu="auto" if instance.gpu_uuids or not _has_idle_gpus(instance) else "off",
        gpu_uuids=tuple(instance.gpu_uuids),
    )


@cache
def loadgen() -> bytes:
    """The zipapp; its sources do not change while we run."""
    return build_loadgen()


def _has_idle_gpus(instance: Instance) -> bool:
    """A server on the CPU of a machine with GPUs: their utilisation says nothing about it."""
    return instance.engine.device == Engine.Device.CPU and instance.host.accelerators.exists()


def _main_command(launch: Mapping[str, Any]) -> list[str]:
    """How the kernel shows the engine's main process; [] when it does not."""
    pid = (launch.get("run") or {}).get("pid")
    return next((each["command"] for each in launch.get("processes", ()) if each["pid"] == pid), [])


def _request(run: Run, instance: Instance, argv: list[str]) -> StartRequest:
    key = key_of(instance)
    return StartRequest(
        launch_id=run.job_id,
        nonce=secrets.token_urlsafe(24),
        argv=argv,
        kind=JOB,
        secret_env={KEY_VARIABLE: key} if key else {},
    )


def _put(host: Host, name: str, content: bytes) -> str:
    """Store a file among the host's tools, by its digest; where it is there."""
    request = PutRequest(
        sha256=hashlib.sha256(content).hexdigest(), content_base64=base64.b64encode(content).decode(), name=name
    )
    return str(call_host(host, "put_file", to_wire(request), timeout_s=START_TIMEOUT_S)["path"])
