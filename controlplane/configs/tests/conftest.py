"""Configs of the service, page and API tests."""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps

from controlplane.configs import services
from controlplane.configs.models import ConfigVersion
from controlplane.configs.tests.samples import OPERATOR_FILE
from controlplane.inventory.models import Engine, Host

KEY = "sk-example-not-a-real-key"
"""The plain key of the operator's file."""


@pytest.fixture
def imported(db: None) -> ConfigVersion:
    """The operator's file, imported."""
    return services.import_config(raw=OPERATOR_FILE.read_bytes(), note="as we have it", actor="ada")[0]


@pytest.fixture
def engine(db: None) -> Engine:
    """vLLM 0.18.1 on a host; its own options were not read."""
    host = Host.objects.create(name="gpu-1", transport="local", state="reachable")
    return Engine.objects.create(host=host, executable="/opt/vllm/bin/vllm", version="0.18.1")


@pytest.fixture
def make_instance(engine: Engine) -> Callable[..., Any]:
    """`make_instance(version, "chat-0", state="ready")`: something that runs (or ran) a version."""

    def make(version: ConfigVersion, name: str, **fields: Any) -> Any:
        return apps.get_model("fleet", "Instance").objects.create(
            **{"name": name, "config_version": version, "host": engine.host, "engine": engine, "port": 8000,
               "sealed_key": b"", "state": "ready", "created_by": "x", **fields}
        )  # fmt: skip

    return make


@pytest.fixture
def deploy(engine: Engine) -> Callable[..., Any]:
    """`deploy(version, "production")`: an environment runs a version."""

    def make(version: ConfigVersion, name: str) -> Any:
        environment, _made = apps.get_model("fleet", "Environment").objects.get_or_create(name=name)
        return apps.get_model("fleet", "Deployment").objects.create(
            environment=environment, name=version.config.name, config_version=version, host=engine.host, engine=engine
        )

    return make
