"""The zipapp as the host program runs it: files, signals, exit codes, and where the key goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.bench.domain.bundle import build_loadgen
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.loadgen.__main__ import AUTOGROUP, PRIORITY
from controlplane.bench.loadgen.behaviour import Behaviour
from controlplane.bench.loadgen.output import PROGRESS
from controlplane.bench.tests.loadgen.conftest import API_KEY, Finished, World, small_workload


def test_a_run_with_a_key_sends_it_everywhere_and_writes_it_nowhere(guarded_world: World) -> None:
    spec = guarded_world.spec(Behaviour(ttft_ms=5, gap_ms=1), small_workload(warmup_requests=2))
    guarded_world.keys_sent()
    process = guarded_world.start_process(spec, key=f"{API_KEY}\n")
    said, _ = process.communicate(timeout=30)
    finished = Finished(process.returncode, Path(spec.output_dir))
    assert finished.code == ExitCode.VALID, said
    seen = guarded_world.keys_sent()
    assert set(seen) == {"/v1/chat/completions", "/metrics"}
    assert all(all(calls) for calls in seen.values())
    written = [path.read_bytes() for path in finished.folder.iterdir()]
    assert API_KEY not in said
    assert not any(API_KEY.encode() in content for content in written)


def test_a_wrong_key_is_one_request_a_refused_run_and_no_numbers(guarded_world: World) -> None:
    spec = guarded_world.spec(Behaviour(ttft_ms=5, gap_ms=1))
    process = guarded_world.start_process(spec, key="wrong")
    process.communicate(timeout=30)
    finished = Finished(process.returncode, Path(spec.output_dir))
    assert finished.code == ExitCode.PROBE_FAILED
    assert finished.result["probe"]["error_class"] == "http_401"
    assert "Unauthorized" in finished.result["probe"]["error_sample"]
    assert finished.result["metrics"] is None
    assert finished.result["counts"] == {"planned": 8, "ok": 0, "failed": 0, "cancelled": 8}


def test_sigterm_cancels_and_the_counts_stay_honest(world: World) -> None:
    spec = world.spec(Behaviour(ttft_ms=5, gap_ms=1, silent=1, healthy_first=3))
    process = world.start_process(spec)
    finished = Finished(-1, Path(spec.output_dir))
    _wait_until_measuring(finished, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == ExitCode.CANCELLED
    counts = finished.result["counts"]
    assert counts == {"planned": 8, "ok": 2, "failed": 0, "cancelled": 6}
    assert finished.result["state"] == finished.progress["state"] == "cancelled"
    assert finished.result["is_valid"] is False


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not group processes by session")
def test_in_a_session_of_its_own_the_group_goes_first_too_where_it_may(world: World) -> None:
    spec = world.spec(Behaviour(ttft_ms=5, gap_ms=1))
    process = world.start_process(spec, start_new_session=True)
    process.communicate(timeout=30)
    instrument = Finished(process.returncode, Path(spec.output_dir)).result["instrument"]
    expected = PRIORITY if os.geteuid() == 0 else 0
    assert (instrument["nice"], instrument["autogroup"].split()[-1]) == (expected, str(expected))


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not group processes by session")
def test_in_the_session_of_another_the_group_is_left_alone(world: World) -> None:
    spec = world.spec(Behaviour(ttft_ms=5, gap_ms=1))
    # Empty for a session that is older than every group, as where a container's first process has started us.
    before = AUTOGROUP.read_text().strip() or None
    process = world.start_process(spec)
    process.communicate(timeout=30)
    assert Finished(process.returncode, Path(spec.output_dir)).result["instrument"]["autogroup"] == before


def test_a_bad_spec_is_refused_with_the_key_that_is_wrong(tmp_path: Path) -> None:
    zipapp, spec = tmp_path / "loadgen.pyz", tmp_path / "spec.json"
    zipapp.write_bytes(build_loadgen())
    spec.write_text(json.dumps({"base_url": "http://h", "model": "m", "workload": {}, "seed": 1, "output_dir": "o"}))
    ended = subprocess.run([sys.executable, zipapp, spec], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == ExitCode.BAD_SPEC
    assert "workload: missing key concurrency" in ended.stderr


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(world: World) -> None:
    process = world.start_process(world.spec(Behaviour()), key="secret\r\nX-Evil: 1")
    said, _ = process.communicate(timeout=30)
    assert process.returncode == ExitCode.BAD_SPEC
    assert "which no client can send" in said
    assert "secret" not in said


def _wait_until_measuring(finished: Finished, process: subprocess.Popen[str]) -> None:
    """The file appears within a moment; each look is at the real process, so there is a clock here."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        if (finished.folder / PROGRESS).exists() and finished.progress["ok"] == 2:
            return
        time.sleep(0.02)
    raise AssertionError("the run never came to its measured requests")
