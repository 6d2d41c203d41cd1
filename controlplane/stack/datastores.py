"""The two servers behind the product: embedded ones, or those that `DATABASE_URL` and `BROKER_URL` name."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controlplane.stack.account import server_account
from controlplane.stack.paths import StatePaths
from controlplane.stack.postgres import EmbeddedPostgres
from controlplane.stack.supervisor import Supervisor
from controlplane.stack.valkey import EmbeddedValkey

STAGE = 0


@dataclass(frozen=True, slots=True)
class Datastores:
    """`environment` names both servers for programs that use them. `has_worker` tells whether a worker takes messages;
    of a broker that somebody else runs it says yes without asking."""

    environment: Mapping[str, str]
    is_postgres_embedded: bool
    has_worker: Callable[[], bool]


def start_datastores(
    supervisor: Supervisor,
    paths: StatePaths,
    *,
    inherited_files: tuple[int, ...] = (),
    postgres_settings: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Datastores:
    """Start what the environment does not name, and wait until it answers."""
    database_url = os.environ.get("DATABASE_URL")
    broker_url = os.environ.get("BROKER_URL")
    account = server_account(paths.postgres / "data")
    is_embedded = not database_url
    has_worker: Callable[[], bool] = _assume_worker
    if not database_url:
        postgres = EmbeddedPostgres(paths, account, postgres_settings or {})
        if postgres.prepare():
            say("Made a new Postgres cluster")
        supervisor.start(postgres.program(stage=STAGE, inherited_files=inherited_files))
        postgres.ensure_database()
        database_url = postgres.url()
    if not broker_url:
        valkey = EmbeddedValkey(paths, account)
        valkey.prepare()
        supervisor.start(valkey.program(stage=STAGE, inherited_files=inherited_files))
        broker_url = valkey.url()
        has_worker = valkey.has_worker
    return Datastores(
        environment={"DATABASE_URL": database_url, "BROKER_URL": broker_url},
        is_postgres_embedded=is_embedded,
        has_worker=has_worker,
    )


def _assume_worker() -> bool:
    return True
