"""What the promote page offers: versions with what was measured of them, and ready instances to take over."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Instance, State
from controlplane.fleet.queries import Offer, by_config

INSTANCES_OFFERED = 50


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """A version with the number of finished runs that measured it."""

    version: ConfigVersion
    run_count: int


def version_groups(offer: Offer[ConfigVersion]) -> list[tuple[str, list[VersionChoice]]]:
    """(config, its versions on offer from the newest), the config with the newest of them first; one query."""
    counts = _finished_runs(offer.rows)
    return [
        (name, [VersionChoice(version, counts.get(version.pk, 0)) for version in versions])
        for name, versions in by_config(offer.rows)
    ]


def instances_to_take_over(version: ConfigVersion) -> Sequence[Instance]:
    """Ready instances of the version that serve nothing, newest first, by name and host."""
    ready = Instance.objects.filter(
        config_version=version, deployment=None, state=State.READY, desired=Instance.Desired.RUNNING
    )
    return list(ready.select_related("host").only("name", "host__name").order_by("-id")[:INSTANCES_OFFERED])


def _finished_runs(versions: Sequence[ConfigVersion]) -> dict[int, int]:
    finished = Run.objects.filter(config_version__in=versions, state=Run.State.FINISHED).order_by()
    return dict(finished.values_list("config_version").annotate(count=Count("pk")))
