"""Small worlds for the tests of pages that show everything: so many of each, plausible values, no meaning."""

from django.utils import timezone

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import Config, ConfigVersion
from controlplane.core import events
from controlplane.fleet.models import Deployment, Environment, Instance, State
from controlplane.inventory.models import Accelerator, Engine, Host, ModelArtifact
from controlplane.release.models import Promotion

GIB = 1024**3


def host(name: str = "gpu-01", *, gpus: int = 2, state: str = Host.State.REACHABLE) -> Host:
    made = Host.objects.create(
        name=name,
        transport=Host.Transport.LOCAL,
        state=state,
        state_since=timezone.now(),
        facts={"gpu": {"status": "ok"}},
    )
    for index in range(gpus):
        Accelerator.objects.create(
            host=made,
            uuid=f"GPU-{name}-{index}",
            index=index,
            name="H200",
            memory_total_bytes=141 * GIB,
            memory_used_bytes=70 * GIB,
            utilisation_percent=41.0,
        )
    Engine.objects.create(host=made, executable="/opt/vllm/bin/vllm", version="0.18.1")
    return made


def version(name: str = "chat", number: int = 1) -> ConfigVersion:
    config, _ = Config.objects.get_or_create(name=name, defaults={"created_by": "test"})
    made, _ = ConfigVersion.objects.get_or_create(
        config=config,
        number=number,
        defaults={
            "toml": b"",
            "content": {},
            "digest": f"{name}{number}",
            "file_digest": f"{name}{number}",
            "author": "test",
        },
    )
    return made


def deployment(name: str = "chat", *, environment: str = "production", on: Host, number: int = 1) -> Deployment:
    return Deployment.objects.create(
        environment=Environment.objects.get_or_create(name=environment)[0],
        name=name,
        config_version=version(name, number),
        host=on,
        engine=on.engines.get(),
    )


def instance(
    name: str, *, on: Host, of: Deployment | None = None, state: str = State.READY, **more: object
) -> Instance:
    return Instance.objects.create(
        name=name,
        config_version=of.config_version if of else version(),
        host=on,
        engine=on.engines.get(),
        deployment=of,
        port=8000,
        sealed_key=b"",
        state=state,
        created_by="test",
        **more,
    )


def run(of: ConfigVersion, *, on: Host, state: str = Run.State.FINISHED, **more: object) -> Run:
    workload, _ = Workload.objects.get_or_create(name="seed-64x256", defaults={"spec": {}, "digest": "w"})
    return Run.objects.create(
        workload=workload,
        workload_digest="w",
        seed=1,
        config_version=of,
        config_digest=of.digest,
        host=on,
        job_id=f"job-{Run.objects.count()}",
        state=state,
        created_by="test",
        **more,
    )


def full(count: int, *, start: int = 0) -> None:
    """`count` hosts, each with a deployment in production, an instance, a run, a failure and a promotion."""
    for number in range(start, start + count):
        here = host(f"gpu-{number:03}")
        deployed = deployment(f"model-{number:03}", on=here)
        metrics = {"running": 2, "waiting": 1, "kv_usage": 0.4, "output_throughput": 100.0}
        serving = instance(f"model-{number:03}-0", on=here, of=deployed, metrics=metrics)
        instance(f"trial-{number:03}", on=here, state=State.FAILED, reason="Out of memory.")
        run(version(f"model-{number:03}", 2), on=here)
        run(deployed.config_version, on=here, state=Run.State.INVALID, reasons=[{"code": "x", "sentence": "Failed."}])
        Promotion.objects.create(
            environment=deployed.environment,
            deployment=deployed,
            config_version=deployed.config_version,
            engine=deployed.engine,
            instance=serving,
            state=Promotion.State.REVERTED,
            created_by="test",
        )
        host(f"silent-{number:03}", gpus=0, state=Host.State.UNREACHABLE)
        ModelArtifact.objects.create(
            name=f"org/model-{number:03}", source=ModelArtifact.Source.REPOSITORY, location=f"org/{number}"
        )
        events.record("instance.launched", actor="test", subject=serving)
