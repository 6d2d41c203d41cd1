"""Taking launches that nobody remembers off their host: directory and log."""

import logging
from collections.abc import Sequence

from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostError
from controlplane.inventory.models import Host
from controlplane.inventory.services import call_host

logger = logging.getLogger(__name__)


def clear_away(host_id: int, launch_ids: Sequence[str]) -> None:
    """Remove the directories of finished launches. What cannot be removed now stays: it costs disk and nothing else."""
    host = Host.objects.select_related("ssh_key", "jump_host").filter(pk=host_id).first()
    if host is None:
        return
    for launch_id in launch_ids:
        try:
            call_host(host, "remove", {"launch_id": launch_id})
        except (HostError, Problem) as error:
            logger.info("%s stays on %s: %s", launch_id, host.name, error)
