"""What the API takes and gives for configs."""

from datetime import datetime
from typing import Any, Literal, Self

from ninja import Field, Schema
from pydantic import model_validator

from controlplane.configs.domain.naming import MAX_NAME, place_of
from controlplane.configs.models import ConfigVersion
from controlplane.configs.queries import (
    Breakage,
    Broken,
    Checked,
    Command,
    ConfigRow,
    FlagEntry,
    Target,
    changes_of,
    is_comments_only,
    shown,
)
from controlplane.core.rest import BodyIn
from controlplane.inventory.schemas import MAX_TEXT, Text

# Far above the limit of a config, so that its own message answers; and a bound for what is read into memory.
MAX_TOML = 1024 * 1024


class ConfigImportIn(BodyIn):
    toml: str = Field(max_length=MAX_TOML, description="The text of the file.")
    name: Text = Field(default="", max_length=200, description="Empty: after the served model name.")
    note: Text = Field(default="", max_length=MAX_TEXT)

    @property
    def raw(self) -> bytes:
        return self.toml.encode()


class ConfigCheckIn(BodyIn):
    """A text, and what to check it against: an engine, a release, or (with neither) the newest known release."""

    toml: Text = Field(max_length=MAX_TOML)
    release: Text = Field(default="", max_length=60)
    engine_id: int | None = None


class ConfigPatch(BodyIn):
    """Only what is given changes."""

    name: Text | None = Field(default=None, max_length=MAX_NAME)
    description: Text | None = Field(default=None, max_length=MAX_TEXT)
    is_archived: bool | None = None


class ConfigChangeIn(BodyIn):
    values: dict[str, Any] = Field(
        description="“section.key” → new value, null removes the key; a key alone finds its section by itself."
    )
    note: Text = Field(default="", max_length=MAX_TEXT)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.values:
            raise ValueError("“values” names no key.")
        return self

    def places(self) -> dict[tuple[str, str], Any]:
        return {place_of(key): value for key, value in self.values.items()}


class ConfigTargetIn(BodyIn):
    release: Text = Field(default="", max_length=60)
    engine_id: int | None = None


class ConfigProblemOut(Schema):
    """One thing that is wrong; `fix` are edits (section, key, value), null as value removes the key."""

    code: str
    severity: Literal["error", "warning", "info"]
    line: int | None
    column: int | None
    key: str
    message: str
    remedy: str
    replacement: str | None
    fix: list[list[Any]]
    source_line: str | None


class ConfigCheckOut(Schema):
    """`release` is the catalogue's that stands for the engine; `argv` is there when nothing is wrong."""

    ok: bool
    engine: str
    release: str
    note: str | None
    problems: list[ConfigProblemOut]
    argv: list[str] | None
    environment: dict[str, str]


class ConfigCommandOut(Schema):
    engine: str
    release: str
    note: str | None
    argv: list[str]
    environment: dict[str, str]


class KeyChangeOut(Schema):
    section: str
    key: str
    before: Any = None
    after: Any = None


class ConfigVersionOut(Schema):
    id: int
    config: str
    number: int
    digest: str
    file_digest: str
    parent: int | None = Field(description="The number of the version that it was made from.")
    note: str
    author: str
    created_at: datetime
    changes: list[KeyChangeOut]
    is_comments_only: bool


class ConfigVersionDetailOut(ConfigVersionOut):
    content: dict[str, dict[str, Any]]
    toml: str


class ConfigImportedOut(ConfigVersionDetailOut):
    is_new: bool = Field(description="False: the same file was there already, as this version.")


class ConfigOut(Schema):
    id: int
    name: str
    description: str
    created_by: str
    created_at: datetime
    archived_at: datetime | None
    latest_version: int | None
    version_count: int
    changed_at: datetime | None
    model_path: str
    live_instances: int
    environments: list[str]
    last_run_at: datetime | None


class ConfigDiffOut(Schema):
    before: str
    after: str
    changes: list[KeyChangeOut]
    unified: str


class BrokenConfigOut(Schema):
    config: str
    version: int
    version_id: int
    is_latest: bool
    environments: list[str]
    can_be_fixed: bool
    problems: list[ConfigProblemOut]


class ConfigBreakageOut(Schema):
    """`looked_at` versions were checked; `broken` of them would not start; `items` have problems or warnings."""

    release: str
    note: str | None
    looked_at: int
    broken: int
    items: list[BrokenConfigOut]


class FlagDefaultOut(Schema):
    release: str
    default: Any = None


class FlagOut(Schema):
    name: str
    key: str
    flags: list[str]
    kind: str
    choices: list[Any]
    help: str
    is_deprecated: bool
    added_in: str | None
    removed_in: str | None
    replacement: str | None
    note: str
    defaults: list[FlagDefaultOut]


def config_out(row: ConfigRow) -> ConfigOut:
    copied = "id name description created_by created_at archived_at version_count changed_at live_instances last_run_at"
    return ConfigOut(
        **{name: getattr(row.config, name) for name in copied.split()},
        latest_version=row.latest.number if row.latest else None,
        model_path=row.model_path,
        environments=row.environments,
    )


def version_out(version: ConfigVersion) -> ConfigVersionOut:
    return ConfigVersionOut(**_version_fields(version))


def version_detail_out(version: ConfigVersion) -> ConfigVersionDetailOut:
    return ConfigVersionDetailOut(**_detail_fields(version))


def imported_out(version: ConfigVersion, *, is_new: bool) -> ConfigImportedOut:
    return ConfigImportedOut(**_detail_fields(version), is_new=is_new)


def check_out(checked: Checked) -> ConfigCheckOut:
    command = checked.command
    return ConfigCheckOut(
        ok=checked.is_ok,
        **_target_fields(checked.target),
        problems=[problem_out(problem) for problem in checked.problems],
        argv=list(command.argv) if command else None,
        environment=command.environment if command else {},
    )


def command_out(command: Command, target: Target) -> ConfigCommandOut:
    return ConfigCommandOut(**_target_fields(target), argv=list(command.argv), environment=command.environment)


def problem_out(problem: dict[str, Any]) -> ConfigProblemOut:
    return ConfigProblemOut(**{**problem, "fix": [list(edit) for edit in problem["fix"]]})


def changes_out(changes: Any) -> list[KeyChangeOut]:
    return [KeyChangeOut(section=one.section, key=one.key, before=one.before, after=one.after) for one in changes]


def breakage_out(found: Breakage) -> ConfigBreakageOut:
    return ConfigBreakageOut(
        release=found.target.release,
        note=found.target.note,
        looked_at=found.looked_at,
        broken=found.broken,
        items=[_broken_out(row) for row in found.rows],
    )


def flag_out(entry: FlagEntry) -> FlagOut:
    return FlagOut(
        name=entry.dest,
        key=entry.key,
        flags=list(entry.flag.flags),
        kind=entry.flag.kind,
        choices=list(entry.flag.choices or ()),
        help=entry.flag.help_line,
        is_deprecated=entry.flag.deprecated,
        **{name: getattr(entry, name) for name in ("added_in", "removed_in", "replacement", "note")},
        defaults=[FlagDefaultOut(release=release, default=default) for release, default in entry.defaults],
    )


def _broken_out(row: Broken) -> BrokenConfigOut:
    return BrokenConfigOut(
        config=row.version.config.name,
        version=row.version.number,
        version_id=row.version.pk,
        is_latest=row.is_latest,
        environments=list(row.environments),
        can_be_fixed=row.can_be_fixed,
        problems=[problem_out(problem) for problem in shown(row.problems)],
    )


def _version_fields(version: ConfigVersion) -> dict[str, Any]:
    copied = ("id", "number", "digest", "file_digest", "note", "author", "created_at")
    return {name: getattr(version, name) for name in copied} | {
        "config": version.config.name,
        "parent": version.parent.number if version.parent else None,
        "changes": changes_out(changes_of(version)),
        "is_comments_only": is_comments_only(version),
    }


def _detail_fields(version: ConfigVersion) -> dict[str, Any]:
    text = bytes(version.toml).decode(errors="replace")
    return _version_fields(version) | {"content": version.content, "toml": text}


def _target_fields(target: Target) -> dict[str, Any]:
    return {"engine": target.label, "release": target.release, "note": target.note}
