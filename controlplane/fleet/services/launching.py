"""Asking for an engine to be launched."""

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.configs.models import ConfigVersion
from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Deployment, Instance, State
from controlplane.fleet.services import placement
from controlplane.fleet.services.states import move
from controlplane.inventory.models import Engine, Host


def request_launch(
    *,
    config_version: ConfigVersion,
    engine: Engine,
    gpu_uuids: Sequence[str] | None = None,
    port: int | None = None,
    deployment: Deployment | None = None,
    override_reason: str = "",
    actor: str,
) -> Instance:
    """Write down that `config_version` shall run on `engine`, and let the worker do it.

    Without `port` it is the config's own, or the next one that no live instance of the host has; without `gpu_uuids` as
    many free GPUs as the config needs. A failed check refuses the launch, unless `override_reason` says why not. Raises
    Conflict when the host is in maintenance or the wished port is taken, Invalid when a GPU is not the host's.
    """
    with transaction.atomic():
        host = Host.every.select_for_update().get(pk=engine.host_id)
        placement.refuse_unusable(host, engine)
        instance = Instance.objects.create(
            name=_free_name(config_version),
            config_version=config_version,
            host=host,
            engine=engine,
            deployment=deployment,
            gpu_uuids=placement.gpus_for(config_version, engine, gpu_uuids),
            port=placement.port_for(config_version, host, port),
            bind=placement.bind_of(config_version),
            served_model_name=placement.served_model_name(config_version),
            sealed_key=b"",
            reason=_("Waiting for a worker."),
            override_reason=override_reason.strip(),
            created_by=actor,
        )
        events.record(
            "instance.requested",
            actor=actor,
            subject=instance,
            sentence=instance.override_reason,
            version=str(config_version),
            host=host.name,
            is_override=bool(instance.override_reason),
        )
        dispatch.after_commit("fleet.advance", instance_id=instance.pk)
    return instance


def relaunch(instance: Instance, *, override_reason: str = "", actor: str) -> None:
    """Try again with a new attempt, after a failure or a stop, at the same place. Raises Conflict while it lives, when
    its host is in maintenance, or when another instance has taken its port meanwhile."""
    with transaction.atomic():
        host = Host.every.select_for_update().get(pk=instance.host_id)
        placement.refuse_unusable(host, instance.engine)
        if not instance.is_live:
            placement.port_for(instance.config_version, host, instance.port)
        won = not instance.is_live and move(
            instance,
            State.PENDING,
            reason=_("Launch asked for again."),
            actor=actor,
            desired=Instance.Desired.RUNNING,
            step_due_at=None,
            failed_starts=0,
            override_reason=override_reason.strip(),
            smoke={},
        )
        if not won:
            raise Conflict(
                _("%(instance)s is %(state)s.") % {"instance": instance, "state": instance.get_state_display().lower()},
                remedy=_("Stop it first, or launch a second instance."),
            )
        dispatch.after_commit("fleet.advance", instance_id=instance.pk)


def _free_name(config_version: ConfigVersion) -> str:
    base = f"{config_version.config.name}-v{config_version.number}"
    taken = set(Instance.objects.filter(name__startswith=f"{base}-").values_list("name", flat=True))
    return next(name for number in range(1, len(taken) + 2) if (name := f"{base}-{number}") not in taken)
