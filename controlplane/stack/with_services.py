"""Run a command with a Postgres and a Valkey of its own, which are gone afterwards: for test runs."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from controlplane.stack.datastores import start_datastores
from controlplane.stack.paths import StatePaths
from controlplane.stack.postgres import NO_DURABILITY
from controlplane.stack.process import die_with_parent
from controlplane.stack.supervisor import Supervisor

COMMAND_STOPS_WITHIN_S = 60.0


def run_with_services(command: Sequence[str], *, say: Callable[[str], None]) -> int:
    """The command's exit status (1 when a signal ended it). It sees `DATABASE_URL` and `BROKER_URL`."""
    folder = Path(tempfile.mkdtemp(prefix="vcp-"))
    paths = StatePaths(folder)
    try:
        paths.make()
        with Supervisor(say) as supervisor:
            datastores = start_datastores(supervisor, paths, postgres_settings=NO_DURABILITY)
            return _run(supervisor, command, {**os.environ, **datastores.environment})
    finally:
        shutil.rmtree(folder)


def _run(supervisor: Supervisor, command: Sequence[str], environment: dict[str, str]) -> int:
    parent = os.getpid()
    process = subprocess.Popen(
        command,
        env=environment,
        preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),  # noqa: PLW1509  # this process has one thread
    )
    supervisor.run(until=lambda: process.poll() is not None)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(COMMAND_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.returncode < 0:
        sys.stderr.write(f"{command[0]} was ended by signal {-process.returncode}\n")
        return 1
    return process.returncode
