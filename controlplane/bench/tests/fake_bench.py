"""A pretended host with a ready instance, on which load generators "run": a test says what each leaves behind."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from controlplane.bench import reconcile, services
from controlplane.bench.domain import outcome
from controlplane.bench.models import Run, Workload
from controlplane.bench.tests.results import full_run, result_of
from controlplane.drivers import links
from controlplane.drivers.errors import HostRefused
from controlplane.drivers.fake import FakeHost
from controlplane.fleet.models import Instance
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of, fake_world
from controlplane.inventory.services import endpoint_of

ROOT = "/nowhere/root"


@dataclass
class BenchHost(FakeHost):
    """FakeHost with `put_file`, and launches that leave files."""

    stored: dict[str, bytes] = field(default_factory=dict)

    def answer(self, verb: str, params: dict[str, Any]) -> Any:
        if verb != "put_file":
            return super().answer(verb, params)
        self.calls.append((verb, params))
        content = base64.b64decode(params["content_base64"], validate=True)
        if hashlib.sha256(content).hexdigest() != params["sha256"]:
            raise HostRefused("damaged_transfer", "The file arrived damaged.", "Send it again.")
        path = f"{ROOT}/tools/{params['sha256']}-{params['name']}"
        was_present = path in self.stored
        self.stored[path] = content
        return {"path": path, "size_bytes": len(content), "was_present": was_present}

    def leave(self, launch_id: str, files: dict[str, bytes]) -> None:
        """A process of the launch writes files into its folder."""
        self._launches[launch_id].files.update(files)


@dataclass
class BenchWorld:
    fleet: FakeWorld
    machine: BenchHost
    instance: Instance

    def request(self, workload: str = "smoke-8x32", instance: Instance | None = None, **more: Any) -> Run:
        return services.request_run(
            instance=instance or self.instance,
            workload=Workload.objects.get(name=workload),
            actor="test",
            **more,
        )

    def started(self, **more: Any) -> Run:
        run = self.request(**more)
        self.step(run)
        assert run.state == Run.State.RUNNING, run.reasons
        return run

    def step(self, run: Run) -> float | None:
        """The next step, whenever it was planned."""
        Run.objects.filter(pk=run.pk).update(step_due_at=None)
        wait_s = reconcile.advance(run.pk)
        run.refresh_from_db()
        return wait_s

    def spec(self, run: Run) -> dict[str, Any]:
        """What the host was given to read, not what the database remembers."""
        start = next(p for verb, p in self.machine.calls if verb == "start" and p["launch_id"] == run.job_id)
        return dict(json.loads(self.machine.stored[start["argv"][2]]))

    def end(self, run: Run, *, rc: int = 0, failed: int = 0, state: str = outcome.DONE, **result: Any) -> None:
        """The load generator writes its result and ends."""
        spec = self.spec(run)
        speed = {name: result.pop(name) for name in ("ttft_s", "gap_s") if name in result}
        requests = result.pop("requests", None)
        measured = full_run(spec, failed=failed, **speed) if requests is None else requests
        self.machine.leave(run.job_id, result_of(spec, measured, state=state, **result))
        self.machine.end(run.job_id, rc=rc)

    def finished(self, **more: Any) -> Run:
        """A whole run with good numbers."""
        wanted = {name: more.pop(name) for name in ("workload", "instance", "seed", "note") if name in more}
        run = self.started(**wanted)
        self.end(run, **more)
        self.step(run)
        assert run.state == Run.State.FINISHED, run.reasons
        return run

    def end_engine(self, instance: Instance) -> None:
        self.machine.end(attempt_of(instance).launch_id, signal="SIGKILL")


def bench_world() -> BenchWorld:
    fleet = fake_world()
    machine = BenchHost(hostname=fleet.host.name, models=fleet.machine.models)
    fleet.machine = machine
    links.adopt(endpoint_of(fleet.host), machine.link())
    return BenchWorld(fleet, machine, fleet.ready())
