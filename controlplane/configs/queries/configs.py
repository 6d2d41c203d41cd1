"""Configs and their versions, for lists and pages. A list costs as many queries at any length.

Instances, runs and deployments belong to apps above this one: they are read through relations and never imported.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, F, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from controlplane.configs.domain.difference import Change, differences
from controlplane.configs.models import Config, ConfigVersion
from controlplane.core.models import Event
from controlplane.core.searching import clean, ordered
from controlplane.inventory.models import ModelArtifact
from controlplane.inventory.queries import LIVE_INSTANCE_STATES

SORTS = {
    "name": ("name",),
    "changed": ("changed_at", "name"),
    "versions": ("version_count", "name"),
    "running": ("live_instances", "name"),
    "run": ("last_run_at", "name"),
}
RUNS_SHOWN = 20
EVENTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A config of a list. `environments` are the names where one of its versions is deployed; `model_id` is the
    inventory's model, where the weights of the latest version are known there."""

    config: Any
    latest: ConfigVersion | None
    environments: list[str] = field(default_factory=list)
    model_id: int | None = None

    @property
    def model_path(self) -> str:
        return str(self.config.model_path or "")

    @property
    def model_name(self) -> str:
        """The last part of a path; a repository id is a name already."""
        path = self.model_path
        return path.rstrip("/").rpartition("/")[2] if path.startswith(("/", "~", ".")) else path


def configs(*, search: str = "", is_archived: bool = False, sort: str = "") -> QuerySet[Config]:
    """Configs with counts, `last_run_at`, and `changed_at` and `model_path` of the latest version (`_annotated`)."""
    found = _annotated().filter(archived_at__isnull=not is_archived)
    if text := clean(search):
        found = found.filter(Q(name__icontains=text) | Q(description__icontains=text) | Q(model_path__icontains=text))
    return ordered(found, sort, SORTS, default="name", tie="pk")


def rows_of(found: Iterable[Any]) -> list[ConfigRow]:
    """What a list shows beside each config, in three queries for all of them."""
    found = list(found)
    ids = [config.pk for config in found]
    newest = ConfigVersion.objects.filter(config__in=ids).order_by("config_id", "-number").distinct("config_id")
    latest = {version.config_id: version for version in newest.defer("toml", "content")}
    environments = environments_of(ids)
    paths = [config.model_path for config in found if config.model_path]
    models = dict(ModelArtifact.objects.filter(location__in=paths).order_by("-pk").values_list("location", "pk"))
    return [
        ConfigRow(
            config,
            latest.get(config.pk),
            environments.get(config.pk, []),
            models.get(getattr(config, "model_path", "")),
        )
        for config in found
    ]


def environments_of(config_ids: Iterable[int]) -> Mapping[int, list[str]]:
    """Config → names of the environments that run a version of it, in their order of rank."""
    deployed = (
        ConfigVersion.objects.filter(config__in=list(config_ids), deployments__is_enabled=True)
        .order_by("-deployments__environment__rank", "deployments__environment__name")
        .values_list("config_id", "deployments__environment__name")
    )
    found: dict[int, list[str]] = defaultdict(list)
    for config_id, name in deployed:
        if name not in found[config_id]:
            found[config_id].append(name)
    return found


def config_named(name: str) -> Any:
    """A config by name, or by its number as links have it, annotated as in `configs`. Raises Config.DoesNotExist."""
    if "\x00" in name:
        raise Config.DoesNotExist
    wanted = {"pk": int(name)} if name.isdecimal() and len(name) < 19 else {"name": name}
    return _annotated().get(**wanted)


def version_of(name: str, number: int) -> ConfigVersion:
    """Version `number` of the config. Raises ConfigVersion.DoesNotExist, Config.DoesNotExist."""
    return version_details().get(config=config_named(name), number=number)


def version_details() -> QuerySet[ConfigVersion]:
    return ConfigVersion.objects.select_related("config", "parent__config")


def versions_of(config: Config) -> QuerySet[ConfigVersion]:
    """The newest first, with the content of each and of its parent, and without the files."""
    return config.versions.select_related("config", "parent").defer("toml", "parent__toml").order_by("-number")


def latest_version(config: Config) -> ConfigVersion | None:
    return config.versions.select_related("config").order_by("-number").first()


def siblings_of(version: ConfigVersion) -> QuerySet[ConfigVersion]:
    """What it can be compared with at a click: other versions of its config."""
    return version.config.versions.exclude(pk=version.pk).defer("toml", "content").order_by("-number")


def where_it_runs(config: Config) -> QuerySet[Any]:
    """Live instances of all versions, with host and version number."""
    return _live_instances().filter(config_version__config=config).order_by("name")


def where_version_runs(version: ConfigVersion) -> QuerySet[Any]:
    return _live_instances().filter(config_version=version).order_by("name")


def runs_of(**wanted: Any) -> QuerySet[Any]:
    """The latest runs: `runs_of(config_version=…)` or `runs_of(config_version__config=…)`."""
    runs = _related("runs").filter(**wanted).select_related("workload", "config_version", "host")
    columns = ("state", "created_at", "workload__name", "config_version__number", "host__name")
    return runs.only(*columns).order_by("-pk")[:RUNS_SHOWN]


def deployments_of(config: Config) -> QuerySet[Any]:
    """Enabled deployments of all versions, the most important environment first."""
    found = _related("deployments").filter(config_version__config=config, is_enabled=True)
    return (
        found.select_related("environment", "config_version")
        .only("environment__name", "environment__rank", "config_version__number", "updated_at")
        .order_by("-environment__rank", "environment__name")
    )


def events_of(config: Config) -> QuerySet[Event]:
    return Event.objects.filter(subject_type="config", subject_id=str(config.pk)).order_by("-id")[:EVENTS_SHOWN]


def changes_of(version: ConfigVersion) -> tuple[Change, ...]:
    """What a version changed of its parent, by meaning; nothing for one without a parent."""
    return differences(version.parent.content, version.content) if version.parent else ()


def is_comments_only(version: ConfigVersion) -> bool:
    """It means the same as its parent; only comments, order or notation differ."""
    return version.parent is not None and version.parent.digest == version.digest


def words_of(change: Change) -> str:
    """`max_num_seqs 64 → 128`; a dash stands for a key that is not set."""
    return f"{change.key} {text_of(change.before)} → {text_of(change.after)}"


def text_of(value: Any) -> str:
    """A value as a config writes it, text without its quotes; a dash for what is not set."""
    if value is None:
        return "–"
    if isinstance(value, float) and value.is_integer():  # written 8 as often as 8.0
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _annotated() -> QuerySet[Any]:
    versions = ConfigVersion.objects.filter(config=OuterRef("pk")).order_by("-number")
    return Config.objects.annotate(
        changed_at=Subquery(versions.values("created_at")[:1]),
        model_path=Subquery(versions.annotate(path=KT("content__model__model_path")).values("path")[:1]),
        version_count=_counted(ConfigVersion.objects.filter(config=OuterRef("pk"))),
        live_instances=_counted(
            ConfigVersion.objects.filter(config=OuterRef("pk"), instances__state__in=LIVE_INSTANCE_STATES)
        ),
        last_run_at=Subquery(_last_runs()[:1]),
    )


def _last_runs() -> QuerySet[Any]:
    """When each version of a config was measured last, the newest time first. Of each only its newest run is looked up:
    a page of configs would otherwise read half of all runs."""
    newest = _related("runs").filter(config_version=OuterRef("pk")).order_by("-pk").values("created_at")[:1]
    versions = ConfigVersion.objects.filter(config=OuterRef("pk")).annotate(at=Subquery(newest))
    return versions.order_by(F("at").desc(nulls_last=True)).values("at")


def _counted(found: QuerySet[ConfigVersion]) -> Any:
    counted = found.order_by().values("config").annotate(n=Count("*")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def _live_instances() -> QuerySet[Any]:
    live = _related("instances").filter(state__in=LIVE_INSTANCE_STATES)
    columns = ("name", "state", "state_since", "port", "host__name", "config_version__number")
    return live.select_related("host", "config_version").only(*columns)


def _related(name: str) -> QuerySet[Any]:
    """The rows behind a reverse relation of ConfigVersion, whose app lies above this one."""
    model: Any = ConfigVersion._meta.get_field(name).related_model
    found: QuerySet[Any] = model.objects.all()
    return found
