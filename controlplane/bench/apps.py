from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate


class BenchConfig(AppConfig):
    name = "controlplane.bench"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(_bring_workloads_up_to_date, sender=self)


def _bring_workloads_up_to_date(using: str, **_: Any) -> None:
    """After every migration, because what is built in changes with the code and not with the schema."""
    if "bench_workload" not in connections[using].introspection.table_names():
        return  # migrated back to nothing
    from controlplane.bench.services import ensure_built_in_workloads  # noqa: PLC0415 - models load after apps

    ensure_built_in_workloads()
