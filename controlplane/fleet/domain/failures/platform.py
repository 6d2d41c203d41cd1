"""Failures of the host: driver, CUDA libraries, compilers, permissions, ports."""

from collections.abc import Iterable

from ..texts import gettext_noop as _
from .rule import Fix, Match, Rule, Scene, rule, set_to


def _port(found: Match, scene: Scene) -> dict[str, str]:
    named = found.groupdict().get("port") or scene.setting("port")
    return {"shown_port": f"Port {named}" if named else "The port (8000 unless set)"}


def _is_inside(found: Match, scene: Scene, index: int) -> bool:
    process = scene.lines[index].process
    return process.startswith(("EngineCore", "Worker", "VllmWorker", "RayWorker"))


def _is_api(found: Match, scene: Scene, index: int) -> bool:
    return not _is_inside(found, scene, index)


def _other_attention(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("set", "attention_backend", "TRITON_ATTN"),)


_IN_USE = (
    r"[Ee]rrno 98\][^(]*(?:\('?[\d.:a-zA-Z]*'?, (?P<port>\d+)\))?"
    r"|[Aa]ddress already in use"
)

RULES: tuple[Rule, ...] = (
    rule(
        "internal_port_in_use",
        _IN_USE,
        _("A port that vLLM uses inside (not the HTTP port) is taken by another server on the host."),
        _("Launch again: the control plane reserves a range of internal ports for each instance."),
        when=_is_inside,
    ),
    rule(
        "port_in_use",
        _IN_USE,
        _("{shown_port} is already taken by another process on the host."),
        _("Choose another port, or stop the process that holds it (a leftover of an earlier launch is common)."),
        params=_port,
        when=_is_api,
    ),
    rule(
        "port_not_allowed",
        r"[Ee]rrno 13\].*(?:bind|socket)|PermissionError: \[Errno 13\] Permission denied$",
        _("The server may not open its port: ports below 1024 need root."),
        _("Use a port from 1024 up."),
        when=lambda found, scene, index: scene.near(index, r"sock\.bind|create_server_socket", before=8, after=0),
    ),
    rule(
        "address_not_local",
        r"[Ee]rrno 99\]|Cannot assign requested address|Name or service not known.*bind",
        _("The host has no network address as given in `host`."),
        _("Use 127.0.0.1, 0.0.0.0 or an address of this host."),
        fixes=set_to("host", "127.0.0.1"),
    ),
    rule(
        "permission_denied",
        r"PermissionError|[Ee]rrno 13\]|Permission denied: '?(?P<path>[^']*)",
        _("The user that runs vLLM may not read or write a file or directory it needs."),
        _("Give that user access; the line names the path (often the model directory or a cache)."),
    ),
    rule(
        "driver_too_old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|compiled with an unsupported toolchain",
        _("The NVIDIA driver is older than the CUDA this vLLM was built with."),
        _(
            "Update the driver, use an engine built for the older CUDA, or "
            "VLLM_ENABLE_CUDA_COMPATIBILITY on data-centre GPUs."
        ),
        is_said_softly=True,
    ),
    rule(
        "driver_mismatch",
        r"Error 803|unsupported display driver / cuda driver combination|Driver/library version mismatch",
        _("The CUDA library that the process finds does not belong to the loaded driver."),
        _("Put the driver's libraries first (LD_LIBRARY_PATH), or reboot after a driver update."),
        is_said_softly=True,
    ),
    rule(
        "library_missing",
        r"(?P<library>lib[\w.+-]+\.so[.\d]*)(?:: cannot open shared object file|.{0,20} not found)",
        _(
            "The library {library} is missing: CUDA, torch and vLLM on this host do not belong "
            "together, or the driver is not mounted."
        ),
        _("Reinstall vLLM with the torch of the same CUDA, or mount the driver's directory into the container."),
    ),
    rule(
        "no_gpu_seen",
        r"Failed to infer device type|No CUDA GPUs are available|no CUDA-capable device is detected"
        r"|Torch not compiled with CUDA",
        _("The process sees no GPU."),
        _("Check `nvidia-smi` on the host, and that the container got its devices (--gpus all)."),
    ),
    rule(
        "mig_by_name",
        r"invalid literal for int\(\) with base 10: '?(?P<device>(?:MIG|GPU)-[\w<>-]+)",
        _("This vLLM cannot take the device name {device}: it wants numbers in CUDA_VISIBLE_DEVICES."),
        _("Use the device's number, inside a container limited to that slice, or a newer engine."),
    ),
    rule(
        "gpu_not_supported",
        r"no kernel image is available for execution",
        _("This vLLM build has no code for the host's GPU model."),
        _("Use a newer vLLM built with the CUDA that knows the GPU (12.8 or later for Blackwell)."),
    ),
    rule(
        "kernel_too_large",
        r"OutOfResources|out of resource: shared memory",
        _("A kernel of this vLLM needs more shared memory than the GPU has."),
        _("Use another attention_backend, or a newer GPU."),
    ),
    rule(
        "attention_unsupported",
        r"Sinks are only supported in FlashAttention 3",
        _("The model needs an attention kernel that this GPU does not run."),
        _("Set attention_backend to TRITON_ATTN (vLLM 0.13 or later; VLLM_ATTENTION_BACKEND before)."),
        fixes=_other_attention,
    ),
    rule(
        "compiler_missing",
        r"nvcc: not found|Could not find nvcc|ninja: build stopped"
        r"|CUDA_HOME environment variable is not set|Failed to find C compiler",
        _("vLLM wants to compile a kernel, and the compiler is missing or CUDA_HOME is wrong."),
        _("Set VLLM_USE_FLASHINFER_SAMPLER=0, correct CUDA_HOME, or install the CUDA toolkit."),
    ),
    rule(
        "compile_cache_damaged",
        r"vLLM failed to compile the model|corrupted compilation artifact",
        _("The compiled model in the cache is damaged, or compiling failed."),
        _("Delete ~/.cache/vllm/torch_compile_cache and launch again; enforce_eager avoids compiling."),
        fixes=set_to("enforce_eager", True),
    ),
    rule(
        "files_too_many",
        r"OSError: \[Errno 24\] Too many open files",
        _("The process may not open more files."),
        _("Raise the limit (ulimit -n) of the user that runs vLLM."),
    ),
    rule(
        "not_installed",
        r"vllm: (?:command )?not found|No module named '?vllm\b|exec: .*vllm.*not found"
        r"|No such file or directory: '[^']*/vllm'",
        _("vLLM is not at the place this engine names."),
        _("Probe the host again and choose an engine that is there."),
    ),
    rule(
        "package_broken",
        r"(?:ModuleNotFoundError|ImportError): (?P<what>.+)",
        _("The vLLM installation is not complete: {what}"),
        _("Reinstall vLLM on the host in an environment of its own."),
    ),
)
