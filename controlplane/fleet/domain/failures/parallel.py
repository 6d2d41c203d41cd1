"""Failures of several GPUs or machines working together."""

from collections.abc import Iterable

from ..texts import gettext_noop as _
from .rule import Fix, Match, Rule, Scene, got_stuck, rule, set_to


def _divisors(found: Match, scene: Scene) -> Iterable[Fix]:
    """The largest smaller tensor_parallel_size that divides the heads, a power of two where there is one."""
    heads, asked = int(found["heads"]), int(found["tp"])
    fitting = [size for size in range(1, asked) if heads % size == 0]
    binary = [size for size in fitting if size & (size - 1) == 0]
    return (Fix("lower", "tensor_parallel_size", max(binary or fitting)),) if fitting else ()


def _fit_devices(found: Match, scene: Scene) -> Iterable[Fix]:
    # A world larger than the devices comes from tensor x pipeline; only a plain tensor split has one answer.
    if (scene.number("pipeline_parallel_size") or 1) == 1 and int(found["have"]) >= 1:
        return (Fix("lower", "tensor_parallel_size", int(found["have"])),)
    return ()


def _fit_nodes(found: Match, scene: Scene) -> Iterable[Fix]:
    nodes = found["nodes"].count(",") + 1
    return (Fix("lower", "tensor_parallel_size", nodes),)


_NO_P2P = _(
    "GPUs cannot talk to each other directly. Try NCCL_P2P_DISABLE=1 and disable_custom_all_reduce; "
    "the cure is iommu=pt or ACS off in the host's firmware (`nvidia-smi topo -m` shows the paths)."
)

RULES: tuple[Rule, ...] = (
    rule(
        "heads_not_divisible",
        r"[Tt]otal number of attention heads \((?P<heads>\d+)\) "
        r"must be divisible by tensor parallel size \((?P<tp>\d+)\)",
        _("{heads} attention heads cannot be split over tensor_parallel_size {tp}."),
        _("Use a tensor_parallel_size that divides {heads}; spread the rest with pipeline_parallel_size or replicas."),
        fixes=_divisors,
    ),
    rule(
        "gpus_too_few",
        r"world_size \((?P<need>\d+)\) is less than (?:than )?max local gpu count \((?P<have>\d+)\)",
        _("The config needs {need} GPUs and the process sees {have}."),
        _(
            "Lower tensor_parallel_size, give the launch more GPUs, or use "
            "distributed_executor_backend ray over several hosts."
        ),
        fixes=_fit_devices,
    ),
    rule(
        "gpus_too_few",
        r"local_world_size \((?P<need>\d+)\) must be less than or equal to "
        r"the number of visible devices \((?P<have>\d+)\)",
        _("The config needs {need} GPUs on this host and the process sees {have}."),
        _("Lower tensor_parallel_size, give the launch more GPUs, or split over hosts with pipeline_parallel_size."),
        fixes=_fit_devices,
    ),
    rule(
        "gpus_too_few",
        r"number of required GPUs exceeds the total number of available GPUs|number of GPUs per node is not divisible"
        r"|invalid device ordinal",
        _("The config needs more GPUs than the process sees."),
        _("Lower tensor_parallel_size, or give the launch more GPUs."),
    ),
    rule(
        "cpu_nodes_too_few",
        r"Not enough allowed NUMA nodes to bind threads of (?P<need>\d+) local CPUWorkers\. "
        r"Allowed NUMA nodes are \[(?P<nodes>[\d, ]*)\]",
        _(
            "tensor_parallel_size asks for {need} CPU workers, each on its own memory node, and the "
            "host has only [{nodes}]."
        ),
        _("Lower tensor_parallel_size to the number of memory nodes."),
        fixes=_fit_nodes,
    ),
    rule(
        "ray_no_gpu",
        r"Current node has no GPU available",
        _("Ray put the server on a node without a free GPU."),
        _("Start it on a node with free GPUs; data_parallel_size × tensor_parallel_size must fit the GPUs of a node."),
    ),
    rule(
        "ray_wrong_address",
        r"No available node types can fulfill resource request",
        _("Ray cannot place the workers: the node's own address differs from the one Ray knows it by."),
        _("Set VLLM_HOST_IP on every node to the address that `ray status` shows."),
        is_said_softly=True,
    ),
    rule(
        "ray_waits",
        r"Waiting for creating a placement group of specs",
        _("Ray waits for GPUs that it does not find."),
        _("Set VLLM_HOST_IP on every node to the address that `ray status` shows, or lower tensor_parallel_size."),
        is_symptom=True,
        is_said_softly=True,
        when=got_stuck,
    ),
    rule(
        "shared_memory_small",
        r"ncclShmOpen|(?:shm|/dev/shm).*(?:too small|No space|64M|bus error)|Bus error",
        _("The shared memory of the container (/dev/shm) is too small for several GPUs."),
        _("Start the container with --ipc=host or --shm-size=10g."),
    ),
    rule(
        "custom_all_reduce",
        r"custom_all_reduce\.cuh|Failed: Cuda error .*custom_all_reduce",
        _("The direct exchange between GPUs failed in vLLM's own all-reduce kernel."),
        _("Set disable_custom_all_reduce."),
        fixes=set_to("disable_custom_all_reduce", True),
    ),
    rule(
        "nccl_timeout",
        r"Watchdog caught collective operation timeout.*?SeqNum=(?P<seq>[1-9]\d?),",
        _("The first exchange between the GPUs never finished."),
        _NO_P2P,
        fixes=set_to("disable_custom_all_reduce", True),
        is_said_softly=True,
    ),
    rule(
        "nccl_timeout_late",
        r"Watchdog caught collective operation timeout",
        _("After a long time in service an exchange between the GPUs never finished."),
        _(
            "This is a fault of the release or the hardware, not of the topology: use a newer engine, "
            "look for Xid in `dmesg`."
        ),
        is_said_softly=True,
    ),
    rule(
        "nccl_error",
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclRemoteError|DistBackendError",
        _("The GPUs could not be connected to each other (NCCL)."),
        _(
            "Look at the NCCL lines above it; common are /dev/shm too small, a blocked interface "
            "(NCCL_SOCKET_IFNAME) and P2P."
        ),
    ),
    rule(
        "internal_port_in_use",
        r"(?:server socket has failed to (?:listen|bind)|DistNetworkError"
        r"|ZMQError).*(?:[Aa]ddress already in use|EADDRINUSE|in use)",
        _("A port that vLLM uses inside (not the HTTP port) is taken by another server on the host."),
        _("Launch again: the control plane reserves a range of internal ports for each instance."),
    ),
    rule(
        "nccl_hang",
        r"vLLM is using nccl==|NCCL INFO .*Init COMPLETE|ncclCommInitRank comm .* Init COMPLETE",
        _("Nothing was written after the GPUs began to connect to each other."),
        _NO_P2P,
        fixes=set_to("disable_custom_all_reduce", True),
        is_symptom=True,
        is_said_softly=True,
        when=lambda found, scene, index: not any(line.message.strip() for line in scene.lines[index + 1 :]),
    ),
)
