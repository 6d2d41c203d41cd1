"""Hosts of the inventory's tests: rows, and pretended machines behind them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.apps import apps

from controlplane.drivers import links
from controlplane.drivers.fake import FakeHost
from controlplane.inventory.models import Engine, Host
from controlplane.inventory.services import endpoint_of

numbers = itertools.count(1)


@pytest.fixture
def private_key() -> str:
    """An OpenSSH private key made for this test."""
    made = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return made.decode()


@pytest.fixture
def public_key() -> str:
    """A host's public key, as it is pinned: type and base64."""
    return Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@pytest.fixture
def make_host(db: None, tmp_path: Path) -> Callable[..., Host]:
    """`make_host("gpu-1", state="reachable")`: a local host unless told otherwise, with a folder of its own."""

    def make(name: str = "gpu-1", **fields: Any) -> Host:
        root = str(tmp_path / f"root-{next(numbers)}")
        return Host.objects.create(**{"name": name, "transport": "local", "root": root, **fields})

    return make


@pytest.fixture
def make_ssh_host(make_host: Callable[..., Host]) -> Callable[..., Host]:
    """A host over SSH to which nobody ever connects."""

    def make(name: str = "gpu-1", **fields: Any) -> Host:
        way = {"transport": "ssh", "address": "192.0.2.1", "port": 22, "username": "vllm"}
        return make_host(name, **{**way, **fields})

    return make


@pytest.fixture
def machine_of() -> Iterator[Callable[[Host], FakeHost]]:
    """`machine_of(host)`: put a pretended machine behind a host; calls to the host reach it."""

    def machine(host: Host) -> FakeHost:
        fake = FakeHost(hostname=host.name)
        links.adopt(endpoint_of(host), fake.link())
        return fake

    yield machine
    links.close()


@pytest.fixture
def make_instance(db: None) -> Callable[..., Any]:
    """`make_instance(host, "chat-0", state="ready")`: something that runs (or ran) on a host."""

    def make(host: Host, name: str, **fields: Any) -> Any:
        found = host.engines.first() or Engine.objects.create(host=host, executable="/opt/vllm/bin/vllm")
        config = apps.get_model("configs", "Config").objects.create(name=name, created_by="x")
        version = apps.get_model("configs", "ConfigVersion").objects.create(
            config=config, number=1, toml=b"", content={}, digest=name, file_digest=name, author="x"
        )
        return apps.get_model("fleet", "Instance").objects.create(
            **{"name": name, "config_version": version, "host": host, "engine": found, "port": 8000, "sealed_key": b"",
               "state": "ready", "created_by": "x", **fields}
        )  # fmt: skip

    return make
