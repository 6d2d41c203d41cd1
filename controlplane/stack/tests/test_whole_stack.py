"""`up` as a person runs it: a program of its own, with all its servers, in an empty state directory."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from controlplane.stack.paths import StatePaths
from controlplane.stack.programs import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

PATIENCE_S = 60.0
CALLERS = 48
MOST_CONNECTIONS = 10  # of one process: "max_size" in controlplane.settings
PROGRAMS = {"postgres", "valkey-server", "web", "worker", "beat"}


class Up:
    """A running `up` and what it has said so far."""

    def __init__(self, paths: StatePaths, *arguments: str) -> None:
        self.paths = paths
        self._output = paths.root / f"said-{time.monotonic_ns()}"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*command(paths), "--port", "0", *arguments],
                cwd=REPOSITORY,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def wait_until_running(self) -> str:
        """The address."""
        assert eventually(lambda: "Running at" in self.said or self.process.poll() is not None), self.said
        found = re.search(r"Running at (\S+)", self.said)
        assert found is not None, self.said
        return found[1]

    def programs(self) -> dict[str, int]:
        """Process ids of the direct children by name."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {name_of(int(pid)): int(pid) for pid in children}


def command(paths: StatePaths) -> list[str]:
    return [sys.executable, "-m", "controlplane.stack", "up", "--state-dir", str(paths.root)]


def environment() -> dict[str, str]:
    """Ours, without the servers and settings of this very test run."""
    ours = {"DATABASE_URL", "BROKER_URL", "CONTROLPLANE_STATE_DIR", "DJANGO_SETTINGS_MODULE"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def name_of(pid: int) -> str:
    """As `up` named it; Valkey writes its title over its environment, so it goes by its own name."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        own_name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"
    mark = b"CONTROLPLANE_PROCESS="
    return next((v.removeprefix(mark).decode() for v in variables if v.startswith(mark)), own_name)


def leftovers(paths: StatePaths) -> list[str]:
    """Command lines of living processes that know this state directory, by argument or by environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            line, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(paths.root) in line + variables:
            found.append(line.replace(b"\0", b" ").decode())
    return found


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def status_of(url: str) -> int:
    """HTTP status; 0 when nobody answers. The cookie of a session that there is not makes it ask the database."""
    try:
        request = urllib.request.Request(url, headers={"Cookie": f"sessionid={'x' * 32}"})
        return int(urllib.request.urlopen(request, timeout=PATIENCE_S).status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def hang_up(url: str) -> None:
    """Ask for a page and leave without its answer."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port)) as caller:
        cookie = f"sessionid={'x' * 32}"
        caller.sendall(f"GET /hosts/ HTTP/1.1\r\nHost: {place.netloc}\r\nCookie: {cookie}\r\n\r\n".encode())


@pytest.fixture
def start(paths: StatePaths) -> Iterator[Callable[[], Up]]:
    """Starts an `up`; afterwards all of them are stopped and nothing is left."""
    started: list[Up] = []

    def start_one() -> Up:
        started.append(Up(paths))
        return started[-1]

    yield start_one
    for running in started:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(PATIENCE_S)
    assert eventually(lambda: not leftovers(paths)), leftovers(paths)


@pytest.fixture
def up(start: Callable[[], Up]) -> Up:
    return start()


def test_first_start_second_start_and_every_end(start: Callable[[], Up], up: Up, paths: StatePaths) -> None:
    address = up.wait_until_running()
    assert re.search(r"First administrator: admin  Password \(shown this once\): \S{12,}", up.said)
    assert set(up.programs()) == PROGRAMS
    assert 0 < status_of(address) < 500

    refused = subprocess.run(
        command(paths), cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert f"Already running at {address} (process {up.process.pid}" in refused.stderr

    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(PATIENCE_S) == 0
    assert not leftovers(paths)

    prepared = (paths.logs / "prepare.log").read_bytes()
    again = start()
    again.wait_until_running()
    assert "Password" not in again.said
    assert (paths.logs / "prepare.log").read_bytes() == prepared  # the slow part of a first start is not done again

    again.process.send_signal(signal.SIGKILL)
    again.process.wait()
    assert eventually(lambda: not leftovers(paths)), leftovers(paths)
    third = start()
    third.wait_until_running()
    third.process.send_signal(signal.SIGHUP)
    assert third.process.wait(PATIENCE_S) == 0
    assert not leftovers(paths)


def test_any_killed_program_comes_back(up: Up) -> None:
    address = up.wait_until_running()
    for name in sorted(PROGRAMS):
        killed = up.programs()[name]
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda name=name, killed=killed: up.programs().get(name, killed) != killed), up.said  # type: ignore[misc]
    assert eventually(lambda: 0 < status_of(address) < 500), up.said
    assert eventually(lambda: set(up.programs()) == PROGRAMS), up.said


def test_many_callers_at_once_are_all_answered(up: Up, paths: StatePaths) -> None:
    """Also after others have hung up; and all share a few database connections (docs/decisions/0009)."""
    address = up.wait_until_running()
    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(lambda _: hang_up(address), range(2 * CALLERS)))
        answers = Counter(callers.map(lambda _: status_of(address + "hosts/"), range(10 * CALLERS)))
    assert answers == {200: 10 * CALLERS}  # each was led to the login
    password = (paths.postgres / "password").read_text().strip()
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'web'"
    with psycopg.connect(host=str(paths.run), user="controlplane", dbname="controlplane", password=password) as asking:
        counted = asking.execute(query).fetchone()
    assert counted is not None
    assert 1 <= counted[0] <= MOST_CONNECTIONS


def test_secrets_are_in_no_log_and_no_command_line(up: Up, paths: StatePaths) -> None:
    up.wait_until_running()
    password = (paths.postgres / "password").read_text().strip()
    admin = re.search(r"once\): (\S+)", up.said)
    assert admin is not None
    written = "".join(path.read_text(errors="replace") for path in paths.logs.iterdir())
    lines = "".join(leftover for leftover in leftovers(paths))
    for secret in (password, admin[1], paths.secret_key.read_text().strip()):
        assert secret not in written
        assert secret not in lines
    assert paths.secret_key.stat().st_mode & 0o077 == 0
    assert (paths.postgres / "password").stat().st_mode & 0o077 == 0


def test_a_port_in_use_starts_nothing(paths: StatePaths, up: Up) -> None:
    port = up.wait_until_running().rstrip("/").rpartition(":")[2]
    other = StatePaths(paths.root / "other")
    refused = subprocess.run(
        [*command(other), "--port", port],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr == f"Port {port} on 127.0.0.1 is in use by another program. Choose another one with --port.\n"
    assert not (other.root / "postgres").exists()


def test_a_command_gets_servers_of_its_own_which_go_with_it() -> None:
    script = "import json, os; print(json.dumps([os.environ['DATABASE_URL'], os.environ['BROKER_URL']]))"
    script += "; raise SystemExit(7)"
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.stack", "with_services", "--", sys.executable, "-c", script],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    database, broker = json.loads(done.stdout)
    folder = Path(broker.removeprefix("redis+socket://")).parents[1]
    assert str(folder).replace("/", "%2F") in database
    assert not folder.exists()
