"""A pretended host with environments on it: what promotions, their pages and their API are tested on."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import Config, ConfigVersion
from controlplane.drivers.fake import Program
from controlplane.fleet import reconcile as fleet
from controlplane.fleet.models import LIVE_STATES, Deployment, Environment, Instance, Preflight, State
from controlplane.fleet.services import request_launch
from controlplane.fleet.tests.fake_world import UP, FakeWorld, fake_world
from controlplane.inventory.models import Accelerator, Engine
from controlplane.inventory.tests.samples import gpu_report
from controlplane.release import reconcile, services
from controlplane.release.domain.replacement import SOAK_S
from controlplane.release.models import Promotion

CARD_BYTES = 80 * 1024**3


@dataclass
class ReleaseWorld:
    """One config in versions; `fleet` is the fleet's own pretended world, `elsewhere` further hosts."""

    fleet: FakeWorld
    config: Config
    broken: set[int] = field(default_factory=set)
    elsewhere: list[FakeWorld] = field(default_factory=list)

    def version(self, number: int, **sections: dict[str, Any]) -> ConfigVersion:
        """Version `number`, made when it is asked for first."""
        found = ConfigVersion.objects.filter(config=self.config, number=number).first()
        if found is not None:
            return found
        made = self.fleet.version(batching={"max_num_seqs": 8 * number}, **sections)
        other, made.config, made.number = made.config, self.config, number
        made.toml = f"[batching]\nmax_num_seqs = {8 * number}\n".encode()
        made.save()
        other.delete()
        return made

    def run(self, version: ConfigVersion, **fields: Any) -> Run:
        workload, _ = Workload.objects.get_or_create(name="seed-64x256", defaults={"spec": {}, "digest": "w"})
        values: dict[str, Any] = {
            "workload": workload,
            "workload_digest": "w",
            "seed": 1,
            "config_version": version,
            "config_digest": version.digest,
            "engine_build": self.fleet.engine.build,
            "host": self.fleet.host,
            "job_id": f"job-{Run.objects.count() + 1}",
            "state": Run.State.FINISHED,
            "output_throughput": 400.0 + version.number,
            "ttft_ms_p50": 120.0,
            "ttft_ms_p99": 480.0,
            "tpot_ms_p50": 11.0,
            "created_by": "test",
        }
        return Run.objects.create(**{**values, **fields})

    def promote(self, number: int, **more: Any) -> Promotion:
        values: dict[str, Any] = {
            "environment": Environment.objects.get(name=more.pop("environment", "staging")),
            "config_version": self.version(number),
            "engine": self.fleet.engine,
            "why": "It is faster.",
            "actor": "olga",
        }
        return services.promote(**{**values, **more})

    def live(self, number: int, **more: Any) -> Promotion:
        """Version `number` promoted and serving."""
        promotion = self.promote(number, **more)
        self.settle(promotion)
        assert promotion.state == Promotion.State.LIVE, promotion.reason
        return promotion

    # What the workers do

    def settle(self, promotion: Promotion, *, rounds: int = 30) -> None:
        """Ticks until it is over."""
        for _tick in self.ticks(promotion, at_most=rounds):
            pass

    def ticks(self, promotion: Promotion, *, at_most: int = 30) -> Iterator[int]:
        """Tick by tick until it is over: the number of each, once it has been made."""
        for number in range(1, at_most + 1):
            if not promotion.is_under_way:
                return
            self.tick(promotion)
            yield number
        assert not promotion.is_under_way, f"still {promotion.state}: {promotion.reason}"

    def tick(self, promotion: Promotion) -> None:
        """One tick of everything: the promotion's moves, checks that were asked for, a step for every instance."""
        reconcile.advance(promotion.pk, now=timezone.now() + timedelta(seconds=SOAK_S))
        self.fill_cards()
        for preflight in Preflight.objects.filter(state=Preflight.State.QUEUED):
            fleet.fill_preflight(preflight.pk)
        live = Instance.objects.filter(state__in=LIVE_STATES)
        live.update(state_since=timezone.now() - timedelta(minutes=10))
        for instance in live.select_related("config_version", "engine"):
            if instance.state == State.PENDING:
                self.behave(instance)
            self.fleet.step(instance)
        promotion.refresh_from_db()

    def fill_cards(self) -> None:
        """A card is full while an instance runs on it, and empty otherwise."""
        if not self.fleet.machine.gpu.gpus:
            return
        live = Instance.objects.filter(state__in=[State.STARTING, State.READY, State.DRAINING])
        held = {uuid for uuids in live.values_list("gpu_uuids", flat=True) for uuid in uuids}
        machine = self.fleet.machine
        machine.gpu = replace(
            machine.gpu,
            gpus=[replace(gpu, memory_used_bytes=CARD_BYTES * (gpu.uuid in held)) for gpu in machine.gpu.gpus],
        )

    def behave(self, instance: Instance) -> None:
        """It serves, or dies at once when its version is `broken`."""
        rc = 1 if instance.config_version.number in self.broken else None
        there = next((one for one in self.elsewhere if one.host.pk == instance.host_id), self.fleet)
        there.behave(instance, Program(log=UP, rc=rc, serves=there.server.answer))

    def fails(self, *numbers: int) -> None:
        """These versions, and only these, do not come up from now on."""
        self.broken = set(numbers)

    # What a test looks at

    def deployment(self, environment: str = "staging") -> Deployment:
        return Deployment.objects.get(environment__name=environment, name=self.config.name)

    def serving(self, environment: str = "staging") -> list[int]:
        """Version numbers of what serves there: ready, wanted, and the deployment's."""
        found = Instance.objects.filter(
            deployment__environment__name=environment, state=State.READY, desired=Instance.Desired.RUNNING
        )
        return sorted(found.values_list("config_version__number", flat=True))

    def starts(self) -> int:
        return len(self.fleet.starts())

    def measured_instance(self, number: int) -> Instance:
        """A ready instance that serves nothing, as after a benchmark."""
        instance = request_launch(config_version=self.version(number), engine=self.fleet.engine, actor="test")
        self.behave(instance)
        self.fleet.step(instance)
        self.fleet.step(instance)
        assert instance.state == State.READY
        return instance

    def with_gpus(self, count: int) -> list[str]:
        """The host gets GPUs, and its engine is a GPU build from now on."""
        report = gpu_report(*range(count))
        cards = [replace(gpu, memory_total_bytes=CARD_BYTES, memory_used_bytes=0) for gpu in report.gpus]
        self.fleet.machine.gpu = replace(report, gpus=cards)
        Engine.objects.filter(pk=self.fleet.engine.pk).update(device=Engine.Device.GPU)
        self.fleet.engine.refresh_from_db()
        uuids = [gpu.uuid for gpu in self.fleet.machine.gpu.gpus]
        for gpu in self.fleet.machine.gpu.gpus:
            Accelerator.objects.create(
                host=self.fleet.host, uuid=gpu.uuid, index=gpu.index, name=gpu.name, memory_total_bytes=CARD_BYTES
            )
        return uuids


def release_world() -> ReleaseWorld:
    return ReleaseWorld(fake_world(), Config.objects.create(name="qwen", created_by="test"))
