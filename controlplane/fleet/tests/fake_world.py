"""A pretended host with an engine and a model, and instances on it."""

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from controlplane.configs.models import Config, ConfigVersion
from controlplane.drivers import links
from controlplane.drivers.fake import FakeHost, Program
from controlplane.fleet import reconcile, services
from controlplane.fleet.models import Attempt, Deployment, Environment, Instance, State
from controlplane.fleet.services.rendering import arguments_of
from controlplane.inventory.models import Engine, Host
from controlplane.inventory.services import endpoint_of
from controlplane.inventory.tests.samples import model_facts
from controlplane.protocol.transfers import HttpReply, HttpRequest

MODEL = "/models/qwen"
UP = "INFO:     Application startup complete.\n"
METRICS = "vllm:num_requests_running 1\nvllm:generation_tokens_total {tokens}\n"
numbers = itertools.count(1)


@dataclass
class Server:
    """What the pretended vLLM answers; a test changes it on the way."""

    is_up: bool = True
    tokens: int = 7
    asked: list[HttpRequest] = field(default_factory=list)

    def answer(self, request: HttpRequest) -> HttpReply:
        self.asked.append(request)
        if not self.is_up:
            return HttpReply(503, {}, "", 1.0)
        if request.path == "/metrics":
            return HttpReply(200, {}, METRICS.format(tokens=self.tokens), 1.0)
        said = {
            "choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3},
        }
        return HttpReply(200, {}, json.dumps(said), 1.0)


@dataclass
class FakeWorld:
    host: Host
    machine: FakeHost
    engine: Engine
    server: Server = field(default_factory=Server)

    def version(self, **sections: dict[str, Any]) -> ConfigVersion:
        """A config with keys of `sections` replaced; None takes a key out."""
        content: dict[str, Any] = {
            "server": {"served_model_name": "qwen", "host": "127.0.0.1"},
            "model": {"model_path": MODEL, "max_model_len": 2048},
            "batching": {},
            "engine": {"kv_cache_memory_bytes": "8G"},
        }
        for section, keys in sections.items():
            content[section] = {key: value for key, value in {**content[section], **keys}.items() if value is not None}
        name = f"chat-{next(numbers)}"
        config = Config.objects.create(name=name, created_by="test")
        return ConfigVersion.objects.create(
            config=config, number=1, toml=b"", content=content, digest=name, file_digest=name, author="test"
        )

    def deployment(self, version: ConfigVersion) -> Deployment:
        environment = Environment.objects.get(name="staging")
        return Deployment.objects.create(
            environment=environment,
            name=version.config.name,
            config_version=version,
            host=self.host,
            engine=self.engine,
        )

    def request(
        self,
        *,
        log: str = UP,
        rc: int | None = None,
        is_deployed: bool = False,
        port: int | None = None,
        override_reason: str = "",
        is_stuck: bool = False,
        **sections: Any,
    ) -> Instance:
        """Ask for a launch whose process prints `log`, then serves, or ends with `rc`."""
        version = self.version(**sections)
        instance = services.request_launch(
            config_version=version,
            engine=self.engine,
            port=port,
            deployment=self.deployment(version) if is_deployed else None,
            override_reason=override_reason,
            actor="test",
        )
        self.behave(instance, Program(log=log, rc=rc, serves=self.server.answer, outlives_sigkill=is_stuck))
        return instance

    def behave(self, instance: Instance, program: Program) -> None:
        argv = (self.engine.executable, *arguments_of(instance)[0])
        self.machine.programs[argv] = program

    def ready(self, **more: Any) -> Instance:
        instance = self.request(**more)
        self.step(instance)
        self.step(instance)
        assert instance.state == State.READY, instance.reason
        return instance

    def step(self, instance: Instance) -> float | None:
        """The next step, whenever it was planned."""
        Instance.objects.filter(pk=instance.pk).update(step_due_at=None)
        wait_s = reconcile.advance(instance.pk, here_at_most_s=0)
        instance.refresh_from_db()
        return wait_s

    def observe(self, instance: Instance) -> None:
        """One tick, and the step it asks for."""
        reconcile.observe_host(self.host.pk)
        instance.refresh_from_db()
        if instance.state != State.READY:
            self.step(instance)

    def starts(self) -> list[dict[str, Any]]:
        return [params for verb, params in self.machine.calls if verb == "start"]


def fake_world() -> FakeWorld:
    number = next(numbers)
    host = Host.objects.create(name=f"gpu-{number}", transport="local", root=f"/nowhere/{number}")
    engine = Engine.objects.create(
        host=host, executable="/opt/vllm/bin/vllm", version="0.32.0+cpu", device=Engine.Device.CPU
    )
    machine = FakeHost(hostname=host.name, models={MODEL: model_facts(MODEL)})
    links.adopt(endpoint_of(host), machine.link())
    return FakeWorld(host, machine, engine)


def attempt_of(instance: Instance) -> Attempt:
    return instance.attempts.latest("number")
