"""Whether the database must be prepared again, and doing it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

from controlplane.stack import logs
from controlplane.stack.paths import StatePaths
from controlplane.stack.process import die_with_parent
from controlplane.stack.programs import REPOSITORY
from controlplane.stack.supervisor import StartFailed


@dataclass(frozen=True, slots=True)
class Prepared:
    admin_password: str | None


def prepare_database(paths: StatePaths, environment: Mapping[str, str], *, is_embedded: bool) -> Prepared:
    """Migrate and make the first administrator, unless this very code has done so in this very cluster.

    The stamp lies beside the cluster and goes with it. A server that somebody else runs is always asked.
    Raises `StartFailed` with the end of the log.
    """
    stamp = paths.postgres / "prepared"
    wanted = code_digest(REPOSITORY)
    if is_embedded and stamp.exists() and stamp.read_text() == wanted:
        return Prepared(admin_password=None)
    answer = _run(paths.logs / "prepare.log", environment)
    if is_embedded:
        stamp.write_text(wanted)
    return Prepared(admin_password=answer["admin_password"])


def code_digest(repository: Path) -> str:
    """A digest of all that decides what preparing does: migrations, locked packages, the steps themselves."""
    digest = hashlib.sha256()
    files = [repository / "requirements.txt", Path(__file__).with_name("prepare.py")]
    files += sorted(repository.glob("controlplane/*/migrations/*.py"))
    files += sorted(repository.glob("controlplane/*/management/commands/ensure_*.py"))
    for path in files:
        digest.update(f"{path.relative_to(repository)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _run(log: Path, environment: Mapping[str, str]) -> dict[str, str | None]:
    parent = os.getpid()
    with log.open("ab") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.stack.prepare"],
            env={**os.environ, **environment, "CONTROLPLANE_PROCESS": "prepare"},
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent, SIGTERM),  # safe: this process has one thread
            check=False,
        )
    if done.returncode != 0:
        raise StartFailed(f"The database could not be prepared. The end of {log}:", remedy=logs.tail(log))
    answer: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return answer
