"""One closed-loop run: probe, warm up, measure, report.

Closed loop: a fixed number of workers, each sending its next request when its last one has ended. The event loop is the
only thread; every phase can be stopped by a signal or the watchdog, and the counts are honest whenever that happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Coroutine, Iterator
from typing import Any

from controlplane.bench.domain import outcome, prompts, records
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.domain.spec import RunSpec
from controlplane.bench.loadgen.client import RunClock, exchange, open_client
from controlplane.bench.loadgen.connection import HttpClient
from controlplane.bench.loadgen.lag import LagProbe
from controlplane.bench.loadgen.output import OutputFolder
from controlplane.bench.loadgen.report import Observation, build_result
from controlplane.bench.loadgen.sampling import EngineSampler, GpuSampler

PROGRESS_PERIOD_S = 1.0
PROBE_TOKENS = 2
# Prompt sizes of the two probes when a workload aims at a number of tokens: far enough apart for a good slope.
FIT_WORDS = (50, 250)


class LoadRun:
    """Runs `spec` and writes its files; `execute` gives the exit code."""

    def __init__(self, spec: RunSpec, *, api_key: str | None, output: OutputFolder) -> None:
        self.spec, self.output = spec, output
        self.clock = RunClock()
        self.workload = spec.workload
        self.phase = "probe"
        self.state = outcome.DONE
        self.started_at = time.time()
        self.words: int | None = None  # fitted prompt size, when the workload aims at tokens
        self.probe: RequestRecord | None = None
        self.warmups: list[RequestRecord] = []
        self.measured: list[RequestRecord] = []
        self.running: dict[int, RequestRecord] = {}
        self.lag = LagProbe()
        self.engine: EngineSampler | None = None
        self.gpu = GpuSampler(uuids=spec.gpu_uuids, clock=self.clock)
        self._api_key = api_key
        self._first_wave: dict[tuple[str, int], bytes] = {}
        self._last_movement_s = 0.0
        self._stop = asyncio.Event()

    def stop(self, state: str) -> None:
        """End the run where it is; the first one to call names the reason."""
        if not self._stop.is_set() and self.phase != "done":
            self.state = state
            self._stop.set()

    async def execute(self) -> ExitCode:
        async with open_client(self.spec, self._api_key) as client:
            background = [asyncio.create_task(work) for work in (self._report_progress(), self._watch())]
            try:
                await self._phases(client)
            except BaseException:
                self.phase, self.state = "done", "crashed"
                self.output.write_progress(self.progress())
                raise
            finally:
                await _cancel(*background)
        self.phase = "done"
        columns, result, code = build_result(self._observation())
        self.output.write_requests(columns)
        self.output.write_progress(self.progress())
        self.output.write_result(result)
        return code

    def _observation(self) -> Observation:
        return Observation(
            spec=self.spec,
            state=self.state,
            started_at=self.started_at,
            probe=self.probe,
            words=self.words,
            warmups=self.warmups,
            measured=self.measured,
            lag=self.lag,
            engine=self.engine,
            gpu=self.gpu,
        )

    async def _phases(self, client: HttpClient) -> None:
        await self._unless_stopped(self._probe(client))
        if self.state != outcome.DONE:
            return
        self.phase = "warmup"
        warmup = self._workers(client, prompts.WARMUP, self.workload.warmup_count, self.warmups)
        await self._unless_stopped(warmup)
        if self.state != outcome.DONE:
            return
        self.phase = "measure"
        await self._measure(client)

    async def _probe(self, client: HttpClient) -> None:
        """One small request: if it fails there is nothing to measure. Two with a token target, to fit words to it."""
        sizes = [self.workload.prompt_words] if self.workload.prompt_tokens is None else list(FIT_WORDS)
        counted = []
        for index, words in enumerate(sizes):
            self.probe = await self._one(client, prompts.PROBE, index, words=words, max_tokens=PROBE_TOKENS)
            if self.probe.status == records.FAILED:
                self.state = outcome.PROBE_FAILED
                return
            counted.append((words, self.probe.prompt_tokens or 0))
        if self.workload.prompt_tokens is not None:
            self._fit(self.workload.prompt_tokens, counted, self.probe)

    def _fit(self, target: int, counted: list[tuple[int, int]], probe: RequestRecord | None) -> None:
        try:
            self.words = prompts.fit_words(target, small=counted[0], large=counted[1])
        except ValueError as error:
            self.state = outcome.PROBE_FAILED
            if probe:
                probe.error_class, probe.error_sample = "no_usage", str(error)

    async def _measure(self, client: HttpClient) -> None:
        samplers = []
        if address := self.spec.metrics_address:
            self.engine = EngineSampler(client, address, clock=self.clock)
            await self.engine.sample()
            samplers.append(asyncio.create_task(self.engine.run(self.spec.sample_every_s)))
        if self.spec.gpu == "auto":
            await self.gpu.start(self.spec.sample_every_s)
            samplers.append(asyncio.create_task(self.gpu.run()))
        self._prepare_first_wave(prompts.MEASURED, min(self.workload.concurrency, self.workload.requests))
        gc.collect()
        gc.freeze()  # what lives by now is not looked at again while latencies are measured
        try:
            with self.lag:
                workers = self._workers(client, prompts.MEASURED, self.workload.requests, self.measured)
                await self._unless_stopped(workers)
        finally:
            await _cancel(*samplers)
        if self.engine:
            await self.engine.sample()

    async def _workers(self, client: HttpClient, role: str, requests: int, into: list[RequestRecord]) -> None:
        """`concurrency` workers share one supply of indices."""
        supply = iter(range(requests))
        count = min(self.workload.concurrency, requests)
        workers = [asyncio.create_task(self._worker(client, role, supply, into)) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            await _cancel(*workers)

    async def _worker(self, client: HttpClient, role: str, supply: Iterator[int], into: list[RequestRecord]) -> None:
        for index in supply:
            await self._one(client, role, index, words=self.words, into=into)

    async def _one(
        self,
        client: HttpClient,
        role: str,
        index: int,
        *,
        words: int | None,
        max_tokens: int | None = None,
        into: list[RequestRecord] | None = None,
    ) -> RequestRecord:
        body = self._first_wave.pop((role, index), None) or self._body(role, index, words=words, max_tokens=max_tokens)
        record = RequestRecord(index=index, sent_s=self.clock())
        if into is not None:
            into.append(record)
        self.running[id(record)] = record
        self._last_movement_s = self.clock()
        try:
            await exchange(
                client, self.spec.request_url, body, record,
                clock=self.clock, timeout_s=self.spec.request_timeout_s,
            )  # fmt: skip
        finally:
            del self.running[id(record)]
            self._last_movement_s = self.clock()
        return record

    def _body(self, role: str, index: int, *, words: int | None, max_tokens: int | None = None) -> bytes:
        if role == prompts.WARMUP:
            max_tokens = self.workload.warmup_tokens
        extra = dict(self.spec.extra_body)
        return prompts.request_body(
            self.workload, model=self.spec.model, seed=self.spec.seed, role=role, index=index,
            words=words, max_tokens=max_tokens, extra=extra,
        )  # fmt: skip

    def _prepare_first_wave(self, role: str, count: int) -> None:
        """Bodies that all leave at the same moment are made before it; the later ones leave one by one.

        Making them takes the loop's time, so it is done before the client's own lateness is measured.
        """
        self._first_wave = {(role, index): self._body(role, index, words=self.words) for index in range(count)}

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work, or cancel it as soon as someone calls `stop`. Its own failure is raised."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await _cancel(stopping)
        if self._stop.is_set():
            await _cancel(task)
        else:
            await task

    async def _watch(self) -> None:
        """The watchdog. A token is movement too: one long answer is no hang, and each request has its own timeout."""
        limit_s = self.spec.watchdog_s
        while True:
            streamed = (record.stamps[-1] for record in self.running.values() if record.stamps)
            idle_s = self.clock() - max(self._last_movement_s, *streamed, 0.0)
            if idle_s >= limit_s:
                self.stop(outcome.WATCHDOG)
                return
            await asyncio.sleep(limit_s - idle_s)

    async def _report_progress(self) -> None:
        while True:
            # In a thread: replacing a file can wait for the disk's journal, and the loop that stamps tokens must not.
            # A write under way is waited for, so that none comes after the last one.
            writing = asyncio.ensure_future(asyncio.to_thread(self.output.write_progress, self.progress()))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await writing
                raise
            await asyncio.sleep(PROGRESS_PERIOD_S)

    def progress(self) -> dict[str, Any]:
        """What progress.json says. `output_tokens` counts chunks of answers still streaming, usage of finished ones."""
        ended = [record for record in self.measured if id(record) not in self.running]
        open_now = [record for record in self.measured if id(record) in self.running]
        by_status = records.count_by_status(ended, planned=self.workload.requests)
        cancelled = by_status["cancelled"] if self.phase == "done" else 0
        tokens = sum(record.output_tokens or 0 for record in ended if record.status == records.OK)
        return {
            "run_id": self.spec.run_id,
            "phase": self.phase,
            "state": self.state if self.phase == "done" else "running",
            **by_status,
            "cancelled": cancelled,
            "running": len(self.running),
            "output_tokens": tokens + sum(len(record.stamps) for record in open_now),
            "elapsed_s": round(self.clock(), 3),
            "updated_at": time.time(),
        }


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
