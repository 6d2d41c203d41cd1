"""What pretended machines have: GPUs, vLLM builds, a model."""

from typing import Any

from controlplane.protocol.artifacts import ModelFacts, Parameters, Quantization, WeightFile
from controlplane.protocol.engines import Engine, EngineOptions
from controlplane.protocol.machine import Gpu, GpuProcess, GpuReport

GIB = 1024**3


def gpu(index: int, *, used_gib: int = 10) -> Gpu:
    return Gpu(
        uuid=f"GPU-{index:08d}",
        index=index,
        name="NVIDIA H200",
        memory_total_bytes=141 * GIB,
        memory_used_bytes=used_gib * GIB,
        driver_version="570.1",
        compute_capability="9.0",
        utilization_percent=41.0,
    )


def gpu_report(*indices: int, processes: list[GpuProcess] | None = None) -> GpuReport:
    gpus = [gpu(index) for index in indices]
    return GpuReport(status="ok", pci_cards=len(gpus), gpus=gpus, processes=processes or [])


def engine(
    executable: str = "/opt/vllm/bin/vllm", *, digest: str | None = "build-1", version: str = "0.32.0"
) -> Engine:
    return Engine(
        executable=executable, python="/opt/vllm/bin/python", version=version, distribution="vllm", digest=digest
    )


def options(version: str = "0.32.0") -> EngineOptions:
    entries: list[dict[str, Any]] = [
        {
            "dest": "max_model_len",
            "flags": ["--max-model-len"],
            "parser_type": "int",
            "default": None,
            "help": "How long.",
        },
        {
            "dest": "enable_prefix_caching",
            "flags": ["--enable-prefix-caching", "--no-enable-prefix-caching"],
            "is_bool_pair": True,
            "default": True,
            "help": "Reuse KV blocks.",
        },
        {
            "dest": "dtype",
            "flags": ["--dtype"],
            "choices": ["auto", "bfloat16"],
            "parser_type": "str",
            "default": "auto",
            "help": "Weights.",
        },
    ]
    return EngineOptions(vllm_version=version, count=len(entries), args=entries)


def model_facts(path: str) -> ModelFacts:
    return ModelFacts(
        path=path,
        resolved_path=path,
        architectures=["Qwen2ForCausalLM"],
        model_type="qwen2",
        is_multimodal=False,
        num_hidden_layers=64,
        num_attention_heads=40,
        num_key_value_heads=8,
        head_dim=128,
        hidden_size=5120,
        vocab_size=152064,
        max_position_embeddings=32768,
        sliding_window=None,
        dtype="float16",
        quantization=Quantization(method="awq", bits=4, group_size=128),
        parameters=Parameters(stored=5_000_000_000, unpacked=32_763_876_352, is_estimate=True),
        weights_bytes=19 * GIB,
        total_bytes=19 * GIB + 1000,
        weight_format="safetensors",
        weight_files=[WeightFile("model.safetensors", 19 * GIB)],
        has_tokenizer=True,
        has_chat_template=True,
        config_digest="0" * 64,
    )
