"""Where an instance goes: ports and GPUs, and the environment that holds it there."""

from collections.abc import Collection, Mapping, Sequence

from . import config_values as config
from .config_values import Content

FIRST_PORT, LAST_PORT = 8000, 8999
INTERNAL_PORTS_FROM = 20_000
INTERNAL_PORTS_EACH = 32


def free_port(configured: int | None, taken: Collection[int]) -> int | None:
    """The configured port when nobody has it, else the next above (or from 8000) that nobody has; None: none left."""
    start = configured or FIRST_PORT
    candidates = [*range(start, max(start, LAST_PORT) + 1), *range(FIRST_PORT, start)]
    return next((port for port in candidates if port not in taken), None)


def gpus_needed(content: Content) -> int:
    """How many GPUs the parallel sizes multiply to."""
    tensor, pipeline, data = (
        max(1, config.integer(content, f"{kind}_parallel_size") or 1) for kind in ("tensor", "pipeline", "data")
    )
    return tensor * pipeline * data


def choose_gpus(needed: int, on_host: Sequence[str], taken: Collection[str]) -> list[str]:
    """`needed` UUIDs out of those `on_host` (in the host's order), those that no instance has first; all when there are
    fewer: preflight then says what is missing."""
    order = {uuid: place for place, uuid in enumerate(on_host)}
    preferred = sorted(on_host, key=lambda uuid: (uuid in taken, order[uuid]))
    return sorted(preferred[:needed], key=lambda uuid: order[uuid])


def internal_port(port: int) -> int:
    """The first of the ports that vLLM may use inside (VLLM_PORT): a range of its own for every service port.

    Two instances on one host collide on vLLM's internal ports although their service ports differ when nobody keeps
    them apart (gpustack#4312, #5657).
    """
    return INTERNAL_PORTS_FROM + (port % 1000) * INTERNAL_PORTS_EACH


def device_environment(gpu_uuids: Collection[str], *, is_cpu: bool) -> Mapping[str, str]:
    """Which GPUs the engine sees: by UUID, in PCI order, so that no tool's own numbering matters."""
    if is_cpu:
        return {}
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**order, "CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)} if gpu_uuids else order
