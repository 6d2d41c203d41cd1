"""Promotions: one, many, and the way back from the last."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import F, OuterRef, Prefetch, Q, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from controlplane.bench.models import Run
from controlplane.core.searching import clean, ordered
from controlplane.fleet.models import LIVE_STATES, Deployment, Instance
from controlplane.inventory.models import Engine
from controlplane.release.models import UNDER_WAY, WENT_LIVE, Promotion
from controlplane.release.queries.evidence import evidence_runs, measured_runs

SORTS = {
    "when": ("created_at",),
    "environment": ("environment__name", "deployment__name"),
    "config": ("deployment__name",),
    "version": ("config_version__number",),
    "who": ("created_by",),
    "outcome": ("state",),
    "duration": ("duration",),
}
UNDER_WAY_WORD = "under_way"
_SHOWN = (
    "config_version__number",
    "config_version__digest",
    "config_version__config__name",
    "previous_version__number",
)
_ENGINE = Engine.objects.select_related("host").only("build", "version", "host__name")
_PARTY = Instance.objects.only(
    "name", "state", "state_since", "desired", "is_host_silent", "reason", "host", "port", "gpu_uuids"
)


def promotions(
    *, environment: str = "", config: str = "", state: str = "", who: str = "", search: str = "", sort: str = ""
) -> QuerySet[Promotion]:
    """Promotions for a list, newest first or as `sort` (a key of SORTS, with "-" the other way round) says.

    `environment`, `config` and `who` are whole names; `state` is a state or "under_way"; `search` looks at reasons,
    configs and people.
    """
    found = rows().prefetch_related("environment").annotate(duration=F("ended_at") - F("created_at"))
    if state:
        found = found.filter(state__in=UNDER_WAY) if state == UNDER_WAY_WORD else found.filter(state=clean(state))
    for lookup, wanted in (("environment__name", environment), ("deployment__name", config), ("created_by", who)):
        if wanted := clean(wanted):
            found = found.filter(**{lookup: wanted})
    if search := clean(search):
        found = found.filter(
            Q(why__icontains=search)
            | Q(reason__icontains=search)
            | Q(deployment__name__icontains=search)
            | Q(created_by__icontains=search)
        )
    return ordered(found, sort, SORTS)


def history(found: QuerySet[Promotion]) -> QuerySet[Promotion]:
    """`promotions` where only the numbers of their runs are shown beside them; two queries."""
    return found.prefetch_related(None).prefetch_related(Prefetch("runs", Run.objects.only("pk")))


def promotion_detail(promotion_id: int) -> Promotion:
    """One promotion with all that its page shows; Promotion.DoesNotExist when it is not there."""
    shown = joined(measured_runs()).prefetch_related("environment").select_related("preflight")
    return shown.get(pk=promotion_id)


def rows(runs: QuerySet[Run] | None = None) -> QuerySet[Promotion]:
    """With what a row shows, save the environment, and its `runs` as evidence; three queries. Joined is only what each
    row has of its own: the planner takes 2 ms for four tables and 20 ms for twelve, which is more than all the rows
    take to read."""
    return (
        Promotion.objects.select_related("config_version__config", "previous_version")
        .prefetch_related(Prefetch("engine", _ENGINE), Prefetch("runs", evidence_runs() if runs is None else runs))
        .only(*(field.attname for field in Promotion._meta.concrete_fields), *_SHOWN)
    )


def joined(runs: QuerySet[Run] | None = None) -> QuerySet[Promotion]:
    """`rows` with the new instance and the one it replaces; two queries more."""
    return rows(runs).prefetch_related(Prefetch("instance", _PARTY), Prefetch("replaces", _PARTY))


def last_of_each(deployment_ids: Collection[int], *, count: int) -> QuerySet[Promotion]:
    """The last `count` promotions of every deployment, newest first, with no more than a line about each shows."""
    place = Window(RowNumber(), partition_by=F("deployment"), order_by=F("id").desc())
    return (
        Promotion.objects.filter(deployment__in=deployment_ids)
        .select_related("config_version")
        .only("deployment", "state", "reason", "created_at", "created_by", "config_version__number")
        .annotate(place=place)
        .filter(place__lte=count)
        .order_by("-id")
    )


def ways_back(promotion_ids: Collection[int]) -> QuerySet[Promotion]:
    """These promotions with what a button says about going back to them."""
    return (
        Promotion.objects.filter(pk__in=promotion_ids)
        .select_related("config_version__config", "engine__host")
        .only("created_at", "config_version__number", "config_version__config__name", "engine__host__name")
    )


def last_live_of_each(deployment_ids: Collection[int]) -> QuerySet[Promotion]:
    """The last promotion of every deployment that went live; `before_id` is the one it can go back to."""
    before = Promotion.objects.filter(
        deployment=OuterRef("deployment"),
        config_version=OuterRef("previous_version"),
        state__in=WENT_LIVE,
        pk__lt=OuterRef("pk"),
    ).order_by("-id")
    last = Promotion.objects.filter(deployment__in=deployment_ids, state__in=WENT_LIVE).order_by("deployment_id", "-id")
    return (
        rows()
        .filter(pk__in=last.distinct("deployment_id").values("pk"))
        .annotate(before_id=Subquery(before.values("id")[:1]))
        .order_by("deployment_id")
    )


@dataclass(frozen=True, slots=True)
class WayBack:
    """What one click brings back: `to` is the promotion whose version, place and evidence are taken again. It is the
    one before the last where something serves, else the last itself."""

    to: Promotion
    is_restart: bool


def way_back(deployment: Deployment) -> WayBack | None:
    """The way back of one deployment; None when nothing ran there before."""
    last = last_live_of_each([deployment.pk]).first()
    if last is None:
        return None
    if serving(deployment) is None:
        return WayBack(last, is_restart=True)
    before_id = before_id_of(last)
    return WayBack(joined().get(pk=before_id), is_restart=False) if before_id else None


def before_id_of(last: Promotion) -> int | None:
    """The annotation of `last_live_of_each`."""
    before: int | None = getattr(last, "before_id", None)
    return before


def serving(deployment: Deployment) -> Instance | None:
    """The instance that serves the deployment now, or is about to; not one that is on its way out."""
    return live_instances([deployment.pk]).order_by("-id").first()


def live_instances(deployment_ids: Collection[int]) -> QuerySet[Instance]:
    """What lives and is wanted in these deployments."""
    return Instance.objects.filter(
        deployment__in=deployment_ids, state__in=LIVE_STATES, desired=Instance.Desired.RUNNING
    )
