"""The real thing end to end: services, broker, worker, clock, host program, vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.stack.engine import Engine
from controlplane.stack.programs import REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.vllm]

OURS = ("DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE")


def test_a_worker_launches_to_ready_and_stops_with_proof(vllm: Engine, tiny_model: Path, tmp_path: Path) -> None:
    """`launch_overhead` fails when a launch does not get ready or a stop leaves something."""
    measured = [sys.executable, "-m", "controlplane.fleet.tests.with_a_worker", str(tmp_path), str(vllm.vllm)]
    measured += ["launch_overhead", "--model", str(tiny_model), "--rounds", "1", "--json"]
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    done = subprocess.run(
        [sys.executable, "manage.py", "with_services", "--", *measured],
        env={**environment, "CONTROLPLANE_STATE_DIR": str(tmp_path)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr, _logs(tmp_path))
    figures = json.loads(done.stdout.splitlines()[-1])
    # How much slower than a shell it is, is measured by the command and not judged here.
    assert [len(figures["rounds"]), figures["rounds"][0]["product_s"] > 0] == [1, True]


def _logs(root: Path) -> str:
    return "\n".join(log.read_text()[-3000:] for log in (root / "log").glob("*.log"))
