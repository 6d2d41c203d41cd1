"""The GPUs of a host as checks and diagnosis want them: from a report of now, or from what the last probe kept."""

from collections.abc import Iterable
from datetime import timedelta

from django.utils import timezone

from controlplane.fleet.domain.failures import rule
from controlplane.inventory.models import Accelerator, Host
from controlplane.protocol.machine import Gpu, GpuProcess
from controlplane.protocol.shapes import from_wire

PROBE_IS_OLD = timedelta(minutes=15)
"""Who held a GPU longer ago says nothing about a failure of now."""


def gpu_of(gpu: Gpu | Accelerator, processes: Iterable[GpuProcess]) -> rule.Gpu:
    """`gpu` with the processes that lie on it."""
    return rule.Gpu(
        uuid=gpu.uuid,
        total_bytes=gpu.memory_total_bytes or 0,
        used_bytes=gpu.memory_used_bytes or 0,
        index=gpu.index,
        name=f"GPU {gpu.index} ({gpu.name})",
        processes=tuple(
            rule.GpuProcess(
                pid=process.pid,
                used_bytes=process.memory_bytes or 0,
                user=process.user or "",
                command=" ".join(process.command)[:80],
                is_ours=process.nonce is not None,
            )
            for process in processes
        ),
    )


def gpus_as_probed(host: Host, *, without_nonce: str | None) -> list[rule.Gpu]:
    """All GPUs of `host` that a recent probe saw, by index, less the processes of the launch with this nonce."""
    found = Accelerator.objects.filter(host=host, missing_since=None, seen_at__gte=timezone.now() - PROBE_IS_OLD)
    return [
        gpu_of(
            gpu,
            (
                from_wire(GpuProcess, {"gpu_uuid": gpu.uuid, **kept})
                for kept in gpu.processes
                if not without_nonce or kept.get("nonce") != without_nonce
            ),
        )
        for gpu in found.order_by("index")
    ]
