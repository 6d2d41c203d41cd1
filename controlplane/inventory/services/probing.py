"""Looking at a host: what machine it is, which GPUs, which vLLM builds with which options. Runs in the worker."""

import logging
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from django.db.models import Q
from django.utils import timezone

from controlplane.core import dispatch, leases
from controlplane.drivers.errors import HostError, HostRefused
from controlplane.inventory.models import Engine, Host, ModelArtifact, OptionList
from controlplane.inventory.services.artifacts import INSPECT, stale_copies
from controlplane.inventory.services.host_keys import fetch_host_key
from controlplane.inventory.services.hosts import FETCH_HOST_KEY, PROBE
from controlplane.inventory.services.reach import HostKeyNotPinned, call_host, try_again
from controlplane.inventory.services.recording import record_engines, record_machine
from controlplane.protocol.engines import EngineList, EngineOptions
from controlplane.protocol.machine import Machine
from controlplane.protocol.shapes import from_wire, to_wire

logger = logging.getLogger(__name__)

PROBE_EVERY = timedelta(minutes=5)
LOST_AFTER = timedelta(minutes=2)
"""A request that nobody took up for so long was lost on the way: asked again."""
CONNECT_WAIT_S = 1.0
"""Of a probe that nobody waits for: the next tick finds the connection open."""
PROBE_TIMEOUT_S = 60.0
FIND_TIMEOUT_S = 60.0
OPTIONS_TIMEOUT_S = 180.0
LEASE_S = 15 * 60.0  # several builds on a cold disk, each importing vLLM; a dead worker's turn ends by itself


def probe_host(host_id: int) -> None:
    """Look at one host, once at a time however many ask. What cannot be learned leaves what was known."""
    host = Host.objects.select_related("ssh_key", "jump_host").filter(pk=host_id).first()
    if host is None:
        return
    if not host.is_local and not host.host_key:
        fetch_host_key(host_id)
        return
    with leases.held(f"inventory-probe-{host_id}", for_s=LEASE_S) as mine:
        if mine:
            _look(host, timezone.now())


def hosts_due(now: datetime) -> list[tuple[str, int]]:
    """Task name and host for every host that is to be looked at now: never probed, not for five minutes, or asked for
    and lost. A host that waits for a person to pin its key waits."""
    due = Q(probed_at=None) | Q(probed_at__lte=now - PROBE_EVERY) | Q(probe_requested_at__lte=now - LOST_AFTER)
    unpinned = Q(transport=Host.Transport.SSH, host_key="")
    waiting = unpinned & ~Q(offered_host_key="")
    rows = Host.objects.filter(due).exclude(waiting).order_by("pk").only("transport", "host_key")
    return [(PROBE if host.is_local or host.host_key else FETCH_HOST_KEY, host.pk) for host in rows]


def probe_due() -> None:
    """The tick: send a task for every host that is due."""
    for task, host_id in hosts_due(timezone.now()):
        dispatch.after_commit(task, host_id=host_id)


def _look(host: Host, started: datetime) -> None:
    is_asked = host.is_probing
    try:
        if is_asked:
            try_again(host)
        wait_s = None if is_asked else CONNECT_WAIT_S
        machine = call_host(host, "probe", {"paths": _model_folders(host)}, timeout_s=PROBE_TIMEOUT_S, wait_s=wait_s)
        record_machine(host, from_wire(Machine, machine), timezone.now())
        found = call_host(host, "find_engines", {"paths": host.engine_paths}, timeout_s=FIND_TIMEOUT_S)
        engines = record_engines(host, from_wire(EngineList, found), timezone.now())
        _probe_is_over(host, started)  # what is left takes long and is shown per engine
        for engine in engines:
            if is_asked or not engine.option_list_error:  # a broken build is not asked every five minutes
                capture_options(host, engine)
        for copy_id in stale_copies(host, started):
            dispatch.after_commit(INSPECT, copy_id=copy_id)
    except HostRefused as error:  # it answers, but not this
        logger.warning("%s refuses to be probed: %s", host.name, error.message)
        refusal = {"code": error.code, "message": error.message, "remedy": error.remedy}
        Host.every.filter(pk=host.pk).update(facts={**host.facts, "probe_error": refusal})
    except (HostError, HostKeyNotPinned) as error:  # `call_host` has noted the first; the second is the jump host's
        logger.info("%s was not probed: %s", host.name, error)
    finally:
        _probe_is_over(host, started)


def capture_options(host: Host, engine: Engine) -> None:
    """Give `engine` the option list of its build: asked from the build itself once, and shared by every host that has
    the same one. A build that cannot tell keeps its reason; a changed build or a rescan asks again."""
    if engine.option_list_id is not None or not engine.build:
        return
    options = OptionList.objects.filter(build=engine.build).first()
    error = ""
    if options is None:
        try:
            params = {"executable": engine.executable, "timeout_s": OPTIONS_TIMEOUT_S}
            answer = call_host(host, "engine_options", params, timeout_s=OPTIONS_TIMEOUT_S + FIND_TIMEOUT_S)
        except HostRefused as refusal:
            error = f"{refusal.message} {refusal.remedy}".strip()
        else:
            told = from_wire(EngineOptions, answer)
            options, _made = OptionList.objects.get_or_create(
                build=engine.build,
                defaults={"version": told.vllm_version, "args": to_wire(told), "option_count": told.count},
            )
    Engine.objects.filter(pk=engine.pk, build=engine.build).update(option_list=options, option_list_error=error)


def _probe_is_over(host: Host, started: datetime) -> None:
    """Unless somebody asked again meanwhile."""
    Host.every.filter(pk=host.pk, probe_requested_at__lte=started).update(probe_requested_at=None)


def _model_folders(host: Host) -> list[str]:
    """Where models lie: their file systems' free space is wanted too."""
    paths = host.model_copies.filter(artifact__source=ModelArtifact.Source.PATH).values_list("path", flat=True)
    return sorted({str(PurePosixPath(path).parent) for path in paths})
