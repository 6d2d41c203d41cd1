"""The overview in a constant number of queries."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.fields.json import KT

from controlplane.bench.models import Run
from controlplane.configs.models import Config, ConfigVersion
from controlplane.core.models import Event
from controlplane.core.searching import Natural
from controlplane.fleet.models import LIVE_STATES, Deployment, Environment, Instance, State
from controlplane.inventory.models import Accelerator, Host, ModelArtifact
from controlplane.ops.queries import address_of
from controlplane.release.models import Promotion
from controlplane.web.domain.overview import (
    DeploymentRow,
    FirstSteps,
    Headline,
    Lane,
    Square,
    Step,
    figure,
    headline,
    needs_look,
    total,
)
from controlplane.web.queries.attention import Need, needs
from controlplane.web.queries.links import page_url

HOSTS_SHOWN = 24
"""Hosts in the strip; the rest is one click away. 24 machines of 8 GPUs fill half a screen."""
EVENTS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class HostStrip:
    """A host and its GPUs. `gpu_status` as the probe said it, for a host without any."""

    host: Host
    url: str
    is_unreachable: bool
    gpus: Sequence[Accelerator]
    gpu_status: str


@dataclass(frozen=True, slots=True)
class Overview:
    headline: Headline
    lanes: Sequence[Lane]
    hosts: Sequence[HostStrip]
    hosts_left_out: int
    needs: Sequence[Need]
    events: Sequence[tuple[Event, str]]
    first_steps: FirstSteps

    @property
    def is_moving(self) -> bool:
        """Whether it is worth asking again soon."""
        return bool(self.hosts) or any(lane.rows for lane in self.lanes)


def overview() -> Overview:
    lanes = _lanes()
    hosts, left_out = _hosts()
    newest = list(Event.objects.defer("data")[:EVENTS_SHOWN])
    return Overview(
        headline=headline(lanes),
        lanes=lanes,
        hosts=hosts,
        hosts_left_out=left_out,
        needs=needs(),
        events=[(event, address_of(event.subject_type, event.subject_id)) for event in newest],
        first_steps=_first_steps(),
    )


def _lanes() -> list[Lane]:
    rows: dict[int, list[DeploymentRow]] = defaultdict(list)
    deployments = list(_deployments())
    instances = _instances_by_deployment([deployment.pk for deployment in deployments])
    newer = newer_measured_versions(deployments)
    for deployment in deployments:
        rows[deployment.environment_id].append(
            _row(deployment, instances.get(deployment.pk, []), newer.get(deployment.pk))
        )
    return [
        Lane(
            name=environment.name,
            url=page_url("release:environment_detail", environment),
            rows=sorted(rows[environment.pk], key=needs_look),
        )
        for environment in Environment.objects.order_by("-rank", "name")
    ]


def _deployments() -> QuerySet[Deployment]:
    rolling = Promotion.objects.filter(
        deployment=OuterRef("pk"), state__in=[Promotion.State.PENDING, Promotion.State.ROLLING]
    )
    return (
        Deployment.objects.select_related("environment", "config_version__config")
        .defer("config_version__toml", "config_version__content")
        .annotate(is_rolling=Exists(rolling))
        .order_by("-environment__rank", "name")
    )


def _instances_by_deployment(deployment_ids: list[int]) -> dict[int | None, list[Instance]]:
    """What lives, and what failed without anybody wanting it stopped, oldest first."""
    found: dict[int | None, list[Instance]] = defaultdict(list)
    wanted = Instance.objects.filter(deployment__in=deployment_ids).filter(
        state__in=[*LIVE_STATES, State.FAILED], desired=Instance.Desired.RUNNING
    )
    for instance in wanted.only("name", "state", "reason", "metrics", "is_host_silent", "deployment").order_by("pk"):
        found[instance.deployment_id].append(instance)
    return found


def newer_measured_versions(deployments: Sequence[Deployment]) -> dict[int, int]:
    """Deployment → the newest version of its config that has a finished run and is newer than what is promoted."""
    measured = Run.objects.filter(config_version=OuterRef("pk"), state=Run.State.FINISHED)
    configs = {deployment.config_version.config_id for deployment in deployments}
    versions = ConfigVersion.objects.filter(Exists(measured), config__in=configs).order_by("number")
    newest = dict(versions.values_list("config_id", "number"))  # the last, highest, number of a config stays
    return {
        deployment.pk: newest[deployment.config_version.config_id]
        for deployment in deployments
        if newest.get(deployment.config_version.config_id, 0) > deployment.config_version.number
    }


def _row(deployment: Deployment, instances: Sequence[Instance], newer: int | None) -> DeploymentRow:
    ready = [instance for instance in instances if instance.state == State.READY]
    failed = [instance for instance in instances if instance.state == State.FAILED]
    shares = [share for one in ready if (share := figure(one.metrics, "kv_usage")) is not None]
    running, waiting = (total(figure(one.metrics, key) for one in ready) for key in ("running", "waiting"))
    return DeploymentRow(
        pk=deployment.pk,
        name=deployment.name,
        environment=deployment.environment.name,
        version=deployment.config_version.number,
        config_url=page_url("configs:config_detail", deployment.config_version.config),
        is_enabled=deployment.is_enabled,
        squares=[Square(one.pk, one.name, one.state, page_url("fleet:instance_detail", one)) for one in instances],
        ready=len(ready),
        is_rolling=bool(getattr(deployment, "is_rolling", False)),
        is_host_silent=bool(ready) and all(instance.is_host_silent for instance in ready),
        reason=failed[-1].reason if failed and not ready else "",
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        kv_share=max(shares, default=None),
        output_tokens_per_s=total(figure(one.metrics, "output_throughput") for one in ready),
        newer_version=newer,
    )


def _hosts() -> tuple[list[HostStrip], int]:
    """Hosts that need a look first, then by name."""
    trouble = [Host.State.UNREACHABLE, Host.State.REFUSED]
    hosts = list(
        Host.objects.annotate(gpu_status=KT("facts__gpu__status"))
        .only("name", "state", "is_in_maintenance")
        .order_by(Natural("name"))
    )
    hosts.sort(key=lambda host: host.state not in trouble)
    shown = hosts[:HOSTS_SHOWN]
    gpus = _gpus(shown)
    strips = [
        HostStrip(
            host=host,
            url=page_url("inventory:host_detail", host),
            is_unreachable=host.state in trouble,
            gpus=gpus.get(host.pk, []),
            gpu_status=str(getattr(host, "gpu_status", "") or ""),
        )
        for host in shown
    ]
    return strips, len(hosts) - len(shown)


def _gpus(hosts: Sequence[Host]) -> dict[int, list[Accelerator]]:
    found: dict[int, list[Accelerator]] = defaultdict(list)
    columns = ("host", "index", "name", "memory_total_bytes", "memory_used_bytes", "utilisation_percent", "processes")
    for gpu in Accelerator.objects.filter(host__in=hosts, missing_since=None).only(*columns).order_by("host", "index"):
        found[gpu.host_id].append(gpu)
    return found


def _first_steps() -> FirstSteps:
    """None once something was promoted: whoever got there needs no guide."""
    if Promotion.objects.exists():
        return FirstSteps()
    done = [
        ("host", Host.objects.exists(), "inventory:host_add"),
        ("model", ModelArtifact.objects.exists(), "inventory:model_add"),
        ("config", Config.objects.exists(), "configs:config_import"),
        ("launch", Instance.objects.exists(), "fleet:launch"),
        ("benchmark", Run.objects.exists(), "bench:run_start"),
        ("promote", False, "release:promote"),
    ]
    return FirstSteps([Step(key, is_done, page_url(name)) for key, is_done, name in done])
