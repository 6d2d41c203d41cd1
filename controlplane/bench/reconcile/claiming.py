"""From queued to running: the instance is taken, and what it is at this moment is written down."""

from typing import Any

from django.db import IntegrityError, transaction

from controlplane.bench.models import Run
from controlplane.bench.services.states import move
from controlplane.fleet.models import Attempt, Instance
from controlplane.inventory.models import Accelerator, Host

_KEPT_OF_HOST = ("hostname", "os_name", "kernel", "architecture", "cpu_model", "cpu_count", "memory_total_bytes")


def claim(run: Run) -> bool:
    """Take the instance for `run`, with a snapshot of all its numbers will depend on; False when another run has it."""
    instance = run.instance
    attempt = instance.attempts.order_by("-number").first() if instance else None
    if instance is None or attempt is None:
        return False
    try:
        with transaction.atomic():
            return move(run, Run.State.RUNNING, **_snapshot(instance, attempt), progress={"phase": "preparing"})
    except IntegrityError:  # one_running_run_per_instance: somebody else's run was quicker
        return False


def _snapshot(instance: Instance, attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "config_version": instance.config_version,
        "config_digest": instance.config_version.digest,
        "engine_version": instance.engine.version,
        "engine_build": instance.engine.build,
        "host": instance.host,
        "host_facts": host_facts(instance.host, instance.gpu_uuids),
        "argv": attempt.argv,
    }


def host_facts(host: Host, gpu_uuids: list[str]) -> dict[str, Any]:
    """The machine as the last probe saw it, and of its GPUs those that serve the instance."""
    facts = {name: host.facts[name] for name in _KEPT_OF_HOST if host.facts.get(name) is not None}
    gpus = Accelerator.objects.filter(host=host, uuid__in=gpu_uuids).order_by("index")
    return {
        **facts,
        "gpus": [{name: getattr(gpu, name) for name in ("uuid", "index", "name", "driver")} for gpu in gpus],
    }
