"""The order for one run: what the load generator is given, as one JSON file. Never holds a key.

The API key travels in the environment variable `LOADGEN_API_KEY`: not in argv, not in this file, not in any output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from controlplane.bench.domain.workloads import InvalidWorkload, Workload

KEY_VARIABLE = "LOADGEN_API_KEY"
ENDPOINT_PATHS = {"chat": "/v1/chat/completions"}


class InvalidSpec(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """A spec that cannot be run; the text names the key and what it must be."""


@dataclass(frozen=True)
class RunSpec:
    """One run.

    base_url           http(s)://host:port with or without a trailing /v1
    model              the served model name
    workload, seed     together they fix every request body
    output_dir         existing or new folder for progress.json, result.json and requests.json.gz
    endpoint           "chat"
    run_id             echoed in every output, so that a file is never taken for another run's
    connect_timeout_s, request_timeout_s   one connection, one whole request
    watchdog_s         end the run when nothing started, finished or streamed for so long
    error_budget       share of the planned requests that may fail; above it the exit code says so
    sample_every_s     period of the samples of /metrics and nvidia-smi
    metrics_url        where vLLM's /metrics is; None: beside base_url; "" : do not sample
    gpu                "auto" asks nvidia-smi, "off" does not
    gpu_uuids          only these GPUs in the samples; empty: all that nvidia-smi shows
    slo                limits in ms for goodput, keys ttft_ms, tpot_ms, e2el_ms; empty: no goodput
    extra_body         more fields for every request body (chat_template_kwargs and the like)
    """

    base_url: str
    model: str
    workload: Workload
    seed: int
    output_dir: str
    endpoint: str = "chat"
    run_id: str = ""
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 600.0
    watchdog_s: float = 60.0
    error_budget: float = 0.001
    sample_every_s: float = 1.0
    metrics_url: str | None = None
    gpu: str = "auto"
    gpu_uuids: tuple[str, ...] = ()
    slo: Mapping[str, float] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise InvalidSpec(problem)

    @property
    def root_url(self) -> str:
        """base_url without a trailing slash and without /v1."""
        url = self.base_url.rstrip("/")
        return url[: -len("/v1")] if url.endswith("/v1") else url

    @property
    def request_url(self) -> str:
        return self.root_url + ENDPOINT_PATHS[self.endpoint]

    @property
    def metrics_address(self) -> str | None:
        """Where to read /metrics, or None for not at all."""
        return self.root_url + "/metrics" if self.metrics_url is None else self.metrics_url or None

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "gpu_uuids": list(self.gpu_uuids),
            "slo": dict(self.slo),
            "extra_body": dict(self.extra_body),
        }


def parse_spec(text: str) -> RunSpec:
    """Read a spec file; raises InvalidSpec with one sentence that names the key."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidSpec(f"the spec is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidSpec("the spec must be a JSON object")
    if unknown := sorted(set(data) - {each.name for each in fields(RunSpec)}):
        raise InvalidSpec(f"unknown key {', '.join(unknown)}")
    if missing := sorted({"base_url", "model", "workload", "seed", "output_dir"} - set(data)):
        raise InvalidSpec(f"missing key {', '.join(missing)}")
    if not isinstance(data["workload"], dict):
        raise InvalidSpec("workload must be a JSON object")
    try:
        workload = Workload.from_json(data["workload"])
    except InvalidWorkload as error:
        raise InvalidSpec(str(error)) from error
    return RunSpec(**{**data, "workload": workload, "gpu_uuids": tuple(data.get("gpu_uuids") or ())})


def _problems(spec: RunSpec) -> list[str]:
    found = []
    parts = urlsplit(spec.base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        found.append(f"base_url must look like http://host:port, not {spec.base_url!r}")
    if parts.username or parts.password or parts.query:
        found.append(f"base_url must hold no user, password or query; a key goes in ${KEY_VARIABLE}")
    if spec.endpoint not in ENDPOINT_PATHS:
        found.append(f"endpoint must be one of {', '.join(ENDPOINT_PATHS)}, not {spec.endpoint!r}")
    if not isinstance(spec.seed, int) or isinstance(spec.seed, bool):
        found.append(f"seed must be a whole number, not {spec.seed!r}")
    texts = {"model": spec.model, "output_dir": spec.output_dir}
    found += [f"{name} must be a text" for name, value in texts.items() if not isinstance(value, str) or not value]
    for name in ("connect_timeout_s", "request_timeout_s", "watchdog_s", "sample_every_s"):
        value = getattr(spec, name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
            found.append(f"{name} must be a number of seconds above 0, not {value!r}")
    if not isinstance(spec.error_budget, (int, float)) or not 0 <= spec.error_budget <= 1:
        found.append(f"error_budget must be a share between 0 and 1, not {spec.error_budget!r}")
    if spec.gpu not in {"auto", "off"}:
        found.append(f'gpu must be "auto" or "off", not {spec.gpu!r}')
    if unknown := sorted(set(spec.slo) - {"ttft_ms", "tpot_ms", "e2el_ms"}):
        found.append(f"slo: unknown key {', '.join(unknown)}")
    return found
