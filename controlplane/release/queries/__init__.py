"""What pages, API and services ask about environments and promotions. Import from here, not from the modules below."""

from controlplane.release.queries.choices import VersionChoice, instances_to_take_over, version_groups
from controlplane.release.queries.environments import (
    DeploymentView,
    EnvironmentView,
    deployment_named,
    deployment_views,
    environment_named,
    environment_views,
    events_of_environment,
    events_of_promotion,
)
from controlplane.release.queries.evidence import (
    RUNS_OFFERED,
    Evidence,
    EvidenceProblem,
    SideBySide,
    evidence_of,
    evidence_problems,
    finished_runs,
    problems_with,
    side_by_side,
)
from controlplane.release.queries.promotions import (
    SORTS,
    UNDER_WAY_WORD,
    WayBack,
    promotion_detail,
    promotions,
    serving,
    way_back,
)
from controlplane.release.queries.story import Step, passages_of, story_of

__all__ = [
    "RUNS_OFFERED",
    "SORTS",
    "UNDER_WAY_WORD",
    "DeploymentView",
    "EnvironmentView",
    "Evidence",
    "EvidenceProblem",
    "SideBySide",
    "Step",
    "VersionChoice",
    "WayBack",
    "deployment_named",
    "deployment_views",
    "environment_named",
    "environment_views",
    "events_of_environment",
    "events_of_promotion",
    "evidence_of",
    "evidence_problems",
    "finished_runs",
    "instances_to_take_over",
    "passages_of",
    "problems_with",
    "promotion_detail",
    "promotions",
    "serving",
    "side_by_side",
    "story_of",
    "version_groups",
    "way_back",
]
