"""Rows of everything that goes wrong, to look at their pages: `make()` in a database that is there to be looked at.

Instances fail for real here: the product's own steps run them on a pretended host that prints the logs of a real vLLM.
"""

from datetime import timedelta
from pathlib import Path

import tomlkit
from django.utils import timezone

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import ConfigVersion
from controlplane.configs.services import import_config
from controlplane.core import events
from controlplane.fleet.models import Environment, Instance, State
from controlplane.fleet.tests import fake_world
from controlplane.fleet.tests.fake_world import FakeWorld
from controlplane.inventory.models import Host, ModelArtifact, ModelCopy
from controlplane.release.models import Promotion

LOGS = Path(fake_world.__file__).with_name("data") / "logs"
ACTOR = "olga"
OLD_CONFIG = """\
# chat of last year
[server]
host = "0.0.0.0"
port = 8000
served_model_name = "qwen2.5-32b-instruct"

[model]
model_path = "/models/qwen2.5-32b-instruct-awq"
quantization = "awq"
max_model_len = 8192
tensor_parallel_size = 2

[scheduler]
scheduler_policy = "fcfs"
swap_space = 8
"""


def make() -> dict[str, str]:
    """Name of a picture → path of the page that shows it."""
    world = fake_world.fake_world()
    pages = {
        "instance-kv-too-small": _failed(world, "kv-too-small.full.log"),
        "instance-wrong-dtype": _failed(world, "bad-dtype-choice.full.log", rc=2),
        "instance-wrong-path": _failed(world, "invalid-model-path.full.log"),
        "instance-crashed": _crashed(world),
        "instance-refused": _refused(world),
        "instance-host-silent": _silent(world),
    }
    pages |= {"host-unreachable": _unreachable(), "host-key-changed": _key_changed(), "model-missing": _missing_model()}
    pages |= {"version-removed-flag": _removed_flag()}
    pages |= _runs(world) | _promotions(world)
    _write_files()
    return pages


def _write_files() -> None:
    """The pretended world's configs have content and no text."""
    for version in ConfigVersion.objects.filter(toml=b""):
        content = {section: keys for section, keys in version.content.items() if keys}
        version.toml = tomlkit.dumps(content).encode()
        version.save(update_fields=["toml"])


def _started_log() -> str:
    """Of a start that came up; the sample goes on to its shutdown."""
    up = "Application startup complete.\n"
    text = (LOGS / "startup.log").read_text()
    return text[: text.index(up)] + up


def _failed(world: FakeWorld, log: str, rc: int = 1) -> str:
    """Started, and ended by itself before it served."""
    instance = world.request(log=(LOGS / log).read_text(), rc=rc)
    while instance.state not in {State.FAILED, State.READY}:
        world.step(instance)
    return _page(instance)


def _crashed(world: FakeWorld) -> str:
    instance = world.ready(log=_started_log())
    world.machine.print_log(instance.attempts.get().launch_id, (LOGS / "kill-sigkill-worker.log").read_text()[-6000:])
    world.machine.end(instance.attempts.get().launch_id, signal="SIGKILL", orphans=2)
    world.observe(instance)
    return _page(instance)


def _refused(world: FakeWorld) -> str:
    """Preflight finds no model there."""
    instance = world.request(model={"model_path": "/models/nowhere", "max_model_len": 2048})
    world.step(instance)
    return _page(instance)


def _silent(world: FakeWorld) -> str:
    instance = world.ready(log=_started_log())
    Instance.objects.filter(pk=instance.pk).update(is_host_silent=True, observed_at=timezone.now() - timedelta(hours=2))
    return _page(instance)


def _page(instance: Instance) -> str:
    return f"/instances/{instance.pk}/"


def _unreachable() -> str:
    since = timezone.now() - timedelta(minutes=12)
    host = Host.objects.create(
        name="gpu-cellar",
        transport=Host.Transport.SSH,
        address="192.0.2.7",
        username="vllm",
        state=Host.State.UNREACHABLE,
        state_since=since,
        last_seen_at=since,
        failures_in_a_row=14,
        error_code="unreachable",
        error="vllm@192.0.2.7:22 did not answer within 10 s.",
        error_remedy="Look whether the machine runs and its SSH port is open.",
    )
    events.record("host.unreachable", actor=events.SYSTEM, subject=host, sentence=host.error)
    return f"/hosts/{host.pk}/"


def _key_changed() -> str:
    host = Host.objects.create(
        name="gpu-attic",
        transport=Host.Transport.SSH,
        address="192.0.2.8",
        username="vllm",
        state=Host.State.REFUSED,
        state_since=timezone.now() - timedelta(hours=3),
        host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIold",
        host_key_fingerprint="SHA256:oldoldoldoldoldoldoldoldoldoldoldoldoldold1",
        offered_host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAInew",
        offered_fingerprint="SHA256:newnewnewnewnewnewnewnewnewnewnewnewnewnew2",
        error_code="host_key_changed",
        error="The host key of vllm@192.0.2.8:22 is not the pinned one.",
        error_remedy="Ask whoever runs the machine whether it has a new key. If so, pin the new one.",
    )
    return f"/hosts/{host.pk}/"


def _missing_model() -> str:
    model = ModelArtifact.objects.create(
        name="qwen-moved", source=ModelArtifact.Source.PATH, location="/models/moved", created_by=ACTOR
    )
    ModelCopy.objects.create(
        artifact=model,
        host=Host.objects.filter(transport=Host.Transport.LOCAL).latest("pk"),
        path=model.location,
        error="/models/moved is not there.",
        inspected_at=timezone.now(),
    )
    return f"/models/{model.pk}/"


def _removed_flag() -> str:
    version, _ = import_config(raw=OLD_CONFIG.encode(), name="chat-old", note="As it ran on 0.17.", actor=ACTOR)
    return f"/configs/versions/{version.pk}/?target=0.33.0"


def _runs(world: FakeWorld) -> dict[str, str]:
    instance = world.ready(log=_started_log())
    errors = [{"class": "http_503", "count": 2, "sample": "503: no capacity"}]
    invalid = _run(
        instance,
        Run.State.INVALID,
        reasons=[{"code": "failures", "sentence": "2 of 64 requests failed: 503 from the server."}],
        ok=62,
        failed=2,
        errors=errors,
        output_throughput=381.0,
        ttft_ms_p50=402.0,
        ttft_ms_p99=1911.0,
        duration_s=43.0,
    )
    failed = _run(
        instance,
        Run.State.FAILED,
        reasons=[
            {
                "code": "engine_ended",
                "sentence": f"{instance.name} ended during the run: killed by SIGKILL.",
            }
        ],
    )
    cancelled = _run(instance, Run.State.CANCELLED, ok=11)
    runs = {"invalid": invalid, "failed": failed, "cancelled": cancelled}
    return {f"run-{name}": f"/benchmarks/runs/{run.pk}/" for name, run in runs.items()}


def _run(instance: Instance, state: str, **more: object) -> Run:
    workload = Workload.objects.get(name="seed-64x256")
    now = timezone.now()
    run = Run.objects.create(
        workload=workload,
        workload_digest=workload.digest,
        seed=7,
        instance=instance,
        attempt=instance.attempts.get(),
        config_version=instance.config_version,
        config_digest=instance.config_version.digest,
        engine_version=instance.engine.version,
        host=instance.host,
        job_id=f"picture-{state}",
        state=state,
        planned=64,
        created_by=ACTOR,
        started_at=now - timedelta(minutes=3),
        ended_at=now,
        **more,
    )
    Run.objects.filter(pk=run.pk).update(created_at=now - timedelta(minutes=4))
    return run


def _promotions(world: FakeWorld) -> dict[str, str]:
    """Staging went back to what served before; production has neither."""
    served = world.ready(log=_started_log(), is_deployed=True)
    new = world.request(log=(LOGS / "kv-too-small.full.log").read_text(), rc=1)
    while new.state != State.FAILED:
        world.step(new)
    deployment = served.deployment
    assert deployment is not None
    reverted = _promotion(deployment.pk, new, Promotion.State.REVERTED, "staging", served.config_version)
    reverted.replaces = served
    reverted.reason = f"{new.name} did not come up: {new.reason} {served.name} serves as before."
    reverted.save()
    return {
        "environment-reverted": f"/environments/{reverted.environment_id}/",
        "promotion-reverted": f"/environments/promotions/{reverted.pk}/",
    }


def _promotion(
    deployment_id: int, instance: Instance, state: str, environment: str, before: ConfigVersion
) -> Promotion:
    now = timezone.now()
    promotion = Promotion.objects.create(
        environment=Environment.objects.get(name=environment),
        deployment_id=deployment_id,
        config_version=instance.config_version,
        previous_version=before,
        engine=instance.engine,
        instance=instance,
        why="More room for long prompts.",
        strategy="start_first",
        state=state,
        state_since=now,
        created_by=ACTOR,
        launched_at=now - timedelta(minutes=2),
        ended_at=now,
    )
    promotion.created_at = now - timedelta(minutes=3)
    promotion.save(update_fields=["created_at"])
    return promotion
