"""What would break on another vLLM, and what an import would do."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from controlplane.configs.domain.checking import what_breaks as problems_by_config
from controlplane.configs.domain.difference import Change, differences
from controlplane.configs.domain.document import read
from controlplane.configs.domain.naming import name_for
from controlplane.configs.domain.problem import Problem
from controlplane.configs.models import Config, ConfigVersion
from controlplane.configs.queries.checks import Checked, check_text, fixes_of
from controlplane.configs.queries.configs import environments_of, latest_version, words_of
from controlplane.configs.queries.targets import Target, target_of
from controlplane.core import secrets_store
from controlplane.core.errors import Problem as Refusal
from controlplane.inventory.queries import LIVE_INSTANCE_STATES


@dataclass(frozen=True, slots=True)
class Broken:
    """A version with what a release would say against it. `environments` are those of its config."""

    version: ConfigVersion
    problems: Sequence[Problem]
    environments: Sequence[str]
    is_latest: bool

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.is_error]

    @property
    def can_be_fixed(self) -> bool:
        """Every error knows its own cure."""
        return bool(self.errors) and all(problem.fix for problem in self.errors)

    @property
    def fixes(self) -> dict[tuple[str, str], Any]:
        return fixes_of(self.problems)


@dataclass(frozen=True, slots=True)
class Breakage:
    """The answer for one release: `rows` has the versions with problems, `looked_at` counts all."""

    target: Target
    rows: list[Broken]
    looked_at: int

    @property
    def broken(self) -> int:
        return sum(bool(row.errors) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Preview:
    """What importing a text would do. `same` is the version that it would be again; `number` the one it would get."""

    name: str
    config: Config | None
    same: ConfigVersion | None
    number: int
    changes: tuple[Change, ...]
    is_comments_only: bool
    has_plain_key: bool
    checked: Checked

    @property
    def words(self) -> list[str]:
        return [words_of(change) for change in self.changes]


def what_breaks(release: str = "") -> Breakage:
    """The latest version of every config, and what is deployed or runs, if their engine were `release`."""
    target = target_of(release=release)
    versions = {version.pk: version for version in _versions_that_matter()}
    found = problems_by_config({pk: version.content for pk, version in versions.items()}, target.version)
    newest: dict[int, int] = {}
    for version in versions.values():
        newest[version.config_id] = max(version.number, newest.get(version.config_id, 0))
    environments = environments_of({versions[pk].config_id for pk in found})
    rows = [
        Broken(version, found[pk], environments.get(version.config_id, []), version.number == newest[version.config_id])
        for pk, version in versions.items()
        if pk in found
    ]
    return Breakage(target, rows, len(versions))


def preview_of(raw: bytes, *, name: str, target: Target) -> Preview:
    """What `services.import_config` would make of a text, without making it."""
    reading = read(raw)
    checked = check_text(raw, reading, target)
    name = name or name_for(reading.content)
    config = Config.objects.filter(name=name).first()
    latest = latest_version(config) if config else None
    number = latest.number + 1 if latest else 1
    document = reading.document
    has_plain_key = document is not None and document.secret_text is not None
    if document is None or config is None or latest is None:
        return Preview(name, config, None, number, (), False, has_plain_key, checked)
    if document.secret_text is not None:
        document = document.with_secret(reference_to(document.secret_text, config) or "?")
    same = config.versions.filter(file_digest=file_digest(document.toml)).select_related("config").first()
    changes = differences(latest.content, document.content)
    return Preview(name, config, same, number, changes, not changes and same is None, has_plain_key, checked)


def reference_to(plain: str, config: Config) -> str | None:
    """The reference under which a version of this config keeps the very same key: importing a file twice neither
    stores its key twice nor makes a second version."""
    references = config.versions.order_by().values_list("content__server__api_key", flat=True).distinct()
    for reference in references:
        try:
            if reference and hmac.compare_digest(secrets_store.reveal(reference).encode(), plain.encode()):
                return str(reference)
        except Refusal:  # removed since, or sealed with another key file: then it is not known to be the same
            continue
    return None


def file_digest(toml: str | bytes) -> str:
    """SHA-256 of the file as it is kept."""
    return hashlib.sha256(toml.encode() if isinstance(toml, str) else toml).hexdigest()


def _versions_that_matter() -> QuerySet[ConfigVersion]:
    kept = ConfigVersion.objects.filter(config__archived_at=None).order_by("config_id", "-number")
    latest = kept.distinct("config_id").values("pk")
    deployed = ConfigVersion.objects.filter(deployments__is_enabled=True).order_by().values("pk")
    running = ConfigVersion.objects.filter(instances__state__in=LIVE_INSTANCE_STATES).order_by().values("pk")
    found = ConfigVersion.objects.filter(Q(pk__in=latest) | Q(pk__in=deployed) | Q(pk__in=running))
    return found.select_related("config").only("number", "content", "config__name").order_by("config__name", "-number")
