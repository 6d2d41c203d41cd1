"""Results as the load generator itself would write them, from invented requests."""

import asyncio
import base64
import gzip
import json
from array import array
from collections.abc import Sequence
from typing import Any

from controlplane.bench.domain import outcome, records
from controlplane.bench.domain.gpu_samples import GpuReading
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.domain.spec import parse_spec
from controlplane.bench.loadgen.lag import LagProbe
from controlplane.bench.loadgen.report import Observation, build_result
from controlplane.bench.loadgen.sampling import EngineSampler, GpuSampler
from controlplane.protocol.engine_metrics import EngineSample


def good_request(index: int, *, tokens: int, ttft_s: float = 0.2, gap_s: float = 0.02) -> RequestRecord:
    first = 1.0 + ttft_s + index * 0.001
    stamps = array("d", (first + step * gap_s for step in range(tokens)))
    return RequestRecord(
        index=index, sent_s=1.0, asked_s=1.0, status=records.OK, http_status=200, first_s=first, first_visible_s=first,
        last_s=stamps[-1], ended_s=stamps[-1], prompt_tokens=50, output_tokens=tokens, finish_reason="length",
        body_bytes=400, body_sha256=f"{index:064x}", stamps=stamps,
    )  # fmt: skip


def failed_request(index: int, *, error_class: str = "http_500", sample: str = "engine is dead") -> RequestRecord:
    return RequestRecord(
        index=index, sent_s=1.0, asked_s=1.0, status=records.FAILED, http_status=500, error_class=error_class,
        error_sample=sample, ended_s=1.5,
    )  # fmt: skip


def result_of(
    spec: dict[str, Any],
    requests: Sequence[RequestRecord],
    *,
    state: str = outcome.DONE,
    probe: RequestRecord | None = None,
    gpu_percent: float | None = None,
    prefix_hits: float = 0.0,
) -> dict[str, bytes]:
    """The files of a run by name. `spec` as it was stored on the host; `gpu_percent` None: the host has no GPU."""

    async def build() -> tuple[dict[str, Any], dict[str, Any], int]:
        return build_result(_observation(spec, requests, state, probe, gpu_percent, prefix_hits))

    columns, result, _code = asyncio.run(build())
    packed = gzip.compress(json.dumps(columns).encode(), mtime=0)
    return {
        "result.json": json.dumps(result).encode(),
        "requests.json.gz": packed,
        "requests.json.gz.b64": base64.b64encode(packed),
    }


def _observation(
    spec: dict[str, Any],
    requests: Sequence[RequestRecord],
    state: str,
    probe: RequestRecord | None,
    gpu_percent: float | None,
    prefix_hits: float,
) -> Observation:
    parsed = parse_spec(json.dumps(spec))
    gpu = GpuSampler(uuids=(), clock=lambda: 1.0)
    gpu.status = "no_gpu"
    if gpu_percent is not None:
        gpu.status = "ok"
        gpu.times_s = [1.0, 2.0]
        gpu.readings = [GpuReading(0, "GPU-0", gpu_percent, 10, 100, 300.0, 1500.0) for _ in range(2)]
    engine = EngineSampler(None, "", clock=lambda: 1.0)  # type: ignore[arg-type]  # asks nobody
    engine.times_s = [1.0, 2.0]
    engine.samples = [
        EngineSample(0, 0, 0.1, 0.1, 100, 0, 0, 0, 0, 5.0),
        EngineSample(parsed.workload.concurrency, 0, 0.4, 0.5, 200, prefix_hits, 0, 50, 100, 5.0),
    ]
    return Observation(
        spec=parsed, state=state, started_at=1.0, probe=probe, words=None, warmups=[], measured=requests,
        lag=LagProbe(), engine=engine, gpu=gpu,
    )  # fmt: skip


def full_run(spec: dict[str, Any], *, failed: int = 0, **speed: float) -> list[RequestRecord]:
    """Every planned request, the last `failed` of them failed."""
    workload = spec["workload"]
    good = [
        good_request(index, tokens=workload["max_tokens"], **speed) for index in range(workload["requests"] - failed)
    ]
    return [*good, *(failed_request(len(good) + index) for index in range(failed))]
