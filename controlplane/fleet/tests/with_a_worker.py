"""Run a management command beside a real worker and a real clock, in a database of its own.

manage.py with_services -- python -m controlplane.fleet.tests.with_a_worker ROOT VLLM COMMAND ARGUMENT…

ROOT is where this machine's host program keeps its files, VLLM the executable that the worker finds.
"""

import subprocess
import sys
from pathlib import Path

from controlplane.stack.paths import StatePaths
from controlplane.stack.programs import REPOSITORY, beat, worker
from controlplane.stack.supervisor import Supervisor

MANAGE = [sys.executable, str(REPOSITORY / "manage.py")]


def main(root: str, vllm: str, *command: str) -> int:
    paths = StatePaths(Path(root))
    paths.make()
    subprocess.run([*MANAGE, "migrate", "-v", "0"], check=True)
    with Supervisor(_say) as supervisor:
        supervisor.start(worker(paths, {}), beat(paths, {}))
        subprocess.run([*MANAGE, "ensure_localhost", "--root", f"{root}/host", "--engine-path", vllm], check=True)
        process = subprocess.Popen([*MANAGE, *command])
        supervisor.run(until=lambda: process.poll() is not None)
    return process.wait(10)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
