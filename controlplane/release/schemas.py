"""What the API takes and gives for environments and promotions."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import StringConstraints

from controlplane.core.rest import BodyIn
from controlplane.fleet.models import Instance
from controlplane.release.models import Promotion
from controlplane.release.queries import DeploymentView, EnvironmentView, Evidence, Step, WayBack, evidence_of

MAX_TEXT = 4000
MAX_GPUS = 64
MAX_RUNS = 200
LARGEST_ID = 2**63 - 1
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]
StateWord = Literal["pending", "rolling", "live", "reverted", "failed", "superseded"]


class PromoteIn(BodyIn):
    """What is to serve where. Without `run_ids` a reason is needed."""

    environment: Name
    config: Name
    version: int = Field(ge=1, le=2**31 - 1, description="Its number.")
    engine_id: Id | None = Field(
        default=None, description="null: the instance's, else the one that serves now; needed where nothing does."
    )
    gpu_uuids: list[Name] = Field(
        default_factory=list, max_length=MAX_GPUS, description="[]: free ones, else those of what serves now."
    )
    instance_id: Id | None = Field(default=None, description="A ready one of that version, to take over.")
    run_ids: list[Id] = Field(default_factory=list, max_length=MAX_RUNS, description="The evidence.")
    why: Text = ""


class WhyIn(BodyIn):
    why: Text = ""


class EvidenceProblemOut(Schema):
    code: Literal[
        "no_evidence", "runs_gone", "run_not_valid", "other_config", "other_engine", "other_host", "instrument_limited"
    ]
    sentence: str


class EvidenceOut(Schema):
    """`problems`: where the runs do not, or no longer, speak for what is promoted."""

    run_ids: list[int]
    output_throughput: float | None = Field(description="Median, tokens a second; null for runs of several workloads.")
    problems: list[EvidenceProblemOut]


class PromotionOut(Schema):
    id: int
    environment: str
    config: str
    version: int
    config_version_id: int
    previous_version: int | None
    is_rollback: bool
    state: StateWord
    state_since: datetime
    reason: str = Field(description="What is going on, or how it ended, in words.")
    strategy: Literal["", "start_first", "stop_first"]
    is_abort_requested: bool
    is_reverting: bool
    is_taken_over: bool
    engine_id: int
    host: str
    gpu_uuids: list[str]
    instance_id: int | None
    replaces_instance_id: int | None
    why: str
    evidence: EvidenceOut
    evidence_digest: str
    created_by: str
    created_at: datetime
    ended_at: datetime | None


class StepOut(Schema):
    name: str
    state: Literal["done", "running", "waiting", "skipped", "failed"]
    seconds: float | None
    summary: str
    detail: str
    at: datetime | None


class PromotionDetailOut(PromotionOut):
    steps: list[StepOut]


class ServingOut(Schema):
    instance_id: int
    instance: str
    version: int
    host: str
    port: int
    state: str
    is_host_silent: bool


class WayBackOut(Schema):
    """What a rollback would bring."""

    version: int
    promotion_id: int
    is_restart: bool = Field(description="Nothing serves: it starts what served last.")


class DeploymentOut(Schema):
    config: str
    state: str
    version: int = Field(description="The promoted one.")
    is_enabled: bool
    serving: ServingOut | None
    live_promotion: PromotionOut | None
    promotion_under_way: PromotionOut | None
    version_waiting: int | None = Field(description="A newer one that is measured and not promoted.")
    way_back: WayBackOut | None


class EnvironmentOut(Schema):
    name: str
    rank: int
    deployments: list[DeploymentOut]


def promotion_out(promotion: Promotion, evidence: Evidence | None = None) -> dict[str, Any]:
    """`evidence`: where it was looked at already."""
    previous = promotion.previous_version
    return {
        **{name: getattr(promotion, name) for name in _PROMOTION_FIELDS},
        "environment": promotion.environment.name,
        "config": promotion.config_version.config.name,
        "version": promotion.config_version.number,
        "previous_version": previous.number if previous else None,
        "host": promotion.engine.host.name,
        "replaces_instance_id": promotion.replaces_id,
        "evidence": evidence_out(evidence or evidence_of(promotion)),
    }


def promotion_detail_out(promotion: Promotion, steps: list[Step]) -> dict[str, Any]:
    return {**promotion_out(promotion), "steps": steps}


def evidence_out(evidence: Evidence) -> dict[str, Any]:
    return {
        "run_ids": [run.pk for run in evidence.runs],
        "output_throughput": evidence.throughput,
        "problems": list(evidence.problems),
    }


def environment_out(view: EnvironmentView) -> dict[str, Any]:
    environment = view.environment
    return {
        "name": environment.name,
        "rank": environment.rank,
        "deployments": [deployment_out(row) for row in view.rows],
    }


def deployment_out(row: DeploymentView) -> dict[str, Any]:
    return {
        "config": row.deployment.name,
        "state": row.state,
        "version": row.deployment.config_version.number,
        "is_enabled": row.deployment.is_enabled,
        "serving": _serving(row.serving),
        "live_promotion": promotion_out(row.live, row.evidence) if row.live else None,
        "promotion_under_way": promotion_out(row.under_way) if row.under_way else None,
        "version_waiting": row.waiting.number if row.waiting else None,
        "way_back": _way_back(row.way_back),
    }


def _serving(instance: Instance | None) -> dict[str, Any] | None:
    if instance is None:
        return None
    return {
        "instance_id": instance.pk,
        "instance": instance.name,
        "version": instance.config_version.number,
        "host": instance.host.name,
        "port": instance.port,
        "state": instance.state,
        "is_host_silent": instance.is_host_silent,
    }


def _way_back(back: WayBack | None) -> dict[str, Any] | None:
    if back is None:
        return None
    return {"version": back.to.config_version.number, "promotion_id": back.to.pk, "is_restart": back.is_restart}


_PROMOTION_FIELDS = (
    "id",
    "config_version_id",
    "is_rollback",
    "state",
    "state_since",
    "reason",
    "strategy",
    "is_abort_requested",
    "is_reverting",
    "is_taken_over",
    "engine_id",
    "gpu_uuids",
    "instance_id",
    "why",
    "evidence_digest",
    "created_by",
    "created_at",
    "ended_at",
)
