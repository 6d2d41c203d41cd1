"""Environments with what serves in them, why, what waits and what is going on; as many queries at any size."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.core.models import Event
from controlplane.fleet.models import LIVE_STATES, Deployment, Environment, Instance, State
from controlplane.release.models import UNDER_WAY, Promotion
from controlplane.release.queries.evidence import Evidence, evidence_of
from controlplane.release.queries.promotions import (
    WayBack,
    before_id_of,
    joined,
    last_live_of_each,
    last_of_each,
    ways_back,
)
from controlplane.release.queries.story import Step, passages_of, story_of

EVENTS_SHOWN = 15
_INSTANCE_SHOWN = (
    "name", "deployment", "state", "state_since", "desired", "reason", "is_host_silent", "port", "gpu_uuids",
    "host__name", "config_version__number", "config_version__config__name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """One deployment: `serving` is the instance (None: nothing serves), `live` the promotion it serves by, `under_way`
    the one that goes on, `waiting` a newer version that is measured, `failed` what should serve and does not."""

    deployment: Deployment
    serving: Instance | None
    failed: Instance | None
    live: Promotion | None
    evidence: Evidence | None
    under_way: Promotion | None
    steps: Sequence[Step]
    waiting: ConfigVersion | None
    way_back: WayBack | None
    changes: Sequence[Promotion]

    @property
    def state(self) -> str:
        """The word of the row, as `templatetags/states.py` draws it."""
        if self.under_way is not None:
            return "rolling"
        if self.serving is not None:
            if self.serving.is_host_silent:
                return "unreachable"
            return "live" if self.serving.state == State.READY else self.serving.state
        if not self.deployment.is_enabled:
            return "retired" if self.live else "stopped"
        return "failed"

    @property
    def running(self) -> Instance | None:
        """What taking out of service would stop."""
        return self.serving or self.failed


@dataclass(frozen=True, slots=True)
class Standing:
    """How a deployment stands, as far as order and counts ask."""

    pk: int
    environment_id: int
    name: str
    is_wanted: bool
    is_well: bool
    is_moving: bool

    @property
    def urgency(self) -> tuple[bool, bool, str]:
        """What moves goes first, then what should serve and does not, then the rest by name."""
        return not self.is_moving, self.is_well or not self.is_wanted, self.name


@dataclass(frozen=True, slots=True)
class EnvironmentView:
    """`rows` may be a few only, those after the first `start`; `standings` are of all, in the same order."""

    environment: Environment
    rows: Sequence[DeploymentView] = field(default_factory=list)
    standings: Sequence[Standing] = field(default_factory=list)
    start: int = 0

    @property
    def total(self) -> int:
        return len(self.standings)

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)

    @property
    def end(self) -> int:
        return self.start + len(self.rows)

    @property
    def is_moving(self) -> bool:
        return any(_is_moving(row) for row in self.rows)

    @property
    def sentence(self) -> str:
        """What serves, in words."""
        if not self.total:
            return _("Nothing is promoted here.")
        wanted = [one for one in self.standings if one.is_wanted]
        well = sum(one.is_well for one in wanted)
        return _("%(well)d of %(wanted)d serving.") % {"well": well, "wanted": len(wanted)}


def environment_views(
    environment: Environment | None = None, *, start: int = 0, limit: int | None = None, changes: int = 0
) -> list[EnvironmentView]:
    """All environments (or one), the most important first, with their deployments: what moves, then what should serve
    and does not, then the rest by name. `limit`: at most so many of each environment, after the first `start`;
    `changes`: with so many of the last promotions of each."""
    environments = [environment] if environment else list(Environment.objects.order_by("-rank", "name"))
    standings = _standings(environments)
    shown = [one.pk for here in standings.values() for one in here[start : None if limit is None else start + limit]]
    found = deployments().in_bulk(shown)
    rows: dict[int, list[DeploymentView]] = defaultdict(list)
    for row in deployment_views([found[pk] for pk in shown if pk in found], changes=changes):
        rows[row.deployment.environment_id].append(row)
    return [EnvironmentView(one, rows[one.pk], standings[one.pk], start) for one in environments]


def _standings(environments: Sequence[Environment]) -> dict[int, list[Standing]]:
    """Of every deployment, by environment, the most urgent first; one query of a line each, so that only what is shown
    is read whole."""
    moves = Promotion.objects.filter(deployment=OuterRef("pk"), state__in=UNDER_WAY)
    found = (
        Deployment.objects.filter(environment__in=environments)
        .order_by()
        .annotate(is_well=Exists(_ready()), is_moving=Exists(moves))
    )
    by_environment: dict[int, list[Standing]] = {one.pk: [] for one in environments}
    for row in found.values_list("pk", "environment_id", "name", "is_enabled", "is_well", "is_moving"):
        by_environment[row[1]].append(Standing(*row))
    return {pk: sorted(here, key=lambda one: one.urgency) for pk, here in by_environment.items()}


def _ready() -> QuerySet[Instance]:
    return Instance.objects.filter(
        deployment=OuterRef("pk"), state=State.READY, desired=Instance.Desired.RUNNING, is_host_silent=False
    )


def deployment_views(deployments: Sequence[Deployment], *, changes: int = 0) -> list[DeploymentView]:
    """Everything about these deployments in a fixed number of queries, with so many last `changes` of each."""
    ids = [deployment.pk for deployment in deployments]
    instances = _instances(ids)
    live = {one.deployment_id: one for one in last_live_of_each(ids)}
    moving = {one.deployment_id: one for one in joined().filter(deployment__in=ids, state__in=UNDER_WAY)}
    for deployment in deployments:
        for one in (live.get(deployment.pk), moving.get(deployment.pk)):
            if one is not None:
                one.environment = deployment.environment
    before_ids = [pk for one in live.values() if (pk := before_id_of(one))]
    before = {one.pk: one for one in ways_back(before_ids)}
    waiting, passages = _waiting(deployments), passages_of(moving.values())
    past: dict[int, list[Promotion]] = defaultdict(list)
    for one in last_of_each(ids, count=changes) if changes else ():
        past[one.deployment_id].append(one)
    return [
        _view(
            deployment,
            instances=instances[deployment.pk],
            live=live.get(deployment.pk),
            before=before,
            under_way=moving.get(deployment.pk),
            waiting=waiting.get(deployment.pk),
            changes=past[deployment.pk],
            steps=story_of(moving[deployment.pk], passages) if deployment.pk in moving else (),
        )
        for deployment in deployments
    ]


def deployments() -> QuerySet[Deployment]:
    """Deployments with what a row says of them, in the order of their environments."""
    return (
        Deployment.objects.select_related("environment", "config_version__config")
        .defer("config_version__toml", "config_version__content", "config_version__config__description")
        .order_by("-environment__rank", "environment__name", "name")
    )


def deployment_named(environment: str, config: str) -> Deployment:
    """Deployment.DoesNotExist when that config was never promoted there."""
    return deployments().get(environment__name=environment, name=config)


def environment_named(name: str) -> Environment:
    return Environment.objects.get(name=name)


def events_of_environment(environment: Environment) -> list[Event]:
    """What happened to its promotions and deployments, newest first."""
    subjects = {
        "promotion": Promotion.objects.filter(environment=environment).order_by("-id").values_list("pk", flat=True),
        "deployment": Deployment.objects.filter(environment=environment).values_list("pk", flat=True),
    }
    found: list[Event] = []
    for kind, ids in subjects.items():
        named = [str(pk) for pk in ids[: 10 * EVENTS_SHOWN]]
        found += Event.objects.filter(subject_type=kind, subject_id__in=named).order_by("-id")[:EVENTS_SHOWN]
    return sorted(found, key=lambda event: -event.pk)[:EVENTS_SHOWN]


def events_of_promotion(promotion: Promotion) -> QuerySet[Event]:
    """Everything that happened to it, newest first."""
    found = Event.objects.filter(subject_type="promotion", subject_id=str(promotion.pk))
    return found.order_by("-id")[:EVENTS_SHOWN]


def _instances(ids: Sequence[int]) -> dict[int | None, list[Instance]]:
    """What lives or has failed in each deployment, newest first."""
    found: dict[int | None, list[Instance]] = defaultdict(list)
    wanted = Instance.objects.filter(deployment__in=ids, state__in=[*LIVE_STATES, State.FAILED])
    for instance in wanted.select_related("host", "config_version__config").only(*_INSTANCE_SHOWN).order_by("-id"):
        found[instance.deployment_id].append(instance)
    return found


def _waiting(deployments: Sequence[Deployment]) -> dict[int, ConfigVersion]:
    """Deployment → the newest version of its config that is newer than its own and has a finished run."""
    measured = Run.objects.filter(config_version=OuterRef("pk"), state=Run.State.FINISHED)
    configs = {deployment.config_version.config_id for deployment in deployments}
    found = ConfigVersion.objects.filter(Exists(measured), config__in=configs).only("config", "number")
    newest = {version.config_id: version for version in found.order_by("config_id", "-number").distinct("config_id")}
    return {
        deployment.pk: newest[config_id]
        for deployment in deployments
        if (config_id := deployment.config_version.config_id) in newest
        and newest[config_id].number > deployment.config_version.number
    }


def _view(
    deployment: Deployment,
    *,
    instances: Sequence[Instance],
    live: Promotion | None,
    before: dict[int, Promotion],
    under_way: Promotion | None,
    waiting: ConfigVersion | None,
    changes: Sequence[Promotion],
    steps: Sequence[Step],
) -> DeploymentView:
    wanted = [one for one in instances if one.desired == Instance.Desired.RUNNING]
    coming = under_way.instance_id if under_way else None
    serving = next((one for one in wanted if one.is_live and one.pk != coming), None)
    failed = next((one for one in wanted if not one.is_live), None)
    return DeploymentView(
        deployment=deployment,
        serving=serving,
        failed=failed if serving is None else None,
        live=live,
        evidence=evidence_of(live) if live else None,
        under_way=under_way,
        steps=steps,
        waiting=waiting if deployment.is_enabled or live else None,
        way_back=_way_back(live, before, is_serving=serving is not None),
        changes=changes,
    )


def _way_back(live: Promotion | None, before: dict[int, Promotion], *, is_serving: bool) -> WayBack | None:
    """As `promotions.way_back`, from what was read for all deployments at once."""
    if live is None:
        return None
    if not is_serving:
        return WayBack(live, is_restart=True)
    to = before.get(before_id_of(live) or 0)
    return WayBack(to, is_restart=False) if to else None


def _is_moving(row: DeploymentView) -> bool:
    """Whether it is worth looking again soon."""
    is_settled = row.serving is None or row.serving.state == State.READY
    return row.under_way is not None or not is_settled
