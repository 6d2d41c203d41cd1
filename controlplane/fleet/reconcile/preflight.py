"""Asking a host what a launch there would meet, and checking it: three short calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.utils import timezone

from controlplane.configs.domain.checking import check as check_config
from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostError
from controlplane.fleet.domain import config_values, preflight
from controlplane.fleet.domain.failures.rule import Gpu
from controlplane.fleet.domain.json_forms import check_as_json
from controlplane.fleet.domain.memory import MemoryEstimate, ModelFacts, default_utilisation, estimate, parse_version
from controlplane.fleet.domain.model_reading import model_facts
from controlplane.fleet.domain.preflight import Check, Facts, PortHolder
from controlplane.fleet.models import Attempt, Instance, Preflight, State
from controlplane.fleet.reconcile.gpus import gpu_of
from controlplane.fleet.services.placement import bind_of
from controlplane.fleet.services.rendering import CannotRender, arguments, flags_of
from controlplane.inventory.models import Engine, ModelCopy
from controlplane.inventory.services import call_host, ensure_copy, inspect_copy_now
from controlplane.protocol.machine import GpuReport, Machine
from controlplane.protocol.shapes import from_wire

PROBE_TIMEOUT_S = 60.0
NOT_YET_READABLE = "revision_not_a_commit"
"""A repository's branch or tag cannot be read before vLLM downloads it: unknown, and no fault."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks found, in the order of the page."""

    checks: tuple[Check, ...]
    predicted_kv_tokens: int | None

    @property
    def refusal(self) -> Check | None:
        """The first check that failed: why nothing is started."""
        return next((check for check in self.checks if check.outcome == "fail"), None)

    def as_json(self) -> list[dict[str, Any]]:
        return [check_as_json(check) for check in self.checks]


@dataclass(frozen=True, slots=True)
class Place:
    """What would be launched where; `instance_id` when it has been decided already."""

    config_version: ConfigVersion
    engine: Engine
    gpu_uuids: Sequence[str]
    port: int
    bind: str
    instance_id: int | None = None

    @property
    def content(self) -> dict[str, Any]:
        """The config as it will run: with our address and port."""
        content: dict[str, Any] = self.config_version.content
        return {**content, "server": {**content.get("server", {}), "host": self.bind, "port": self.port}}


def check_launch(instance: Instance) -> Report:
    """Run every check for `instance`. Raises HostError, or Problem when the host cannot be asked at all."""
    return check_place(
        Place(instance.config_version, instance.engine, instance.gpu_uuids, instance.port, instance.bind, instance.pk)
    )


def fill_preflight(preflight_id: int) -> None:
    """Run the checks that somebody asked for beforehand and keep what they found, or why nobody could look."""
    row = (
        Preflight.objects.select_related("config_version__config", "engine__host", "engine__option_list")
        .filter(pk=preflight_id, state=Preflight.State.QUEUED)
        .first()
    )
    if row is None or row.port is None:
        return
    place = Place(row.config_version, row.engine, row.gpu_uuids, row.port, bind_of(row.config_version))
    try:
        report = check_place(place)
    except HostError as error:
        _keep(preflight_id, state=Preflight.State.FAILED, error=error.message, error_remedy=error.remedy)
    except Problem as problem:
        _keep(preflight_id, state=Preflight.State.FAILED, error=problem.sentence, error_remedy=problem.remedy)
    else:
        _keep(
            preflight_id,
            state=Preflight.State.FINISHED,
            checks=report.as_json(),
            argv=_argv(place),
            predicted_kv_tokens=report.predicted_kv_tokens,
        )


def check_place(place: Place) -> Report:
    """Gather the facts and run the checks."""
    host = place.engine.host
    copy = _model_copy(place)
    paths = [str(PurePosixPath(copy.path).parent)] if copy is not None and copy.path.startswith("/") else []
    machine = from_wire(Machine, call_host(host, "probe", {"paths": paths}, timeout_s=PROBE_TIMEOUT_S))
    holder = call_host(host, "check_port", {"port": place.port})["holder"]
    facts = _facts(place, copy, machine, holder)
    return Report(
        checks=preflight.checks(facts),
        predicted_kv_tokens=facts.estimate.predicted_kv_tokens if facts.estimate else None,
    )


def _keep(preflight_id: int, **changes: Any) -> None:
    Preflight.objects.filter(pk=preflight_id).update(**changes)


def _argv(place: Place) -> list[str]:
    """The command line as far as it can be rendered: [] when a flag is in the way (the checks say which)."""
    try:
        argv, _injected = arguments(
            place.config_version.content, flags_of(place.engine) or {}, host=place.bind, port=place.port
        )
    except CannotRender:
        return []
    return [place.engine.executable, *argv]


def _model_copy(place: Place) -> ModelCopy | None:
    """The model's files as they are now: what an earlier look said may be gone."""
    path = place.config_version.value("model", "model_path")
    if not path:
        return None
    return inspect_copy_now(ensure_copy(place.engine.host, str(path)), timezone.now())


def _facts(place: Place, copy: ModelCopy | None, machine: Machine, holder: Mapping[str, Any] | None) -> Facts:
    engine, read = place.engine, copy.facts if copy is not None else {}
    model = model_facts(read)
    gpus = _gpus(machine.gpu, place.gpu_uuids)
    return Facts(
        content=place.content,
        engine_version=engine.version,
        kind="cpu" if engine.device == Engine.Device.CPU else "gpu",
        flag_problems=_flag_problems(place),
        model=model,
        model_error=_model_error(copy),
        has_tokenizer=read.get("has_tokenizer"),
        has_chat_template=read.get("has_chat_template"),
        port=place.port,
        port_holder=_holder(holder),
        gpus=gpus,
        gpus_on_host=len(machine.gpu.gpus),
        gpu_problem=machine.gpu.message if machine.gpu.status in {"tools_missing", "driver_error"} else "",
        reserved_bytes=_reserved(place, machine.gpu),
        estimate=_estimate(place, model, machine, gpus),
        disk_free_bytes=machine.disks[-1].free_bytes if machine.disks else None,
        download_bytes=0 if model is not None else None,
        has_api_key=True,  # every instance has one, the config's or its own
    )


def _flag_problems(place: Place) -> list[str] | None:
    flags = flags_of(place.engine)
    if flags is None:
        return None
    found = check_config(place.config_version.content, flags=flags, version=place.engine.version)
    return [f"{problem.key}: {problem.message} {problem.remedy}".strip() for problem in found if problem.is_error]


def _model_error(copy: ModelCopy | None) -> str:
    """Why the model cannot be served; "" when it can, or when its files are not there to be read yet."""
    if copy is None or copy.error_code == NOT_YET_READABLE:
        return ""
    if copy.error:
        return copy.error
    return " ".join(problem["message"] for problem in copy.facts.get("problems") or [])


def _holder(found: Mapping[str, Any] | None) -> PortHolder | None:
    if found is None:
        return None
    launch_id = found.get("launch_id")
    return PortHolder(
        pid=found.get("pid"),
        command=" ".join(found.get("command") or [])[:120],
        is_ours=bool(launch_id) and Attempt.objects.filter(launch_id=launch_id).exists(),
    )


def _gpus(report: GpuReport, uuids: Sequence[str]) -> list[Gpu]:
    """The chosen GPUs that are there, with what lies on them."""
    return [
        gpu_of(gpu, (process for process in report.processes if process.gpu_uuid == gpu.uuid))
        for gpu in report.gpus
        if gpu.uuid in uuids
    ]


def _estimate(place: Place, model: ModelFacts | None, machine: Machine, gpus: Sequence[Gpu]) -> MemoryEstimate | None:
    if model is None:
        return None
    is_cpu = place.engine.device == Engine.Device.CPU
    totals = [machine.memory_total_bytes or 0] if is_cpu else [gpu.total_bytes for gpu in gpus]
    if not any(totals):
        return None
    return estimate(
        model,
        place.content,
        memory_total_bytes=min(totals),
        memory_free_bytes=machine.memory_available_bytes if is_cpu else None,  # of GPUs: a check of its own
        engine_version=place.engine.version,
        kind="cpu" if is_cpu else "gpu",
    )


def _reserved(place: Place, report: GpuReport) -> dict[str, int]:
    """Memory promised to earlier launches on the chosen GPUs and not taken yet: their share less what they hold."""
    if not place.gpu_uuids:
        return {}
    totals = {gpu.uuid: gpu.memory_total_bytes or 0 for gpu in report.gpus}
    promised = dict.fromkeys(place.gpu_uuids, 0)
    starting = Instance.objects.filter(
        host=place.engine.host_id, state__in=[State.PENDING, State.STARTING]
    ).select_related("config_version", "engine")
    if place.instance_id is not None:  # of two asked for at once, the second makes room for the first
        starting = starting.filter(pk__lt=place.instance_id)
    for instance in starting:
        nonces = set(instance.attempts.values_list("process__nonce", flat=True))
        for uuid in set(instance.gpu_uuids) & set(promised):
            held = sum(
                process.memory_bytes or 0
                for process in report.processes
                if process.gpu_uuid == uuid and process.nonce in nonces
            )
            promised[uuid] += max(0, int(totals.get(uuid, 0) * _share(instance)) - held)
    return promised


def _share(instance: Instance) -> float:
    asked = config_values.number(instance.config_version.content, "gpu_memory_utilization")
    return asked or default_utilisation(parse_version(instance.engine.version))
