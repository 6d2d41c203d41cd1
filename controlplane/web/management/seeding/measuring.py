"""Invented runs with their figures, promotions and events."""

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import F, Model

from controlplane.bench.domain.records import OK, RequestRecord, to_columns
from controlplane.bench.models import Metric, Run, RunData, Workload
from controlplane.configs.models import ConfigVersion
from controlplane.core.models import Event
from controlplane.fleet.models import Attempt, Deployment, Instance
from controlplane.inventory.models import Host
from controlplane.release.models import Promotion
from controlplane.web.management.seeding.sizes import ACTOR, HOST_PREFIX, Sizes, inserted

# Definition, its unit, and the columns of a run that hold its p50 and p99.
METRICS = (
    ("ttft.any.v1", "ms", "ttft_ms_p50", "ttft_ms_p99"),
    ("tpot.excl.v1", "ms", "tpot_ms_p50", "tpot_ms_p99"),
    ("gap.chunk.v1", "ms", "tpot_ms_p50", "tpot_ms_p99"),
    ("e2e.lasttoken.v1", "ms", "e2el_ms_p50", "e2el_ms_p99"),
)
# Where a statistic lies between the p50 (0) and the p99 (1) of its run.
STATISTICS = {"mean": 0.1, "p50": 0.0, "p90": 0.5, "p95": 0.7, "p99": 1.0}

EVIDENCE_RUNS = 3


def runs(
    sizes: Sizes, instances: Sequence[Instance], attempts: dict[int, Attempt], now: datetime, dice: random.Random
) -> list[Run]:
    workloads = list(Workload.objects.filter(is_built_in=True).order_by("pk")) or _workloads()
    states = [Run.State.FINISHED] * 90 + [Run.State.INVALID] * 5 + [Run.State.FAILED] * 3 + [Run.State.CANCELLED] * 2

    def one(number: int) -> Run:
        instance, workload, state = dice.choice(instances), dice.choice(workloads), dice.choice(states)
        started = now - timedelta(minutes=(sizes.runs - number) * 11)
        return Run(
            workload=workload,
            workload_digest=workload.digest,
            seed=number,
            instance=instance,
            attempt=attempts[instance.pk],
            config_version_id=instance.config_version_id,
            config_digest=instance.config_version.digest,
            engine_version=instance.engine.version,
            engine_build=instance.engine.build,
            host_id=instance.host_id,
            job_id=f"{ACTOR}-{number}",
            state=state,
            reasons=[]
            if state == Run.State.FINISHED
            else [{"code": "failures", "sentence": "2 of 64 requests failed."}],
            planned=64,
            created_by=ACTOR,
            started_at=started,
            ended_at=started + timedelta(seconds=50),
            **(_figures(dice) if state in {Run.State.FINISHED, Run.State.INVALID} else {}),
        )

    made = inserted(Run, (one(number) for number in range(sizes.runs)))
    Run.objects.filter(created_by=ACTOR).update(created_at=F("started_at"), state_since=F("ended_at"))
    return made


def _workloads() -> list[Workload]:
    """Only where the product's own are missing, as in tests without them."""
    names = (f"{HOST_PREFIX}64x256", f"{HOST_PREFIX}prefix", f"{HOST_PREFIX}8x32")
    return inserted(Workload, (Workload(name=name, spec={}, digest=name) for name in names))


def _figures(dice: random.Random) -> dict[str, Any]:
    speed = dice.lognormvariate(0, 0.3)
    return {
        "ok": 64, "failed": 0, "cancelled": 0, "duration_s": 40 / speed, "output_throughput": 410 * speed,
        "ttft_ms_p50": 380 / speed, "ttft_ms_p99": 1040 / speed, "tpot_ms_p50": 23 / speed, "tpot_ms_p99": 62 / speed,
        "e2el_ms_p50": 6200 / speed, "e2el_ms_p99": 16_900 / speed, "gpu_utilisation_percent": dice.uniform(30, 99),
    }  # fmt: skip


def measurements(runs: Sequence[Run]) -> None:
    """The rows that comparisons read. They say what the columns of the run say."""
    inserted(Metric, (row for run in runs if run.output_throughput is not None for row in _metrics(run)))
    series = {"t": list(range(50)), "running": [64] * 50, "waiting": [0] * 50, "kv_usage": [0.4] * 50}
    inserted(RunData, (RunData(run=run, series=series, requests=_requests(run)) for run in runs))


def _requests(run: Run) -> bytes | None:
    """Every request of a run, sent all at once; their first tokens come evenly between its p50 and p99."""
    if run.ttft_ms_p50 is None or run.ttft_ms_p99 is None or run.e2el_ms_p50 is None:
        return None
    first, step_s = run.ttft_ms_p50 / 1000, (run.ttft_ms_p99 - run.ttft_ms_p50) / 1000 / run.planned
    records = [
        RequestRecord(
            index=number, asked_s=0.0, sent_s=0.0, status=OK, http_status=200, prompt_tokens=64, output_tokens=256,
            first_s=first + number * step_s, last_s=run.e2el_ms_p50 / 1000 + number * step_s, finish_reason="length",
        )
        for number in range(run.planned)
    ]  # fmt: skip
    return gzip.compress(json.dumps(to_columns(records)).encode())


def _metrics(run: Run) -> Iterator[Metric]:
    yield Metric(run=run, definition="tput.wall.v1", statistic="value", value=run.output_throughput, n=64, unit="tok/s")
    for definition, unit, lower, upper in METRICS:
        p50, p99 = getattr(run, lower), getattr(run, upper)
        for name, share in STATISTICS.items():
            value = p50 + share * (p99 - p50)
            yield Metric(run=run, definition=definition, statistic=name, value=value, n=64, unit=unit)


def promotions(
    deployments: Sequence[Deployment],
    versions: Sequence[ConfigVersion],
    instances: Sequence[Instance],
    runs: Sequence[Run],
    now: datetime,
) -> None:
    """Of each deployment two: its version, live on the newest runs of what serves, and the version before that."""
    serving = {instance.deployment_id: instance for instance in instances if instance.deployment_id}
    before = {(version.config_id, version.number + 1): version for version in versions}

    def of(deployment: Deployment, *, is_live: bool) -> Promotion:
        version = deployment.config_version
        previous = before[version.config_id, version.number]
        return Promotion(
            environment_id=deployment.environment_id,
            deployment=deployment,
            config_version=version if is_live else previous,
            previous_version=previous if is_live else None,
            engine_id=deployment.engine_id,
            instance=serving.get(deployment.pk) if is_live else None,
            evidence_digest=version.digest if is_live else "",
            why="Higher throughput at the same TTFT p99.",
            strategy="start_first",
            state=Promotion.State.LIVE if is_live else Promotion.State.SUPERSEDED,
            created_by=ACTOR,
            ended_at=now,
        )

    made = inserted(Promotion, (of(one, is_live=is_live) for one in deployments for is_live in (False, True)))
    Promotion.objects.filter(created_by=ACTOR).update(created_at=now - timedelta(minutes=2))
    _evidence([promotion for promotion in made if promotion.instance_id], runs)


def _evidence(promotions: Sequence[Promotion], runs: Sequence[Run]) -> None:
    on_instance: dict[int | None, list[Run]] = defaultdict(list)
    for run in reversed(runs):
        if run.state == Run.State.FINISHED:
            on_instance[run.instance_id].append(run)
    link = Promotion.runs.through
    rows = (
        link(promotion=promotion, run=run)
        for promotion in promotions
        for run in on_instance[promotion.instance_id][:EVIDENCE_RUNS]
    )
    inserted(link, rows)


def events(hosts: Sequence[Host], instances: Sequence[Instance], runs: Sequence[Run]) -> int:
    def rows() -> Iterator[Event]:
        for host in hosts:
            yield _event("host.added", host, "")
        for instance in instances:
            yield _event("instance.requested", instance, "")
            yield _event(f"instance.{instance.state}", instance, instance.reason)
        for run in runs:
            yield _event(f"run.{run.state}", run, "")

    made = inserted(Event, rows())
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE core_event SET at = now() - (%s - id) * interval '30 seconds' WHERE actor = %s AND id <= %s",
            [made[-1].pk, ACTOR, made[-1].pk],
        )
    return len(made)


def _event(name: str, subject: Model, sentence: str) -> Event:
    kind = subject._meta.model_name or ""
    return Event(
        name=name,
        actor=ACTOR,
        subject_type=kind,
        subject_id=str(subject.pk),
        subject_label=str(subject),
        sentence=sentence,
    )
