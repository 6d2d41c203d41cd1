"""What a promotion rests on: its runs in figures, and where they no longer speak for what runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.inventory.models import Engine
from controlplane.release.domain.evidence import Measured, Mismatch, Promoted, mismatches
from controlplane.release.models import Promotion

RUNS_OFFERED = 20
MEASURES = ("output_throughput", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "e2el_ms_p99")
_SHOWN = (
    "state", "config_digest", "engine_build", "is_instrument_limited", "workload_digest", "created_at", *MEASURES,
)  # fmt: skip
MORE_IS_BETTER = frozenset({"output_throughput"})


@dataclass(frozen=True, slots=True)
class EvidenceProblem:
    """Why the evidence is weaker than it looks, or none. `code` is one of domain.evidence's."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The runs, newest first, and what is wrong with them."""

    runs: Sequence[Run]
    problems: Sequence[EvidenceProblem]

    @property
    def throughput(self) -> float | None:
        """The median over the runs, tokens a second; None where they are of different workloads, or none has it."""
        if len({run.workload_digest for run in self.runs}) > 1:
            return None
        return middle(run.output_throughput for run in self.runs)

    @property
    def run_ids(self) -> str:
        """As the comparison page takes them."""
        return ",".join(str(run.pk) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure on both sides: medians, None where not measured, and new ÷ old."""

    measure: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def is_better(self) -> bool | None:
        """Which way it points; no verdict: that is the comparison page's."""
        if self.ratio is None or self.ratio == 1:
            return None
        return (self.ratio > 1) == (self.measure in MORE_IS_BETTER)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The runs of one workload, of what is to be promoted and of what serves now."""

    workload: str
    before_runs: int
    after_runs: int
    figures: Sequence[Figure]


def evidence_of(promotion: Promotion) -> Evidence:
    """The runs of a promotion and where they no longer match it."""
    return Evidence(sorted(promotion.runs.all(), key=lambda run: -run.pk), evidence_problems(promotion))


def evidence_problems(promotion: Promotion) -> list[EvidenceProblem]:
    """Where the evidence does not (any longer) match what was promoted, in words."""
    return problems_with(
        list(promotion.runs.all()),
        promotion.config_version,
        promotion.engine,
        had_runs=bool(promotion.evidence_digest),
    )


def problems_with(
    runs: Sequence[Run], version: ConfigVersion, engine: Engine | None, *, had_runs: bool = False
) -> list[EvidenceProblem]:
    """The same for something that is not promoted yet. The engine's build is what its host has now."""
    promoted = Promoted(
        config_digest=version.digest,
        engine_build=engine.build if engine else "",
        host=engine.host.name if engine else "",
        had_runs=had_runs,
    )
    return [EvidenceProblem(one.code, _sentence(one)) for one in mismatches([_measured(run) for run in runs], promoted)]


def evidence_runs() -> QuerySet[Run]:
    """Runs with what is said of them as evidence: where they were measured, and their figures."""
    return Run.objects.select_related("host").only(*_SHOWN, "host__name")


def measured_runs() -> QuerySet[Run]:
    """`evidence_runs` with their workloads."""
    return Run.objects.select_related("host", "workload").only(*_SHOWN, "host__name", "workload__name")


def finished_runs(version: ConfigVersion) -> QuerySet[Run]:
    """Valid runs of exactly this content, newest first: of the version itself, or of one that means the same."""
    return (
        measured_runs()
        .filter(config_version__config=version.config_id, config_digest=version.digest, state=Run.State.FINISHED)
        .order_by("-pk")
    )


def side_by_side(after: Sequence[Run], before: Sequence[Run]) -> list[SideBySide]:
    """The figures of two sets of runs, workload by workload: those of different loads are not held together."""
    found = []
    for digest in dict.fromkeys(run.workload_digest for run in after):
        new = [run for run in after if run.workload_digest == digest]
        old = [run for run in before if run.workload_digest == digest]
        figures = [
            Figure(name, middle(getattr(run, name) for run in old), middle(getattr(run, name) for run in new))
            for name in MEASURES
        ]
        found.append(SideBySide(new[0].workload.name, len(old), len(new), figures))
    return found


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None when nothing was."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _measured(run: Run) -> Measured:
    return Measured(
        label=str(run.pk),
        state=run.state,
        config_digest=run.config_digest,
        engine_build=run.engine_build,
        host=run.host.name if run.host else "",
        is_instrument_limited=run.is_instrument_limited,
    )


def _sentence(one: Mismatch) -> str:
    if one.code == "no_evidence":
        return _("It rests on no run.")
    if one.code == "runs_gone":
        return _("The runs it rested on were deleted.")
    runs = ngettext("Run %(runs)s", "Runs %(runs)s", len(one.subjects)) % {"runs": ", ".join(one.subjects)}
    return _SENTENCES[one.code](runs, one)


_SENTENCES = {
    "run_not_valid": lambda runs, one: (
        _("%(runs)s: %(state)s, so the numbers prove nothing.")
        % {"runs": runs, "state": Run.State(one.found).label.lower()}
    ),
    "other_config": lambda runs, one: (
        _("%(runs)s measured another config than the one that is promoted.") % {"runs": runs}
    ),
    "other_engine": lambda runs, one: _("%(runs)s measured another vLLM build than the host has now.") % {"runs": runs},
    "other_host": lambda runs, one: (
        _("%(runs)s measured on %(found)s, not on %(expected)s.")
        % {"runs": runs, "found": one.found, "expected": one.expected}
    ),
    "instrument_limited": lambda runs, one: (
        _("%(runs)s: the load generator was the limit, the server can do more.") % {"runs": runs}
    ),
}
