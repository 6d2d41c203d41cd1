"""Hosts, accelerators, engines and models over REST.

Viewers read, operators probe and add models, administrators manage hosts. Nothing here waits for a host: the worker
does, and the state tells.
"""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from controlplane.core.paging import page_of
from controlplane.core.permissions import require_admin, require_operator
from controlplane.core.rest import PageOut, page_out
from controlplane.core.searching import Natural
from controlplane.inventory import queries, schemas, services
from controlplane.inventory.models import Host, ModelArtifact

router = Router(tags=["inventory"])


@router.get("/hosts", response=PageOut[schemas.HostOut], summary="Hosts")
def list_hosts(
    request: HttpRequest, q: str = "", state: str = "", transport: str = "", sort: str = "name", page: int = 1
) -> dict[str, Any]:
    """`state`: new, reachable, unreachable, refused, maintenance. `sort`: name, state, instances, gpus, seen."""
    found = queries.hosts(search=q, state=state, transport=transport, sort=sort)
    return page_out(page_of(found, page), schemas.host_out)


@router.post("/hosts", response={201: schemas.HostDetailOut}, summary="Add a host")
def add_host(request: HttpRequest, body: schemas.HostIn) -> Status[Any]:
    """Its host key is fetched and, once pinned, the host is probed by the worker; follow `state` and `is_probing`."""
    host = services.add_host(
        **body.dict(include={"name", "engine_paths", "root", "note"}),
        ssh=body.access(),
        actor=require_admin(request),
    )
    return Status(201, schemas.host_detail_out(queries.host_detail(host.pk)))


@router.get("/hosts/{host_id}", response=schemas.HostDetailOut, summary="One host with its facts")
def get_host(request: HttpRequest, host_id: int) -> Any:
    return schemas.host_detail_out(queries.host_detail(host_id))


@router.patch("/hosts/{host_id}", response=schemas.HostDetailOut, summary="Change a host, or its maintenance")
def patch_host(request: HttpRequest, host_id: int, body: schemas.HostPatch) -> Any:
    """Maintenance alone is an operator's to switch, everything else an administrator's."""
    is_maintenance_only = body.model_fields_set <= {"is_in_maintenance"}
    actor = require_operator(request) if is_maintenance_only else require_admin(request)
    ssh = body.ssh.access() if body.ssh else None
    services.change_host(host=_host(host_id), ssh=ssh, **body.dict(exclude={"ssh"}), actor=actor)
    return schemas.host_detail_out(queries.host_detail(host_id))


@router.delete("/hosts/{host_id}", response={204: None}, summary="Remove a host on which nothing runs")
def remove_host(request: HttpRequest, host_id: int) -> Status[None]:
    services.remove_host(host=_host(host_id), actor=require_admin(request))
    return Status(204, None)


@router.post("/hosts/{host_id}/probe", response={202: schemas.HostDetailOut}, summary="Look at a host again")
def probe_host(request: HttpRequest, host_id: int) -> Status[Any]:
    services.rescan(host=_host(host_id), actor=require_operator(request))
    return Status(202, schemas.host_detail_out(queries.host_detail(host_id)))


@router.get("/hosts/{host_id}/host-key", response=schemas.HostKeyOut, summary="Pinned and offered host key")
def get_host_key(request: HttpRequest, host_id: int) -> Any:
    return schemas.host_key_out(_host(host_id))


@router.post("/hosts/{host_id}/pin", response=schemas.HostKeyOut, summary="Trust the host key that is offered")
def pin_host_key(request: HttpRequest, host_id: int, body: schemas.FingerprintIn, replace: bool = False) -> Any:
    """With `replace=true` in place of the pinned one, after the host was reinstalled for example."""
    act = services.replace_host_key if replace else services.pin_host_key
    act(host=_host(host_id), fingerprint=body.fingerprint, actor=require_admin(request))
    return schemas.host_key_out(_host(host_id))


@router.get("/hosts/{host_id}/accelerators", response=list[schemas.AcceleratorOut], summary="GPUs of a host")
def list_accelerators(request: HttpRequest, host_id: int) -> list[Any]:
    """Also those that are missing since some time. `gpu` in the host's facts says why there is none to see."""
    return [schemas.accelerator_out(gpu) for gpu in _host(host_id).accelerators.order_by("index", "uuid")]


@router.get("/engines", response=PageOut[schemas.EngineOut], summary="vLLM installations")
def list_engines(request: HttpRequest, host: str = "", version: str = "", page: int = 1) -> dict[str, Any]:
    found = queries.engines(host=host, version=version).order_by(Natural("host__name"), "executable")
    return page_out(page_of(found, page), schemas.engine_out)


@router.get("/engines/{engine_id}", response=schemas.EngineOut, summary="One vLLM installation")
def get_engine(request: HttpRequest, engine_id: int) -> Any:
    return schemas.engine_out(queries.engines().get(pk=engine_id))


@router.get("/engines/{engine_id}/options", response=list[schemas.OptionOut], summary="Options of that build")
def list_options(request: HttpRequest, engine_id: int, q: str = "") -> list[Any]:
    found = queries.options_of(queries.engine_with_options().get(pk=engine_id).option_list, search=q)
    return [schemas.option_out(option) for option in found]


@router.get("/models", response=PageOut[schemas.ModelOut], summary="Models")
def list_models(
    request: HttpRequest, q: str = "", host: str = "", source: str = "", sort: str = "name", page: int = 1
) -> dict[str, Any]:
    """`sort`: name, created, hosts, size; `-` reverses."""
    found = queries.models(search=q, host=host, source=source, sort=sort)
    return page_out(page_of(found, page), schemas.model_out)


@router.post("/models", response={201: schemas.ModelDetailOut}, summary="Add a model")
def add_model(request: HttpRequest, body: schemas.ModelIn) -> Status[Any]:
    """The worker looks at its files on each of `hosts`; follow `inspected_at` and `error` of the copies."""
    model = services.add_model(**body.dict(), actor=require_operator(request))
    return Status(201, _model_out(model.pk))


@router.get("/models/{model_id}", response=schemas.ModelDetailOut, summary="One model with its copies")
def get_model(request: HttpRequest, model_id: int) -> Any:
    return _model_out(model_id)


@router.delete("/models/{model_id}", response={204: None}, summary="Forget a model; its files stay where they are")
def remove_model(request: HttpRequest, model_id: int) -> Status[None]:
    model = ModelArtifact.objects.get(pk=model_id)
    services.remove_model(model=model, actor=require_operator(request))
    return Status(204, None)


@router.post("/models/{model_id}/inspect", response={202: schemas.ModelDetailOut}, summary="Look at the files again")
def inspect_model(request: HttpRequest, model_id: int) -> Status[Any]:
    services.inspect_again(model=ModelArtifact.objects.get(pk=model_id), actor=require_operator(request))
    return Status(202, _model_out(model_id))


def _host(host_id: int) -> Host:
    return Host.objects.select_related("jump_host").get(pk=host_id)


def _model_out(model_id: int) -> schemas.ModelDetailOut:
    model = queries.model_details().get(pk=model_id)
    return schemas.model_detail_out(model, queries.configs_using([model.location]).get(model.location, []))
