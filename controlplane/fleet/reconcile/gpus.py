"""The GPUs of a host as the diagnosis wants them: from what the last probe kept."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.fleet.domain.failures.rule import Gpu, GpuProcess
from controlplane.inventory.models import Accelerator, Host

PROBE_IS_OLD = timedelta(minutes=15)
"""Who held a GPU longer ago says nothing about a failure of now."""


def gpus_as_probed(host: Host, *, without_nonce: str | None) -> list[Gpu]:
    """All GPUs of `host` that a recent probe saw, by index, less the processes of the launch with this nonce."""
    found = Accelerator.objects.filter(host=host, missing_since=None, seen_at__gte=timezone.now() - PROBE_IS_OLD)
    return [
        Gpu(
            uuid=gpu.uuid,
            total_bytes=gpu.memory_total_bytes or 0,
            used_bytes=gpu.memory_used_bytes or 0,
            index=gpu.index,
            name=f"GPU {gpu.index} ({gpu.name})",
            processes=tuple(
                _process(each) for each in gpu.processes if not without_nonce or each.get("nonce") != without_nonce
            ),
        )
        for gpu in found.order_by("index")
    ]


def _process(kept: Mapping[str, Any]) -> GpuProcess:
    return GpuProcess(
        pid=kept["pid"],
        used_bytes=kept.get("memory_bytes") or 0,
        user=kept.get("user") or "",
        command=" ".join(kept.get("command") or [])[:80],
        is_ours=kept.get("nonce") is not None,
    )
