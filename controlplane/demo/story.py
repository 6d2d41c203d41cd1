"""The story: engine, model, config, launch, measure, change one thing, launch, measure, compare, promote, tidy up."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.demo.client import Api, StepFailed

CONFIG = Path(__file__).with_name("config.toml")
CONFIG_NAME = "demo-tiny"
WORKLOAD = "shared-prefix-16x64"
CHANGE = {"batching.enable_prefix_caching": True}
ENVIRONMENT = "production"
FIRST_SEED = 20_000
MEASURED_TRIES = 3
"""A machine that is busy otherwise can spoil a run: it is then invalid and measured again, up to this many times."""

PROBE_TIMEOUT_S = 180.0
LAUNCH_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 120.0
PROMOTE_TIMEOUT_S = 300.0

Say = Callable[[str], None]


@dataclass
class Told:
    """What happened, for the last line: everything that was launched, measured and promoted."""

    instances: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    table: str = ""
    comparison_url: str = ""
    promoted: dict[str, Any] = field(default_factory=dict)

    def as_line(self, *, ok: bool, error: str = "") -> str:
        line: dict[str, Any] = {
            "ok": ok,
            "instances": self.instances,
            "runs": self.runs,
            "comparison_url": self.comparison_url,
            "promoted": self.promoted,
            "phases_s": self.phases,
        }
        return json.dumps(line if not error else {**line, "error": error})


class Story:
    """One telling. `tell` raises StepFailed at the first step that does not work; `tidy` may follow in any case."""

    def __init__(self, api: Api, *, host: str, executable: Path, model: Path, say: Say, told: Told) -> None:
        self.api, self.host, self.executable, self.model = api, host, executable, model
        self.say, self.told = say, told
        self.launched: list[int] = []

    def tell(self) -> None:
        with self._phase("probe the host"):
            engine = self._find_engine()
        with self._phase("import the config"):
            self._add_model()
            first = self._import_config()
        off = self._launch_and_measure(first, engine, "prefix caching off")
        with self._phase("change one parameter"):
            second = self.api.post(
                f"/configs/{CONFIG_NAME}/versions/{first['number']}/change",
                {"values": CHANGE, "note": "Prefix caching on: the prompts share a long beginning."},
            )
        on = self._launch_and_measure(second, engine, "prefix caching on")
        with self._phase("compare"):
            self._compare(off["run"], on["run"])
        better = max((off, on), key=lambda arm: arm["run"]["output_throughput"])
        with self._phase("promote"):
            self._promote(better)
        with self._phase("stop what is not promoted"):
            for arm in (off, on):
                if arm is not better:
                    self._stop(arm["instance"]["id"])

    def tidy(self) -> None:
        """Stop everything that this telling launched, and wait until it is proved to be gone."""
        with self._phase("stop everything"):
            self._retire()
            for instance_id in self.launched:
                self._stop(instance_id)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self.say(f"… {name}")
        yield
        took = time.monotonic() - began
        self.told.phases[name] = round(self.told.phases.get(name, 0.0) + took, 1)
        self.say(f"  {name}: {took:.1f} s")

    def _find_engine(self) -> dict[str, Any]:
        """The engine on the host, once its own option list is read."""

        def is_known(answer: Any) -> bool:
            return self._engine_of(answer) is not None

        host = next((one for one in self.api.get("/hosts?q=" + self.host)["items"] if one["name"] == self.host), None)
        if host is None:
            raise StepFailed(f"There is no host {self.host}.", "Run manage.py ensure_localhost.")
        self.api.post(f"/hosts/{host['id']}/probe")
        found = self.api.wait(
            f"/engines?host={self.host}", is_known, timeout_s=PROBE_TIMEOUT_S, what=f"Finding vLLM on {self.host}"
        )
        engine = self._engine_of(found)
        if engine is None:
            raise StepFailed(f"{self.executable} was not found on {self.host}.")
        self.say(f"  vLLM {engine['version']} on {self.host}")
        return engine

    def _engine_of(self, answer: Any) -> dict[str, Any] | None:
        """The wanted engine in a list of engines, ready to be used."""
        for one in answer["items"]:
            if one["executable"] == str(self.executable) and one["option_count"]:
                return dict(one)
        return None

    def _add_model(self) -> None:
        known = {model["location"] for model in self.api.get("/models?q=demo")["items"]}
        if str(self.model) not in known:
            name = f"demo-{self.model.name}"
            self.api.post(
                "/models", {"name": name, "source": "path", "location": str(self.model), "hosts": [self.host]}
            )

    def _import_config(self) -> dict[str, Any]:
        toml = CONFIG.read_text().replace("{model}", str(self.model))
        answer = self.api.post("/configs/import", {"name": CONFIG_NAME, "toml": toml, "note": "The demonstration."})
        return dict(answer)

    def _launch_and_measure(self, version: dict[str, Any], engine: dict[str, Any], label: str) -> dict[str, Any]:
        with self._phase(f"launch v{version['number']} ({label})"):
            instance = self._launch(version, engine)
        with self._phase(f"benchmark v{version['number']}"):
            run = self._measure(version, instance, label)
        return {"version": version, "instance": instance, "run": run}

    def _launch(self, version: dict[str, Any], engine: dict[str, Any]) -> dict[str, Any]:
        body = {"config_version_id": version["id"], "engine_id": engine["id"]}
        asked = self.api.post("/instances", body)
        path = f"/instances/{asked['id']}"
        self.launched.append(asked["id"])

        def is_decided(one: Any) -> bool:
            has_answered = one["smoke"].get("state") in {"answered", "failed"}
            return one["state"] in {"failed", "stopped"} or (one["state"] == "ready" and has_answered)

        instance = self.api.wait(path, is_decided, timeout_s=LAUNCH_TIMEOUT_S, what=f"Launching {asked['name']}")
        if instance["state"] != "ready":
            attempt = instance["attempt"] or {}
            raise StepFailed(f"{instance['name']}: {instance['reason']}", attempt.get("remedy", ""))
        self._say_ready(instance)
        self.told.instances.append(
            {
                "config_version": f"{CONFIG_NAME} v{version['number']}",
                "kv_cache_tokens": instance["measured_kv_tokens"],
                "ready_s": round(instance["ready_s"], 2),
            }
        )
        return dict(instance)

    def _say_ready(self, instance: dict[str, Any]) -> None:
        smoke = instance["smoke"]
        if smoke["state"] != "answered":
            raise StepFailed(f"{instance['name']} did not answer the smoke request: {smoke.get('error')}")
        self.say(
            f"  {instance['name']} ready in {instance['ready_s']:.1f} s;"
            f" KV cache {instance['measured_kv_tokens']:,} tokens (predicted {instance['predicted_kv_tokens']:,});"
            f" smoke: {smoke['prompt_tokens']} prompt tokens, {smoke['completion_tokens']} completion tokens"
        )

    def _measure(self, version: dict[str, Any], instance: dict[str, Any], label: str) -> dict[str, Any]:
        """A valid run. An invalid one is kept, with its reasons, and measured again."""
        for attempt in range(MEASURED_TRIES):
            # Both arms get the same prompts; a second try gets others, since the first has warmed the prefix cache.
            body = {"instance_id": instance["id"], "workload": WORKLOAD, "note": label, "seed": FIRST_SEED + attempt}
            asked = self.api.post("/runs", body)
            run = self.api.wait(
                f"/runs/{asked['id']}",
                lambda one: one["state"] not in {"queued", "running"},
                timeout_s=RUN_TIMEOUT_S,
                what=f"Run {asked['id']}",
            )
            if run["state"] == "finished":
                self._remember_run(version, run)
                return dict(run)
            reasons = " ".join(reason["sentence"] for reason in run["reasons"])
            self.say(f"  run {run['id']} is {run['state']}: {reasons}")
            if run["state"] != "invalid":
                raise StepFailed(f"Run {run['id']} {run['state']}: {reasons}")
        raise StepFailed(
            f"{MEASURED_TRIES} runs of {instance['name']} were invalid.", "Try again on a quieter machine."
        )

    def _remember_run(self, version: dict[str, Any], run: dict[str, Any]) -> None:
        self.say(
            f"  run {run['id']}: {run['output_throughput']:.0f} output tokens/s, TTFT p50 {run['ttft_ms_p50']:.0f} ms,"
            f" TPOT p50 {run['tpot_ms_p50']:.1f} ms, {run['failed']} failed"
        )
        kept = ("output_throughput", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "failed")
        name = f"{CONFIG_NAME} v{version['number']}"
        self.told.runs.append({"config_version": name, **{key: run[key] for key in kept}})

    def _compare(self, baseline: dict[str, Any], tuned: dict[str, Any]) -> None:
        query = f"runs={baseline['id']},{tuned['id']}&baseline={baseline['id']}"
        self.told.table = self.api.text(f"/compare?{query}&format=markdown")
        self.told.comparison_url = f"{self.api.base_url}/benchmarks/compare/?{query}"

    def _promote(self, arm: dict[str, Any]) -> None:
        asked = self.api.post(
            "/promotions",
            {
                "environment": ENVIRONMENT,
                "config": CONFIG_NAME,
                "version": arm["version"]["number"],
                "instance_id": arm["instance"]["id"],
                "run_ids": [arm["run"]["id"]],
                "why": "The faster of the two in the demonstration.",
            },
        )
        done = self.api.wait(
            f"/promotions/{asked['id']}",
            lambda one: one["state"] not in {"pending", "rolling"},
            timeout_s=PROMOTE_TIMEOUT_S,
            what="The promotion",
        )
        if done["state"] != "live":
            raise StepFailed(f"The promotion is {done['state']}: {done['reason']}")
        version = f"{CONFIG_NAME} v{arm['version']['number']}"
        self.told.promoted = {
            "environment": ENVIRONMENT,
            "config_version": version,
            "instance": arm["instance"]["name"],
        }
        self.say(f"  {version} serves {ENVIRONMENT}")

    def _retire(self) -> None:
        """Take what was promoted out of service, so that nothing starts it again."""
        if self.told.promoted:
            self.api.post(f"/environments/{ENVIRONMENT}/deployments/{CONFIG_NAME}/stop", {"why": "End of the demo."})

    def _stop(self, instance_id: int) -> None:
        path = f"/instances/{instance_id}"
        if self.api.get(path)["state"] == "stopped":
            return
        self.api.post(f"{path}/stop", {"why": "End of the demonstration."})
        ended = self.api.wait(
            path, lambda one: one["state"] == "stopped", timeout_s=STOP_TIMEOUT_S, what="Stopping an instance"
        )
        self.say(f"  {ended['name']}: {ended['reason']}")
