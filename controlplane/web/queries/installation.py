"""What the “About” page says: versions, where things lie, which vLLM releases the flag catalogue knows."""

import importlib.metadata
import platform
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import django
from django.conf import settings
from django.db import connection

from controlplane.configs.domain.catalogue import catalogue
from controlplane.core import env


@dataclass(frozen=True, slots=True)
class Installation:
    version: str
    python: str
    django: str
    postgres: str
    packages: Sequence[tuple[str, str]]
    state_dir: str
    key_file: str
    has_key_file: bool
    keys: int
    releases: Sequence[str]


def installation() -> Installation:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        postgres = cursor.fetchone()[0]
    return Installation(
        version=product_version(),
        python=platform.python_version(),
        django=django.get_version(),
        postgres=str(postgres).split()[0],
        packages=[(name, _installed(name)) for name in ("django-ninja", "celery", "asyncssh", "uvicorn")],
        state_dir=str(settings.STATE_DIR),
        key_file=str(env.key_file()),
        has_key_file=env.key_file().is_file(),
        keys=len(settings.MASTER_KEYS),
        releases=catalogue().releases,
    )


@cache
def product_version() -> str:
    """The version in pyproject.toml: the product is run from its tree, not installed as a package."""
    with (settings.BASE_DIR / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
