"""Asking whether a launch would work, before launching."""

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from controlplane.configs.models import ConfigVersion
from controlplane.core import dispatch
from controlplane.fleet.models import Preflight
from controlplane.fleet.services import placement
from controlplane.inventory.models import Engine

KEPT_FOR = timedelta(days=1)


def request_preflight(
    *,
    config_version: ConfigVersion,
    engine: Engine,
    gpu_uuids: Sequence[str] | None = None,
    port: int | None = None,
    actor: str,
) -> Preflight:
    """Have the worker ask the host and fill in the checks, for the place a launch would get. It changes nothing, so it
    is no event. Raises what `request_launch` would refuse at once, save for a taken port: that is one of the checks."""
    placement.refuse_unusable(engine.host, engine)
    with transaction.atomic():
        Preflight.objects.filter(created_at__lt=timezone.now() - KEPT_FOR).delete()
        preflight = Preflight.objects.create(
            config_version=config_version,
            engine=engine,
            gpu_uuids=placement.gpus_for(config_version, engine, gpu_uuids),
            port=port or placement.port_for(config_version, engine.host, None),
            created_by=actor,
        )
        dispatch.after_commit("fleet.preflight", preflight_id=preflight.pk)
    return preflight
