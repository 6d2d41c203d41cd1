"""The whole product for tests across apps: a real stack, and a real browser in front of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from controlplane.stack.engine import ensure_engine, ensure_model
from controlplane.stack.programs import REPOSITORY
from controlplane.tests.browsing import launch_chromium
from controlplane.tests.stack_keeper import GONE_WITHIN_S, STOPS_WITHIN_S, Kept, leftovers

ENDS_WITHIN_S = 2 * STOPS_WITHIN_S + GONE_WITHIN_S


@pytest.fixture(scope="session")
def vllm() -> Path:
    """The executable that bin/test made; else the CPU build, installed when it is not there."""
    named = os.environ.get("CONTROLPLANE_E2E_VLLM")
    return Path(named) if named else ensure_engine().vllm


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    named = os.environ.get("CONTROLPLANE_E2E_TINY_MODEL")
    return Path(named) if named else ensure_model(ensure_engine(), "tiny")


@pytest.fixture(scope="session")
def running_stack(vllm: Path) -> Iterator[Kept]:
    """`up` with every server, this machine as host `localhost`, and proof at the end that nothing of it is left.

    The keeper lives in a session of its own: it tidies up even after a killed test run.
    """
    keeper = subprocess.Popen(
        [sys.executable, "-m", "controlplane.tests.stack_keeper", str(vllm)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        kept = _first_line(keeper)
        yield kept
    finally:
        told, _ = keeper.communicate(timeout=ENDS_WITHIN_S)  # closes its input, which asks it to stop
    assert json.loads(told.splitlines()[-1]) == {"left": []}
    assert leftovers(Path(kept.state_dir)) == []
    assert not Path(kept.state_dir).exists()


def _first_line(keeper: "subprocess.Popen[str]") -> Kept:
    assert keeper.stdout is not None
    line: dict[str, Any] = json.loads(keeper.stdout.readline())
    assert "error" not in line, line["error"]
    return Kept(**line)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One a module: two of Playwright's synchronous drivers cannot live at the same time in one thread."""
    with sync_playwright() as playwright:
        chromium = launch_chromium(playwright)
        yield chromium
        chromium.close()
