"""Instances over REST: viewers read, operators launch, ask and stop.

Nothing here waits for a host: the worker does, and states tell. Every refusal is problem JSON.
"""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Status

from controlplane.configs.models import ConfigVersion
from controlplane.core.permissions import require_operator
from controlplane.core.rest import PageOut, page_out
from controlplane.fleet import queries, schemas, services
from controlplane.fleet.models import Attempt, Instance
from controlplane.inventory.models import Engine

router = Router(tags=["fleet"])

MAX_LINES = 5000


@router.post("/preflights", response={202: schemas.PreflightOut}, summary="Check a launch before launching")
def create_preflight(request: HttpRequest, body: schemas.PlaceIn) -> Status[Any]:
    """The worker asks the host; follow `state`, which is `queued` until it has."""
    actor = require_operator(request)
    preflight = services.request_preflight(**_place(body), gpu_uuids=body.gpu_uuids, port=body.port, actor=actor)
    return Status(202, schemas.preflight_out(queries.preflight_detail(preflight.pk)))


@router.get("/preflights/{preflight_id}", response=schemas.PreflightOut, summary="What the checks found")
def get_preflight(request: HttpRequest, preflight_id: int) -> Any:
    return schemas.preflight_out(queries.preflight_detail(preflight_id))


@router.get("/instances", response=PageOut[schemas.InstanceOut], summary="Instances")
def list_instances(
    request: HttpRequest,
    q: str = "",
    state: str = "",
    host: str = "",
    config: str = "",
    environment: str = "",
    sort: str = "",
    page: int = 1,
) -> dict[str, Any]:
    """`state`: one of the states, or `live`. `sort`: created, name, state, since, host, config, kv, ready; `-` turns it
    round. Without it the newest come first."""
    found = queries.instances_page(
        page, state=state, host=host, config=config, environment=environment, search=q, sort=sort
    )
    return page_out(found, schemas.instance_out)


@router.post("/instances", response={202: schemas.InstanceDetailOut}, summary="Launch")
def launch(request: HttpRequest, body: schemas.LaunchIn) -> Status[Any]:
    """Checks run first: a failed one ends in state `failed`, with the attempt's outcome `refused` and the reason."""
    instance = services.request_launch(
        **_place(body),
        gpu_uuids=body.gpu_uuids,
        port=body.port,
        override_reason=body.override_reason,
        actor=require_operator(request),
    )
    return Status(202, _detail(instance.pk))


@router.get("/instances/{instance_id}", response=schemas.InstanceDetailOut, summary="One instance")
def get_instance(request: HttpRequest, instance_id: int) -> Any:
    return _detail(instance_id)


@router.post("/instances/{instance_id}/stop", response={202: schemas.InstanceDetailOut}, summary="Drain and stop")
def stop(request: HttpRequest, instance_id: int, body: schemas.StopIn | None = None) -> Status[Any]:
    """It is `stopped` only when no process, port or GPU memory of it is left; until then `reason` says what is."""
    actor = require_operator(request)
    services.request_stop(_instance(instance_id), why=body.why if body else "", actor=actor)
    return Status(202, _detail(instance_id))


@router.post("/instances/{instance_id}/relaunch", response={202: schemas.InstanceDetailOut}, summary="Launch again")
def relaunch(request: HttpRequest, instance_id: int, body: schemas.RelaunchIn | None = None) -> Status[Any]:
    """A new attempt at the same place, after a stop or a failure."""
    actor = require_operator(request)
    services.relaunch(_instance(instance_id), override_reason=body.override_reason if body else "", actor=actor)
    return Status(202, _detail(instance_id))


@router.post("/instances/{instance_id}/smoke", response={202: schemas.InstanceDetailOut}, summary="Ask one question")
def smoke(request: HttpRequest, instance_id: int, body: schemas.SmokeIn | None = None) -> Status[Any]:
    """`smoke` of the instance holds the answer with prompt and completion tokens; its `state` is `asked` until then."""
    actor = require_operator(request)
    services.request_smoke(_instance(instance_id), prompt=(body or schemas.SmokeIn()).prompt, actor=actor)
    return Status(202, _detail(instance_id))


@router.delete("/instances/{instance_id}", response={204: None}, summary="Forget an instance that ended")
def remove(request: HttpRequest, instance_id: int) -> Status[None]:
    """Its attempts and logs go with it; runs measured on it stay."""
    actor = require_operator(request)
    services.remove_instance(_instance(instance_id), actor=actor)
    return Status(204, None)


@router.get("/instances/{instance_id}/attempts", response=list[schemas.AttemptOut], summary="Attempts, newest first")
def list_attempts(request: HttpRequest, instance_id: int) -> list[Any]:
    return [schemas.attempt_out(attempt) for attempt in queries.attempts_of(_instance(instance_id))]


@router.get("/attempts/{attempt_id}/log", response=schemas.LogOut, summary="The log of an attempt")
def get_log(
    request: HttpRequest,
    attempt_id: int,
    after: Annotated[int, Query(ge=0, le=2**31 - 2, description="The line to go on after.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = 1000,
    q: str = "",
    level: Literal["", "debug", "info", "warning", "error"] = "",
) -> Any:
    """Lines as they were copied from the host, numbered from 1, with keys taken out."""
    attempt = Attempt.objects.get(pk=attempt_id)
    page = queries.log_lines(attempt, after_line=after, limit=limit, search=q, level=level)
    return schemas.log_out(page, attempt)


@router.get("/instances/{instance_id}/command", response=schemas.CommandOut, summary="The launch as a file")
def get_command(
    request: HttpRequest, instance_id: int, format: Literal["argv", "shell", "systemd", "compose"] = "argv"
) -> Any:
    """For running it without this product. The key stays out: the file says where it reads it."""
    argv, text = services.exported(_instance(instance_id), format)
    return {"format": format, "argv": argv, "text": text}


def _place(body: schemas.PlaceIn) -> dict[str, Any]:
    return {
        "config_version": ConfigVersion.objects.select_related("config").get(pk=body.config_version_id),
        "engine": Engine.objects.select_related("host").get(pk=body.engine_id),
    }


def _instance(instance_id: int) -> Instance:
    return Instance.objects.select_related("host", "engine__option_list", "config_version__config").get(pk=instance_id)


def _detail(instance_id: int) -> dict[str, Any]:
    instance = queries.instance_detail(instance_id)
    return schemas.instance_detail_out(instance, queries.newest_attempt(instance))
