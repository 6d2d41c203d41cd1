"""Any runs of one workload, as the comparison that page, API and exports show."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch
from django.utils.translation import gettext as _

from controlplane.bench.domain.cdf import cdf_points, latencies_ms
from controlplane.bench.domain.comparison import Arm, Change, Incomparable, Row, RunSummary, compare
from controlplane.bench.domain.records import from_columns
from controlplane.bench.domain.validity import INVALID, Reason
from controlplane.bench.models import Metric, Run
from controlplane.bench.queries.runs import request_columns
from controlplane.configs.domain.difference import differences
from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Invalid, NotFound

MOST_RUNS = 100
LARGEST_ID = 2**63 - 1
CURVE_POINTS = 200


class UnlikeRuns(Invalid):
    code = "unlike_runs"
    remedy = "Choose runs of one workload."


@dataclass(frozen=True)
class Side:
    """The runs of one config on one build and host: the rows, and the domain's view of them."""

    arm: Arm
    runs: Sequence[Run]

    @property
    def label(self) -> str:
        return self.arm.label

    @property
    def version(self) -> ConfigVersion | None:
        return self.runs[0].config_version

    @property
    def evidence(self) -> str:
        """Its valid runs, as links carry them."""
        return ",".join(map(str, self.valid_ids))

    @property
    def valid_ids(self) -> list[int]:
        return [int(run.run_id) for run in self.arm.valid_runs]


@dataclass(frozen=True)
class Comparison:
    """`rows`: the table, one per changed parameter of each tuned side. `fixed`: what all runs have in common, by name.
    `differing` names what is unlike besides the config: seeds."""

    workload: str
    workload_digest: str
    baseline: Side
    tuned: Sequence[Side]
    rows: Sequence[Row]
    fixed: Mapping[str, str]
    differing: Mapping[str, str]

    @property
    def sides(self) -> Sequence[Side]:
        return (self.baseline, *self.tuned)

    @property
    def runs(self) -> list[Run]:
        return [run for side in self.sides for run in side.runs]

    @property
    def uncounted(self) -> list[Run]:
        """Runs that are in none of the numbers."""
        return [run for run in self.runs if run.state != Run.State.FINISHED]

    @property
    def is_moving(self) -> bool:
        return any(not run.is_over for run in self.runs)


def comparison(numbers: Sequence[int], *, baseline: int | None = None) -> Comparison:
    """Compare runs; the side that holds the run `baseline` (else the oldest run) is what the others are held against.

    Raises NotFound when one is not there, UnlikeRuns when they are of different workloads, Invalid when there are
    none or too many.
    """
    runs = _runs(numbers)
    _refuse_unlike(runs)
    groups = _grouped(runs)
    first = next((group for group in groups if any(run.pk == baseline for run in group)), groups[0])
    labels = _labels(groups)
    base = Side(Arm(labels[id(first)], tuple(map(summary_of, first))), first)
    tuned = [
        Side(Arm(labels[id(group)], tuple(map(summary_of, group)), _changes(first[0], group[0])), group)
        for group in groups
        if group is not first
    ]
    try:
        rows = compare(base.arm, [side.arm for side in tuned])
    except Incomparable as error:
        raise UnlikeRuns(str(error)) from None
    fixed, differing = _surroundings(runs)
    return Comparison(runs[0].workload.name, runs[0].workload_digest, base, tuned, rows, fixed, differing)


def summary_of(run: Run) -> RunSummary:
    """A run as the comparison sees it, out of its own row and its metric rows (which must be prefetched)."""
    metrics: dict[str, dict[str, Any]] = {}
    for row in run.metrics.all():
        metrics.setdefault(row.definition, {})[row.statistic] = row.value
    return RunSummary(
        run_id=str(run.pk),
        launch_id=run.attempt.launch_id if run.attempt else None,
        workload_hash=run.workload_digest,
        metrics=metrics,
        planned=run.planned,
        failed=run.failed or 0,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        gpu_status=run.gpu_status,
        gpu_utilisation_percent=run.gpu_utilisation_percent,
        is_valid=run.state == Run.State.FINISHED,
        reasons=_reasons(run),
    )


def curves(numbers: Sequence[int], definition: str) -> list[tuple[Run, list[float]]]:
    """Per measured run, valid or not, the latencies of one definition, thinned to CURVE_POINTS evenly spaced ranks.

    KeyError for a definition that is not per request.
    """
    runs = _runs(numbers)
    measured = [run.pk for run in runs if run.state in {Run.State.FINISHED, Run.State.INVALID}]
    points = {
        run_id: cdf_points(latencies_ms(from_columns(columns), definition), limit=CURVE_POINTS)
        for run_id, columns in request_columns(measured)
    }
    return [(run, [value for value, _share in points.get(run.pk, ())]) for run in runs]


def run_ids(texts: str | Iterable[str]) -> list[int]:
    """`1,2,3`, or several of these, as numbers. Raises Invalid for anything else."""
    parts = ",".join([texts] if isinstance(texts, str) else texts).split(",")
    wanted = [part.strip() for part in parts if part.strip()]
    for part in wanted:
        if not (part.isascii() and part.isdecimal() and int(part) <= LARGEST_ID):
            raise Invalid(
                _("“%(text)s” is not the number of a run.") % {"text": part[:40]},
                remedy=_("Write numbers with commas between them."),
            )
    return [int(part) for part in wanted]


def _runs(numbers: Sequence[int]) -> list[Run]:
    """Oldest first, with what a comparison reads: three queries."""
    wanted = list(dict.fromkeys(numbers))
    if not wanted:
        raise Invalid(_("No runs were chosen."), remedy=_("Choose at least two."))
    if len(wanted) > MOST_RUNS:
        raise Invalid(_("%(count)d runs are too many for one comparison.") % {"count": len(wanted)})
    rows = (
        Run.objects.filter(pk__in=wanted)
        .select_related("workload", "config_version__config", "host", "instance", "attempt")
        .defer("argv", "spec", "progress", "errors", "host__facts", "instance__sealed_key", "attempt__reader_state")
        .prefetch_related(Prefetch("metrics", Metric.objects.order_by("pk")))
        .order_by("pk")
    )
    found = list(rows)
    if missing := sorted(set(wanted) - {run.pk for run in found}):
        raise NotFound(_("There is no run %(number)s.") % {"number": missing[0]}, remedy=_("It may have been removed."))
    return found


def _refuse_unlike(runs: Sequence[Run]) -> None:
    """Name both workloads: the domain knows only their hashes."""
    names = {run.workload_digest: f"{run.workload.name} ({run.workload_digest[:8]})" for run in runs}
    if len(names) > 1:
        raise UnlikeRuns(
            _("These runs are of different workloads, so their numbers do not stand side by side: %(names)s.")
            % {"names": ", ".join(sorted(names.values()))},
            remedy=_("Choose runs of one workload."),
        )


def _grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """By config content, engine build and host, in the order of their oldest runs."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.config_digest, _engine(run), run.host_id), []).append(run)
    return list(groups.values())


def _labels(groups: Sequence[Sequence[Run]]) -> dict[int, str]:
    """What each group is called: its config version, and engine or host where these tell them apart."""
    firsts = [group[0] for group in groups]
    engines, hosts = {_engine(run) for run in firsts}, {run.host_id for run in firsts}
    labels = {}
    for group in groups:
        run = group[0]
        parts = [str(run.config_version or _("removed config"))]
        parts += [f"vLLM {run.engine_version}"] if len(engines) > 1 else []
        parts += [str(run.host)] if len(hosts) > 1 else []
        labels[id(group)] = ", ".join(parts)
    return labels


def _changes(before: Run, after: Run) -> tuple[Change, ...]:
    """What differs between two runs' configs, key by key, and the engine and host where they do."""
    contents = [run.config_version.content if run.config_version else {} for run in (before, after)]
    found = [Change(change.key, _value(change.before), _value(change.after)) for change in differences(*contents)]
    if _engine(before) != _engine(after):
        found.append(Change("vLLM", _engine_words(before, after), _engine_words(after, before)))
    if before.host_id != after.host_id:
        found.append(Change("host", str(before.host), str(after.host)))
    return tuple(found)


def _engine(run: Run) -> str:
    return run.engine_build or run.engine_version


def _engine_words(run: Run, other: Run) -> str:
    """The version; with the build when only that differs."""
    return (
        run.engine_version
        if run.engine_version != other.engine_version
        else f"{run.engine_version} {run.engine_build[:8]}"
    )


def _value(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _reasons(run: Run) -> tuple[Reason, ...]:
    """Why a run does not count, also when it ended before any gate could look at it."""
    kept = tuple(Reason(each["code"], each["sentence"], each.get("severity", INVALID)) for each in run.reasons)
    if run.state == Run.State.CANCELLED:
        return (*kept, Reason("cancelled", _("It was cancelled.")))
    if not run.is_over:
        return (Reason("not_over", _("It is %(state)s.") % {"state": run.get_state_display().lower()}),)
    return kept


def _surroundings(runs: Sequence[Run]) -> tuple[dict[str, str], dict[str, str]]:
    """What all runs share, and what they do not, besides the numbers."""
    contents = [run.config_version.content for run in runs if run.config_version]
    facts: dict[str, list[str]] = {
        _("workload"): [f"{run.workload.name} {run.workload_digest[:12]}" for run in runs],
        _("seed"): [str(run.seed) for run in runs],
        _("vLLM"): [" ".join(filter(None, (run.engine_version, run.engine_build[:12]))) for run in runs],
        _("host"): [str(run.host or "") for run in runs],
        _("GPUs"): [", ".join(gpu.get("uuid", "") for gpu in run.host_facts.get("gpus", [])) for run in runs],
        _("driver"): [", ".join({gpu.get("driver", "") for gpu in run.host_facts.get("gpus", [])}) for run in runs],
        _("kernel"): [str(run.host_facts.get("kernel", "")) for run in runs],
    }
    places = dict.fromkeys((section, key) for content in contents for section, body in content.items() for key in body)
    for section, key in places:
        facts[key] = [_value(content.get(section, {}).get(key)) or "–" for content in contents]
    fixed = {name: values[0] for name, values in facts.items() if len(set(values)) == 1 and values[0]}
    seeds = facts[_("seed")]
    return fixed, {_("seed"): ", ".join(dict.fromkeys(seeds))} if len(set(seeds)) > 1 else {}
