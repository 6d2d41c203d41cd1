from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate


class FleetConfig(AppConfig):
    name = "controlplane.fleet"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(_make_environments, sender=self)


def _make_environments(using: str, **_: Any) -> None:
    """Staging and production are there from the start, also after a test has emptied the tables."""
    if "fleet_environment" not in connections[using].introspection.table_names():
        return  # migrated back to nothing
    from controlplane.fleet.services.environments import ensure_environments  # noqa: PLC0415 - models load after apps

    ensure_environments()
