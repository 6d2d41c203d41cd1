"""Environments and promotions over REST: viewers read, operators promote, go back, give up, take out of service.

Nothing here waits for a host: the worker carries a promotion out, and its state and steps tell how far it is.
"""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Status

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Invalid
from controlplane.core.paging import page_of
from controlplane.core.permissions import require_operator
from controlplane.core.rest import PageOut, page_out
from controlplane.fleet.models import Deployment, Instance
from controlplane.inventory.models import Engine
from controlplane.release import queries, schemas, services
from controlplane.release.models import Promotion

router = Router(tags=["release"])

PromotionId = Annotated[int, Path(ge=1, le=schemas.LARGEST_ID)]


@router.get("/environments", response=list[schemas.EnvironmentOut], summary="What serves in each environment")
def list_environments(request: HttpRequest) -> list[Any]:
    """The most important environment first."""
    return [schemas.environment_out(view) for view in queries.environment_views()]


@router.get("/environments/{environment}", response=schemas.EnvironmentOut, summary="What serves in one environment")
def get_environment(request: HttpRequest, environment: schemas.Name) -> Any:
    return schemas.environment_out(queries.environment_views(queries.environment_named(environment))[0])


@router.get("/promotions", response=PageOut[schemas.PromotionOut], summary="Promotions")
def list_promotions(
    request: HttpRequest,
    environment: str = "",
    config: str = "",
    state: str = "",
    who: str = "",
    q: str = "",
    sort: str = "",
    page: Annotated[int, Query(ge=1, le=2**31 - 1)] = 1,
) -> dict[str, Any]:
    """`state`: one of the states, or `under_way`. `sort`: when, environment, config, version, who, outcome, duration;
    `-` turns it round. Without it the newest come first."""
    found = queries.promotions(environment=environment, config=config, state=state, who=who, search=q, sort=sort)
    return page_out(page_of(found, page), schemas.promotion_out)


@router.post("/promotions", response={202: schemas.PromotionDetailOut}, summary="Promote a version")
def create_promotion(request: HttpRequest, body: schemas.PromoteIn) -> Status[Any]:
    """Follow `state`: `live` when it serves, `reverted` when what ran before does, `failed` when neither does. Another
    promotion of the same config in the same environment is refused until this one is over."""
    actor = require_operator(request)
    promotion = services.promote(**_wish(body), gpu_uuids=body.gpu_uuids, why=body.why, actor=actor)
    return Status(202, _detail(promotion.pk))


@router.get("/promotions/{promotion_id}", response=schemas.PromotionDetailOut, summary="One promotion with its steps")
def get_promotion(request: HttpRequest, promotion_id: PromotionId) -> Any:
    return _detail(promotion_id)


@router.post("/promotions/{promotion_id}/abort", response={202: schemas.PromotionDetailOut}, summary="Give it up")
def abort(request: HttpRequest, promotion_id: PromotionId) -> Status[Any]:
    """What ran before serves, or is started again. Refused once the new version serves in its place: go back then."""
    actor = require_operator(request)
    services.abort(Promotion.objects.get(pk=promotion_id), actor=actor)
    return Status(202, _detail(promotion_id))


@router.post(
    "/environments/{environment}/deployments/{config}/rollback",
    response={202: schemas.PromotionDetailOut},
    summary="Go back to what served before",
)
def roll_back(
    request: HttpRequest, environment: schemas.Name, config: schemas.Name, body: schemas.WhyIn | None = None
) -> Status[Any]:
    """`way_back` of the deployment says what that is. It is a promotion like any other."""
    actor = require_operator(request)
    deployment = queries.deployment_named(environment, config)
    promotion = services.roll_back(deployment, why=body.why if body else "", actor=actor)
    return Status(202, _detail(promotion.pk))


@router.post(
    "/environments/{environment}/deployments/{config}/stop",
    response={202: schemas.DeploymentOut},
    summary="Take out of service",
)
def stop(
    request: HttpRequest, environment: schemas.Name, config: schemas.Name, body: schemas.WhyIn | None = None
) -> Status[Any]:
    """Its instance is drained and stopped, and nothing starts it again but a promotion or a rollback."""
    actor = require_operator(request)
    deployment = queries.deployment_named(environment, config)
    services.stop_serving(deployment, why=body.why if body else "", actor=actor)
    fresh = queries.deployment_named(environment, config)
    return Status(202, schemas.deployment_out(queries.deployment_views([fresh])[0]))


def _detail(promotion_id: int) -> dict[str, Any]:
    promotion = queries.promotion_detail(promotion_id)
    return schemas.promotion_detail_out(promotion, queries.story_of(promotion, queries.passages_of([promotion])))


def _wish(body: schemas.PromoteIn) -> dict[str, Any]:
    versions = ConfigVersion.objects.select_related("config")
    instance = Instance.objects.get(pk=body.instance_id) if body.instance_id else None
    return {
        "environment": queries.environment_named(body.environment),
        "config_version": versions.get(config__name=body.config, number=body.version),
        "engine": _engine(body, instance),
        "instance": instance,
        "runs": _runs(body.run_ids),
    }


def _engine(body: schemas.PromoteIn, instance: Instance | None) -> Engine:
    """The named one, else the instance's, else the one that serves now."""
    engines = Engine.objects.select_related("host")
    if body.engine_id is not None:
        return engines.get(pk=body.engine_id)
    if instance is not None:
        return engines.get(pk=instance.engine_id)
    deployment = Deployment.objects.filter(environment__name=body.environment, name=body.config).first()
    if deployment is None:
        raise Invalid(
            "Nothing serves there yet, so nobody knows on which engine it is to run.", remedy="Give engine_id."
        )
    return engines.get(pk=deployment.engine_id)


def _runs(run_ids: list[int]) -> list[Run]:
    found = Run.objects.in_bulk(run_ids)
    if missing := [run_id for run_id in run_ids if run_id not in found]:
        raise Invalid(f"There is no run {missing[0]}.", remedy="Look the number up in the list of runs.")
    return [found[run_id] for run_id in dict.fromkeys(run_ids)]
