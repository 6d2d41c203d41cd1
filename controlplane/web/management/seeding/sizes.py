"""How much to invent, and how rows get into the database many at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from django.db.models import Model

M = TypeVar("M", bound=Model)

ACTOR = "seed_large"
"""Who made these rows; `existing` and `remove` tell them from real ones by it."""
HOST_PREFIX = "seed-large-"
GIB = 1024**3
GPUS_PER_HOST = 8
MODELS = ("qwen2.5-32b-instruct", "llama-3.1-8b", "mistral-small", "deepseek-coder-33b", "gemma-2-27b")
ENGINE_VERSIONS = ("0.8.5", "0.17.1", "0.18.1", "0.33.0")
BATCH = 2000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many of each; configs, models, deployments and events follow from these."""

    hosts: int = 200
    instances: int = 2_000
    runs: int = 20_000
    measured_runs: int = 200
    """Only the newest so many runs have metrics and series: they are what pages of one run and comparisons read."""

    @property
    def configs(self) -> int:
        return max(1, self.hosts // 2)

    @property
    def models(self) -> int:
        return max(1, self.hosts // 5)

    @property
    def deployments(self) -> int:
        return max(1, self.hosts // 5)


def inserted(model: type[M], rows: Iterator[M]) -> list[M]:
    """Insert in batches, so that 20,000 rows are never one statement."""
    made: list[M] = []
    while batch := list(islice(rows, BATCH)):
        made += model._default_manager.bulk_create(batch)
    return made
