from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint
from controlplane.drivers.tests.sshd import Sshd, running_sshd
from controlplane.drivers.tests.world import World, fake_host

SSH = pytest.param("ssh", marks=[pytest.mark.e2e, pytest.mark.ssh])


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def real_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests, so that they share one link a host: opening one costs a second over SSH."""
    return tmp_path_factory.mktemp("real")


@pytest.fixture(params=["fake", "local", SSH])
def world(request: pytest.FixtureRequest, real_root: Path) -> Iterator[World]:
    """Every kind of host: what a test finds here, all of them promise."""
    yield from _world(request, real_root)


@pytest.fixture(params=["local", SSH])
def real_world(request: pytest.FixtureRequest, real_root: Path) -> Iterator[World]:
    """Hosts where processes really run."""
    yield from _world(request, real_root)


def _world(request: pytest.FixtureRequest, real_root: Path) -> Iterator[World]:
    if request.param == "fake":
        made = World(Endpoint(address=f"fake-{uuid.uuid4()}"), fake_host())
        assert made.fake
        links.adopt(made.endpoint, made.fake.link())
    elif request.param == "ssh":
        made = World(request.getfixturevalue("sshd").endpoint(root=str(real_root / "ssh")))
    else:
        made = World(Endpoint(root=str(real_root / "local")))
    yield made
    made.clean()
