"""Where a launch goes: which port and GPUs of the host, under which address and name."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Conflict, Invalid
from controlplane.fleet.domain import placing
from controlplane.fleet.models import LIVE_STATES, Instance
from controlplane.inventory.models import Accelerator, Engine, Host

DEFAULT_BIND = "127.0.0.1"


def refuse_unusable(host: Host, engine: Engine) -> None:
    """Raise Conflict when nothing may be launched there: maintenance, a removed host, an engine that is gone."""
    if host.removed_at is not None:
        raise Conflict(_("%(host)s was removed.") % {"host": host}, remedy=_("Choose another host."))
    if host.is_in_maintenance:
        raise Conflict(
            _("%(host)s is in maintenance.") % {"host": host}, remedy=_("End its maintenance, or choose another host.")
        )
    if engine.missing_since:
        raise Conflict(
            _("%(executable)s is gone from %(host)s.") % {"executable": engine.executable, "host": host},
            remedy=_("Probe the host again, or choose another engine."),
        )


def gpus_for(config_version: ConfigVersion, engine: Engine, wished: Sequence[str] | None) -> list[str]:
    """The wished GPUs of the engine's host by UUID; without a wish as many as the config needs, those without an
    instance first. Raises Invalid for a GPU that the host does not have."""
    known = list(
        Accelerator.objects.filter(host=engine.host_id, missing_since=None)
        .order_by("index")
        .values_list("uuid", flat=True)
    )
    if wished is not None:
        if unknown := [uuid for uuid in wished if uuid not in known]:
            raise Invalid(
                _("%(host)s has no GPU %(uuid)s.") % {"host": engine.host, "uuid": unknown[0]},
                remedy=_("Choose among its own GPUs, by UUID."),
            )
        return list(dict.fromkeys(wished))
    if engine.device == Engine.Device.CPU:
        return []
    live = Instance.objects.filter(host=engine.host_id, state__in=LIVE_STATES).values_list("gpu_uuids", flat=True)
    taken = {uuid for uuids in live for uuid in uuids}
    return placing.choose_gpus(placing.gpus_needed(config_version.content), known, taken)


def port_for(config_version: ConfigVersion, host: Host, wished: int | None) -> int:
    """The wished port; without a wish the config's own, or the next that no live instance of the host has. Raises
    Conflict when the wished one is taken or none is left."""
    taken = set(Instance.objects.filter(host=host, state__in=LIVE_STATES).values_list("port", flat=True))
    if wished is not None and wished in taken:
        raise Conflict(
            _("Port %(port)s of %(host)s belongs to a live instance.") % {"port": wished, "host": host},
            code="port_taken",
            remedy=_("Choose another port, or none: then a free one is taken."),
        )
    port = wished or placing.free_port(config_version.value("server", "port"), taken)
    if port is None:
        raise Conflict(_("No port of %(host)s is free.") % {"host": host}, remedy=_("Stop an instance there."))
    return port


def bind_of(config_version: ConfigVersion) -> str:
    """The address the server listens on: the config's, else this machine only."""
    return str(config_version.value("server", "host") or DEFAULT_BIND)


def served_model_name(config_version: ConfigVersion) -> str:
    """The name clients use: the first one configured, else the model argument, as vLLM does."""
    named = config_version.value("server", "served_model_name")
    first = named[0] if isinstance(named, list) and named else named
    return str(first or config_version.value("model", "model_path") or "")
