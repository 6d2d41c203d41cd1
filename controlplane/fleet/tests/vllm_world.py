"""A host with the real CPU build of vLLM and the tiny model, and what a worker would do to it, called directly."""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.configs.models import Config, ConfigVersion
from controlplane.fleet import reconcile, services
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.inventory.models import Engine, Host, OptionList
from controlplane.inventory.services import call_host

PATIENCE_S = 240.0
TICK_S = 2.0


@dataclass
class VllmWorld:
    """`steps` calls what the worker's tasks call, at the pace of the real messages and of the tick."""

    host: Host
    engine: Engine
    model: Path

    def version(self, name: str, **sections: dict[str, Any]) -> ConfigVersion:
        """A config like the demo's, with keys of `sections` replaced; None takes a key out."""
        content: dict[str, dict[str, Any]] = {
            "server": {"host": "127.0.0.1", "served_model_name": "tiny"},
            "model": {"model_path": str(self.model), "max_model_len": 2048},
            "batching": {"max_num_seqs": 64},
            "engine": {"enforce_eager": True, "kv_cache_memory_bytes": "64M"},
        }
        for section, keys in sections.items():
            content[section] = {
                name: value for name, value in {**content[section], **keys}.items() if value is not None
            }
        config = Config.objects.create(name=name, created_by="test")
        return ConfigVersion.objects.create(
            config=config, number=1, toml=b"", content=content, digest=name, file_digest=name, author="test"
        )

    def launch(self, name: str, *, override_reason: str = "", port: int | None = None, **sections: Any) -> Instance:
        return services.request_launch(
            config_version=self.version(name, **sections),
            engine=self.engine,
            port=port or free_port(),
            override_reason=override_reason,
            actor="test",
        )

    def steps(self, *instances: Instance, until: Callable[[Instance], bool]) -> None:
        """Do what the worker would until every instance is there; fails after `PATIENCE_S`."""
        deadline = time.monotonic() + PATIENCE_S
        due = {instance.pk: 0.0 for instance in instances}
        while waiting := [one for one in instances if not until(fresh(one))]:
            assert time.monotonic() < deadline, [(one.name, one.state, one.reason) for one in waiting]
            for pk, at in due.items():
                if at <= time.monotonic():
                    wait_s = reconcile.advance(pk)
                    if wait_s is None:
                        reconcile.observe_host(self.host.pk)
                    due[pk] = time.monotonic() + (TICK_S if wait_s is None else wait_s)
            time.sleep(max(0.0, min(due.values()) - time.monotonic()))

    def ready(self, instance: Instance) -> Instance:
        self.steps(instance, until=lambda one: one.state in {State.READY, State.FAILED})
        assert instance.state == State.READY, (instance.reason, log_of(instance)[-2000:])
        return instance

    def stopped(self, instance: Instance) -> Instance:
        services.request_stop(instance, actor="test")
        self.steps(instance, until=lambda one: one.state in {State.STOPPED, State.FAILED})
        return instance

    def processes_of(self, instance: Instance) -> list[int]:
        launch = call_host(self.host, "describe", {"launch_id": attempt_of(instance).launch_id})
        return [process["pid"] for process in launch["processes"]]

    def stop_everything(self) -> None:
        for launch in call_host(self.host, "list")["launches"]:
            report = call_host(self.host, "stop", {"launch_id": launch["launch_id"], "term_timeout_s": 0.0})
            assert report["is_gone"], report


def attempt_of(instance: Instance) -> Attempt:
    return instance.attempts.latest("number")


def log_of(instance: Instance) -> str:
    return "".join(attempt_of(instance).log_chunks.order_by("offset").values_list("text", flat=True))


def fresh(instance: Instance) -> Instance:
    instance.refresh_from_db()
    return instance


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def register(root: Path, vllm: Path, options: dict[str, Any]) -> tuple[Host, Engine]:
    """Rows as a probe would leave them."""
    host = Host.objects.create(name="localhost", transport="local", root=str(root))
    listed = OptionList.objects.create(build="cpu-build", version=options["vllm_version"], args=options)
    engine = Engine.objects.create(
        host=host,
        executable=str(vllm),
        version=options["vllm_version"],
        device=Engine.Device.CPU,
        build="cpu-build",
        option_list=listed,
    )
    return host, engine
