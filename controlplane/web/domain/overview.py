"""What the overview says in words: pure, from figures to sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Square:
    """One instance of a deployment."""

    pk: int
    name: str
    state: str
    url: str


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """One deployment on the overview. Figures are sums over its ready instances, `kv_share` (0 to 1) the fullest one's;
    None: not measured."""

    pk: int
    name: str
    environment: str
    version: int
    config_url: str
    is_enabled: bool
    squares: Sequence[Square] = ()
    ready: int = 0
    is_rolling: bool = False
    is_host_silent: bool = False
    reason: str = ""
    running: int | None = None
    waiting: int | None = None
    kv_share: float | None = None
    output_tokens_per_s: float | None = None
    newer_version: int | None = None

    @property
    def is_serving(self) -> bool:
        return self.ready > 0 and not self.is_host_silent

    @property
    def cause_url(self) -> str:
        """Where to look when it does not serve: its newest failed instance, else its newest, else its config."""
        failed = [square for square in self.squares if square.state == "failed"]
        newest = (failed or list(self.squares))[-1:]
        return newest[0].url if newest else self.config_url

    @property
    def state(self) -> str:
        """The word of the row, as `templatetags/states.py` draws it."""
        if self.is_rolling:
            return "rolling"
        if not self.is_enabled:
            return "stopped"
        if self.is_host_silent:
            return "unreachable"
        if self.ready:
            return "ready"
        return worst_state([square.state for square in self.squares])


@dataclass(frozen=True, slots=True)
class Lane:
    """An environment with its deployments."""

    name: str
    url: str
    rows: Sequence[DeploymentRow] = ()


@dataclass(frozen=True, slots=True)
class Headline:
    """The one sentence on top. `kind`: nothing (none promoted), serving (all well), trouble. In trouble, `broken` names
    the first deployment that does not serve, the highest environment first."""

    kind: str
    environment: str = ""
    serving: int = 0
    wanted: int = 0
    output_tokens_per_s: float | None = None
    broken: DeploymentRow | None = None
    broken_count: int = 0


def headline(lanes: Sequence[Lane]) -> Headline:
    """`lanes` in order of importance. What is switched off is not expected to serve."""
    wanted = [row for lane in lanes for row in lane.rows if row.is_enabled]
    if not wanted:
        return Headline(kind="nothing")
    broken = [row for row in wanted if not row.is_serving]
    first = wanted[0].environment
    rows = [row for row in wanted if row.environment == first]
    return Headline(
        kind="trouble" if broken else "serving",
        environment=first,
        serving=sum(row.is_serving for row in rows),
        wanted=len(rows),
        output_tokens_per_s=total(row.output_tokens_per_s for row in rows),
        broken=broken[0] if broken else None,
        broken_count=len(broken),
    )


def needs_look(row: DeploymentRow) -> int:
    """Sort key: what should serve and does not comes first; otherwise the order stays."""
    return 0 if row.is_enabled and not row.is_serving else 1


# What matters most about a deployment without a ready instance comes first.
WORST_FIRST = ("failed", "starting", "pending", "draining", "stopped")


def worst_state(states: Sequence[str]) -> str:
    """The state to show for a deployment of which nothing is ready; "stopped" when it has no instance at all."""
    return next((state for state in WORST_FIRST if state in states), "stopped")


def total(values: Any) -> float | None:
    """The sum of what was measured; None when nothing was."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def figure(metrics: dict[str, Any], key: str) -> float | None:
    """A number out of an observation; anything else counts as not measured."""
    value = metrics.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a newcomer's way, in order."""

    key: str
    is_done: bool
    url: str = ""


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The way from an empty installation to a promoted config."""

    steps: Sequence[Step] = field(default_factory=tuple)

    @property
    def is_complete(self) -> bool:
        return all(step.is_done for step in self.steps)

    @property
    def next(self) -> Step | None:
        return next((step for step in self.steps if not step.is_done), None)
