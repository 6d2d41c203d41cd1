"""The worlds of the fleet's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from controlplane.drivers import links
from controlplane.drivers.endpoint import Endpoint
from controlplane.fleet.tests.fake_world import FakeWorld, fake_world
from controlplane.fleet.tests.vllm_world import VllmWorld, register
from controlplane.inventory.models import Host
from controlplane.stack.engine import Engine, ensure_engine, ensure_model


@pytest.fixture
def world(db: None) -> Iterator[FakeWorld]:
    yield fake_world()
    links.close()


@pytest.fixture
def make_silent(db: None) -> Callable[[int], None]:
    """`make_silent(4)`: so many SSH hosts that fell silent just now."""

    def make(count: int) -> None:
        for number in range(count):
            Host.objects.create(
                name=f"silent-{number}", transport="ssh", failures_in_a_row=1, last_seen_at=timezone.now()
            )

    return make


@pytest.fixture(scope="session")
def vllm() -> Engine:
    """The CPU build of vLLM (or the machine's own), installed when it is not there."""
    return ensure_engine()


@pytest.fixture(scope="session")
def tiny_model(vllm: Engine) -> Path:
    return ensure_model(vllm, "tiny")


@pytest.fixture(scope="session")
def vllm_options(vllm: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the build says of its own options; asking takes about ten seconds."""
    endpoint = Endpoint(root=str(tmp_path_factory.mktemp("root")))
    options: dict[str, Any] = links.call(endpoint, "engine_options", {"executable": str(vllm.vllm)}, timeout_s=200)
    links.close()
    return options


@pytest.fixture
def vllm_world(
    db: None, tmp_path: Path, vllm: Engine, tiny_model: Path, vllm_options: dict[str, Any]
) -> Iterator[VllmWorld]:
    host, engine = register(tmp_path / "root", vllm.vllm, vllm_options)
    world = VllmWorld(host, engine, tiny_model)
    yield world
    world.stop_everything()
    links.close()
