"""What the promote page offers: versions with what was measured of them, and ready instances to take over."""

from collections.abc import Sequence
from itertools import groupby

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Instance, State

VERSIONS_OFFERED = 300


def candidates() -> QuerySet[ConfigVersion]:
    """Versions with finished runs, newest first; `run_count` says how many."""
    finished = Run.objects.filter(config_version=OuterRef("pk"), state=Run.State.FINISHED)
    return _counted().filter(Exists(finished), config__archived_at=None)


def version_groups(chosen: ConfigVersion | None) -> list[tuple[str, list[ConfigVersion]]]:
    """(config, its versions from the newest), of configs that are not archived, the last changed version's first.
    The chosen one is always among them."""
    found = list(_counted().filter(config__archived_at=None)[:VERSIONS_OFFERED])
    if chosen is not None and chosen not in found:
        found += _counted().filter(pk=chosen.pk)
    place = {name: number for number, name in reversed(list(enumerate(version.config.name for version in found)))}
    found.sort(key=lambda version: (place[version.config.name], -version.number))
    return [(name, list(group)) for name, group in groupby(found, key=lambda version: version.config.name)]


def instances_to_take_over(version: ConfigVersion) -> Sequence[Instance]:
    """Ready instances of the version that serve nothing, newest first."""
    return list(
        Instance.objects.filter(
            config_version=version, deployment=None, state=State.READY, desired=Instance.Desired.RUNNING
        )
        .select_related("host", "engine")
        .defer("sealed_key", "smoke", "drift", "host__facts")
        .order_by("-id")[:VERSIONS_OFFERED]
    )


def _counted() -> QuerySet[ConfigVersion]:
    finished = Run.objects.filter(config_version=OuterRef("pk"), state=Run.State.FINISHED).order_by()
    count = finished.values("config_version").annotate(count=Count("pk")).values("count")
    return (
        ConfigVersion.objects.select_related("config")
        .defer("toml", "content")
        .annotate(run_count=Coalesce(Subquery(count), 0))
        .order_by("-pk")
    )
