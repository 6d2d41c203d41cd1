"""Invented configs, deployments and instances, with their attempts and transitions."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from controlplane.configs.models import Config, ConfigVersion
from controlplane.fleet.models import Attempt, Deployment, Environment, Instance, LogChunk, Preflight, State, Transition
from controlplane.inventory.models import Engine
from controlplane.web.management.seeding.sizes import ACTOR, GIB, GPUS_PER_HOST, HOST_PREFIX, MODELS, Sizes, inserted

VERSIONS_PER_CONFIG = 5
READY_AFTER_S = 48.0
CHECKS = ("host", "engine", "flags", "model", "context", "memory", "kv_cache", "port")
LINES = 400
FAILURES = (
    ("out_of_memory", "The KV cache does not fit: 3.1 GiB are left, 8.0 GiB are needed."),
    ("port_in_use", "Port 8000 is taken by another process."),
    ("model_missing", "The model directory does not exist on the host."),
)


def versions(sizes: Sizes, dice: random.Random) -> list[ConfigVersion]:
    names = (
        f"{HOST_PREFIX}{MODELS[number % len(MODELS)].replace('.', '-')}-{number}" for number in range(sizes.configs)
    )
    configs = inserted(Config, (Config(name=name, created_by=ACTOR) for name in names))
    rows = (
        ConfigVersion(
            config=config,
            number=number,
            toml=f'[model]\nmodel_path = "/srv/models/m"\n[batching]\nmax_num_seqs = {64 * number}\n'.encode(),
            content={
                "server": {"port": 8000, "served_model_name": config.name},
                "model": {"model_path": f"/srv/models/{config.name}", "max_model_len": 8192},
                "batching": {"max_num_seqs": 64 * number, "enable_prefix_caching": dice.random() < 0.5},
            },
            digest=f"{ACTOR}-{config.pk}-{number}",
            file_digest=f"{ACTOR}-{config.pk}-{number}",
            author=ACTOR,
        )
        for config in configs
        for number in range(1, VERSIONS_PER_CONFIG + 1)
    )
    return inserted(ConfigVersion, rows)


def deployments(sizes: Sizes, versions: Sequence[ConfigVersion], engines: Sequence[Engine]) -> list[Deployment]:
    """Each config at its third version, in turn in each environment."""
    environments = list(Environment.objects.order_by("-rank", "name"))
    if not environments:
        environments = [Environment.objects.create(name=f"{HOST_PREFIX}production", rank=20)]
    third = [version for version in versions if version.number == 3][: sizes.deployments]
    rows = (
        Deployment(
            environment=environments[number % len(environments)],
            name=version.config.name,
            config_version=version,
            host_id=engines[number % len(engines)].host_id,
            engine=engines[number % len(engines)],
        )
        for number, version in enumerate(third)
    )
    return inserted(Deployment, rows)


def preflights(deployments: Sequence[Deployment]) -> None:
    """The check that went before each deployment."""
    words = {"outcome": "pass", "sentence": "It is as it must be.", "arithmetic": "", "remedy": "", "fixes": []}
    checks = [{"code": code, "label": code.replace("_", " "), **words} for code in CHECKS]
    rows = (
        Preflight(
            config_version=deployment.config_version,
            engine=deployment.engine,
            state=Preflight.State.FINISHED,
            checks=checks,
            port=8000,
            created_by=ACTOR,
        )
        for deployment in deployments
    )
    inserted(Preflight, rows)


def instances(
    sizes: Sizes,
    versions: Sequence[ConfigVersion],
    engines: Sequence[Engine],
    deployments: Sequence[Deployment],
    now: datetime,
    dice: random.Random,
) -> list[Instance]:
    """The newest are those of the deployments and live; of the others most have stopped, one in ten failed."""

    def one(number: int) -> Instance:
        serving = number - (sizes.instances - len(deployments))
        deployment = deployments[serving] if serving >= 0 else None
        engine = deployment.engine if deployment else dice.choice(engines)
        state = State.READY if deployment else dice.choices([State.STOPPED, State.FAILED, State.READY], [80, 10, 10])[0]
        return Instance(
            name=f"{HOST_PREFIX}{number:05}",
            config_version=deployment.config_version if deployment else dice.choice(versions),
            host_id=engine.host_id,
            engine=engine,
            deployment=deployment,
            gpu_uuids=[f"GPU-{engine.host.name}-{number % GPUS_PER_HOST}"],
            port=8000 + number % 1000,
            sealed_key=b"",
            desired=Instance.Desired.STOPPED if state == State.STOPPED else Instance.Desired.RUNNING,
            state=state,
            reason=dice.choice(FAILURES)[1] if state == State.FAILED else "",
            observed_at=now - timedelta(minutes=(sizes.instances - number) * 7),
            metrics=_observation(now, dice) if state == State.READY else {},
            measured_kv_tokens=dice.randrange(50_000, 900_000),
            predicted_kv_tokens=dice.randrange(50_000, 900_000),
            max_concurrency=dice.uniform(2, 60),
            weights_bytes=dice.randrange(8 * GIB, 70 * GIB),
            ready_s=None if state == State.FAILED else dice.uniform(20, 180),
            created_by=ACTOR,
        )

    made = inserted(Instance, (one(number) for number in range(sizes.instances)))
    Instance.objects.filter(created_by=ACTOR).update(created_at=F("observed_at"), state_since=F("observed_at"))
    return made


def _observation(now: datetime, dice: random.Random) -> dict[str, Any]:
    return {
        "at": now.isoformat(), "running": dice.randrange(64), "waiting": dice.choice([0, 0, 0, 3]),
        "kv_usage": dice.random(), "output_throughput": dice.uniform(50, 2500),
    }  # fmt: skip


def attempts(instances: Sequence[Instance], now: datetime) -> dict[int, Attempt]:
    argv = ["vllm", "serve", "/srv/models/m", *[f"--option-{number}={number}" for number in range(30)]]
    outcomes = {State.READY: Attempt.Outcome.RUNNING, State.FAILED: Attempt.Outcome.FAILED}
    codes = {sentence: code for code, sentence in FAILURES}

    def one(instance: Instance) -> Attempt:
        is_failed = instance.state == State.FAILED
        launched_at = instance.observed_at or now
        return Attempt(
            instance=instance,
            number=1,
            launch_id=f"{ACTOR}-{instance.pk}",
            outcome=outcomes.get(State(instance.state), Attempt.Outcome.STOPPED),
            argv=argv,
            launched_at=launched_at,
            ready_at=None if is_failed else launched_at + timedelta(seconds=instance.ready_s or READY_AFTER_S),
            ended_at=None if instance.state == State.READY else now,
            failure_code=codes.get(instance.reason, "") if is_failed else "",
            failure=instance.reason if is_failed else "",
        )

    made = inserted(Attempt, (one(instance) for instance in instances))
    Attempt.objects.filter(launch_id__startswith=f"{ACTOR}-").update(
        started_at=F("launched_at")
    )  # set to now by itself
    return {attempt.instance_id: attempt for attempt in made}


def logs(attempts: Sequence[Attempt]) -> None:
    """A log of some hundred lines each."""
    lines = [
        f"INFO 11-29 08:{number // 60:02}:{number % 60:02} [core.py:{number}] step {number}" for number in range(LINES)
    ]
    text = "\n".join(lines) + "\n"
    inserted(LogChunk, (LogChunk(attempt=attempt, offset=0, text=text) for attempt in attempts))
    Attempt.objects.filter(pk__in=[attempt.pk for attempt in attempts]).update(log_bytes=len(text))


def transitions(instances: Sequence[Instance]) -> None:
    way = {
        State.READY: (State.PENDING, State.STARTING, State.READY),
        State.FAILED: (State.PENDING, State.STARTING, State.FAILED),
        State.STOPPED: (State.PENDING, State.STARTING, State.READY, State.DRAINING, State.STOPPED),
    }
    rows = (
        Transition(instance=instance, before=before, after=after, actor=ACTOR)
        for instance in instances
        for before, after in zip(way[State(instance.state)], way[State(instance.state)][1:], strict=False)
    )
    inserted(Transition, rows)
