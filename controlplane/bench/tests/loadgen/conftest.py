"""A calibration server in a process of its own, and runs against it: in this process, or as the real zipapp."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from controlplane.bench.domain.bundle import PACKAGE_ROOT, build_loadgen
from controlplane.bench.domain.spec import KEY_VARIABLE, RunSpec
from controlplane.bench.domain.workloads import DISTINCT, Workload
from controlplane.bench.loadgen import calibration
from controlplane.bench.loadgen.behaviour import Behaviour
from controlplane.bench.loadgen.output import PROGRESS, REQUESTS, RESULT, OutputFolder
from controlplane.bench.loadgen.run import LoadRun

API_KEY = "key-that-must-not-leak"


@dataclass
class Finished:
    """A run that has ended: its exit code and files."""

    code: int
    folder: Path

    @property
    def result(self) -> dict[str, Any]:
        return self._read(RESULT)

    @property
    def model(self) -> str:
        return str(self.result["spec"]["model"])

    @property
    def progress(self) -> dict[str, Any]:
        return self._read(PROGRESS)

    @property
    def columns(self) -> dict[str, list[Any]]:
        return json.loads(gzip.decompress((self.folder / REQUESTS).read_bytes()))  # type: ignore[no-any-return]

    @property
    def reason_codes(self) -> set[str]:
        return {reason["code"] for reason in self.result["reasons"]}

    def _read(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))  # type: ignore[no-any-return]


class World:
    """One server, many runs. Each run has a folder and a model name of its own, so ledgers never mix."""

    def __init__(self, port: int, folder: Path) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.folder = folder
        self._runs = 0
        self._keys_told: dict[str, list[bool]] = {}

    def spec(self, behaviour: Behaviour, workload: Workload | None = None, **changes: Any) -> RunSpec:
        self._runs += 1
        values: dict[str, Any] = {
            "base_url": self.base_url,
            "model": replace(behaviour, label=self._runs).to_model(),
            "workload": workload or small_workload(),
            "seed": self._runs,
            "output_dir": str(self.folder / f"run-{self._runs}"),
            "gpu": "off",
        }
        return RunSpec(**{**values, **changes})

    def run(
        self, behaviour: Behaviour, workload: Workload | None = None, *, key: str | None = None, **changes: Any
    ) -> Finished:
        """A run inside this process."""
        spec = self.spec(behaviour, workload, **changes)

        async def execute() -> int:
            return await LoadRun(spec, api_key=key, output=OutputFolder(spec.output_dir)).execute()

        return Finished(code=asyncio.run(execute()), folder=Path(spec.output_dir))

    def start_process(
        self, spec: RunSpec, *, key: str | None = None, start_new_session: bool = False
    ) -> subprocess.Popen[str]:
        """The zipapp as the host program starts it."""
        zipapp, spec_file = self.folder / "loadgen.pyz", Path(f"{spec.output_dir}.json")
        if not zipapp.exists():
            zipapp.write_bytes(build_loadgen())
        spec_file.write_text(json.dumps(spec.to_json()), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name not in {KEY_VARIABLE, "PYTHONPATH"}}
        return subprocess.Popen(
            [sys.executable, str(zipapp), str(spec_file)],
            cwd=self.folder,
            env={**environment, **({KEY_VARIABLE: key} if key else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=start_new_session,
        )

    def keys_sent(self) -> dict[str, list[bool]]:
        """By path: was a key sent, for each call since this was last asked."""
        seen: dict[str, list[bool]] = self.truth("")["keys_seen"]
        new = {path: calls[len(self._keys_told.get(path, [])) :] for path, calls in seen.items()}
        self._keys_told = seen
        return {path: calls for path, calls in new.items() if calls}

    def truth(self, model: str) -> dict[str, Any]:
        """What the server itself saw."""
        url = self.base_url.removesuffix("/v1") + f"/truth?model={quote(model, safe='')}"
        with urllib.request.urlopen(url, timeout=5) as response:
            return json.load(response)  # type: ignore[no-any-return]


def small_workload(**changes: Any) -> Workload:
    values: dict[str, Any] = {
        "name": "small",
        "kind": DISTINCT,
        "concurrency": 4,
        "requests": 8,
        "max_tokens": 8,
        "prompt_words": 12,
        "warmup_requests": 0,
    }
    return Workload(**{**values, **changes})


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from _serve(tmp_path_factory.mktemp("loadgen"), key=None)


@pytest.fixture(scope="session")
def guarded_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that wants API_KEY."""
    yield from _serve(tmp_path_factory.mktemp("loadgen-guarded"), key=API_KEY)


def _serve(folder: Path, *, key: str | None) -> Iterator[World]:
    environment = {**os.environ, **({calibration.KEY_VARIABLE: key} if key else {})}
    command = [sys.executable, "-m", calibration.__name__]
    process = subprocess.Popen(command, cwd=PACKAGE_ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield World(int(process.stdout.readline()), folder)
    finally:
        process.terminate()
        process.wait(timeout=10)
