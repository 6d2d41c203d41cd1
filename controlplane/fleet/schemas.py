"""What the API takes and gives for instances."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import StringConstraints

from controlplane.core.rest import BodyIn
from controlplane.fleet.models import Attempt, Instance, Preflight
from controlplane.fleet.queries import LogPage
from controlplane.fleet.services.smoking import DEFAULT_PROMPT

MAX_GPUS = 64
MAX_TEXT = 4000
Line = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]


class PlaceIn(BodyIn):
    """What to launch where."""

    config_version_id: int
    engine_id: int = Field(description="Which vLLM, and with it which host.")
    gpu_uuids: list[Line] | None = Field(
        default=None, max_length=MAX_GPUS, description="null: as many free ones as the config needs."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="null: the config's, or the next free one.")


class LaunchIn(PlaceIn):
    override_reason: Line = Field(
        default="", description="Launch although a check fails, and why. The host itself may still refuse."
    )


class RelaunchIn(BodyIn):
    override_reason: Line = ""


class StopIn(BodyIn):
    why: Line = ""


class SmokeIn(BodyIn):
    prompt: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00]*$")] = DEFAULT_PROMPT


class FixOut(Schema):
    label: str
    verb: str
    section: str
    key: str
    value: Any = None
    also: list[dict[str, Any]] = []  # edits made with it: section, key, value


class CheckOut(Schema):
    code: str
    label: str
    outcome: Literal["pass", "warn", "fail", "skip"]
    sentence: str
    arithmetic: str
    remedy: str
    fixes: list[FixOut]


class PreflightOut(Schema):
    """`failed` means that the host could not be asked; what the checks found is `may_launch`."""

    id: int
    state: Literal["queued", "finished", "failed"]
    config_version_id: int
    engine_id: int
    host: str
    gpu_uuids: list[str]
    port: int | None
    may_launch: bool | None
    checks: list[CheckOut]
    argv: list[str]
    predicted_kv_tokens: int | None
    error: str
    error_remedy: str
    created_at: datetime


class InstanceOut(Schema):
    id: int
    name: str
    config: str
    config_version: int
    config_version_id: int
    environment: str | None
    host: str
    host_id: int
    engine_id: int
    engine_version: str
    gpu_uuids: list[str]
    bind: str
    port: int
    served_model_name: str
    desired: Literal["running", "stopped"]
    state: Literal["pending", "starting", "ready", "draining", "stopped", "failed"]
    state_since: datetime
    reason: str
    is_host_silent: bool = Field(description="Its host does not answer: the state is the last known one.")
    observed_at: datetime | None
    predicted_kv_tokens: int | None
    measured_kv_tokens: int | None
    max_concurrency: float | None
    weights_bytes: int | None
    resident_bytes: int | None
    ready_s: float | None
    metrics: dict[str, Any]
    created_by: str
    created_at: datetime


class AttemptOut(Schema):
    id: int
    number: int
    outcome: Literal["running", "stopped", "failed", "crashed", "refused", "lost"]
    argv: list[str]
    injected: list[str] = Field(description="The part of argv that the control plane added.")
    environment: dict[str, str]
    preflight: list[CheckOut]
    process: dict[str, Any]
    startup: dict[str, Any] = Field(description="What the log said: steps, weights, KV cache.")
    started_at: datetime
    launched_at: datetime | None
    ready_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    exit_signal: str
    leftovers: list[dict[str, Any]] = Field(description="What outlived the main process, and what became of it.")
    failure_code: str
    failure: str
    failure_line: str
    failure_line_number: int | None
    remedy: str
    fixes: list[FixOut]


class InstanceDetailOut(InstanceOut):
    base_url: str
    override_reason: str
    smoke: dict[str, Any]
    drift: list[dict[str, Any]] = Field(description="Arguments that differ between declared and running.")
    attempt: AttemptOut | None = Field(description="The newest.")


class LogRowOut(Schema):
    number: int
    level: Literal["debug", "info", "warning", "error"]
    process: str
    text: str


class LogOut(Schema):
    """Ask again with `after` = `last_line`; `is_end` says that nothing was copied beyond it yet."""

    lines: list[LogRowOut]
    last_line: int
    is_end: bool
    is_over: bool = Field(description="The attempt has ended: nothing more will come.")


class CommandOut(Schema):
    """`text` is the file; a key is never in it."""

    format: Literal["argv", "shell", "systemd", "compose"]
    argv: list[str]
    text: str


def instance_out(instance: Instance) -> dict[str, Any]:
    version, deployment = instance.config_version, instance.deployment
    return {
        **{name: getattr(instance, name) for name in _INSTANCE_FIELDS},
        "config": version.config.name,
        "config_version": version.number,
        "environment": deployment.environment.name if deployment else None,
        "host": instance.host.name,
        "engine_version": instance.engine.version,
    }


def instance_detail_out(instance: Instance, attempt: Attempt | None) -> dict[str, Any]:
    return {
        **instance_out(instance),
        **{name: getattr(instance, name) for name in ("base_url", "override_reason", "smoke", "drift")},
        "attempt": attempt_out(attempt) if attempt else None,
    }


def attempt_out(attempt: Attempt) -> dict[str, Any]:
    shown = {name: getattr(attempt, name) for name in _ATTEMPT_FIELDS}
    shown["process"] = {name: value for name, value in attempt.process.items() if name != "nonce"}
    return shown


def preflight_out(preflight: Preflight) -> dict[str, Any]:
    is_known = preflight.state == Preflight.State.FINISHED
    return {
        **{name: getattr(preflight, name) for name in PreflightOut.model_fields if name not in {"host", "may_launch"}},
        "host": preflight.engine.host.name,
        "may_launch": all(check["outcome"] != "fail" for check in preflight.checks) if is_known else None,
    }


def log_out(page: LogPage, attempt: Attempt) -> dict[str, Any]:
    lines = [{"number": row.number, "level": row.level, "process": row.process, "text": row.text} for row in page.lines]
    is_over = attempt.outcome != Attempt.Outcome.RUNNING
    return {"lines": lines, "last_line": page.last_line, "is_end": page.is_end, "is_over": is_over}


_JOINED = {"config", "config_version", "environment", "host", "engine_version"}
_INSTANCE_FIELDS = tuple(name for name in InstanceOut.model_fields if name not in _JOINED)
_ATTEMPT_FIELDS = tuple(AttemptOut.model_fields)
