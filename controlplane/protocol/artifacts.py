"""What a model directory contains. Unknown is None."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from controlplane.protocol.wire import Failure


@dataclass(frozen=True)
class InspectModelRequest:
    """`inspect_model`"""

    path: str


@dataclass(frozen=True)
class WeightFile:
    name: str
    size_bytes: int


@dataclass(frozen=True)
class Parameters:
    """Counted from safetensors headers.

    `stored` counts the elements as they lie in the files, `unpacked` the weights they stand for: quantised formats pack
    several weights into one integer. `is_estimate` when packing had to be undone by rule, or files are missing.
    """

    stored: int
    unpacked: int
    is_estimate: bool
    dtypes: dict[str, int] = field(default_factory=dict)  # elements by safetensors type


@dataclass(frozen=True)
class Quantization:
    method: str  # awq, gptq, compressed-tensors, fp8, ...
    bits: Optional[int] = None
    group_size: Optional[int] = None


@dataclass(frozen=True)
class ModelFacts:
    """The answer to `inspect_model`. `problems` are things that will stop a launch, or make it wrong."""

    path: str
    resolved_path: str
    architectures: list[str]
    model_type: Optional[str]
    is_multimodal: bool  # the language model's figures come from `text_config`
    num_hidden_layers: Optional[int]
    num_attention_heads: Optional[int]
    num_key_value_heads: Optional[int]
    head_dim: Optional[int]
    hidden_size: Optional[int]
    vocab_size: Optional[int]
    max_position_embeddings: Optional[int]
    sliding_window: Optional[int]
    dtype: Optional[str]
    quantization: Optional[Quantization]
    parameters: Optional[Parameters]
    weights_bytes: int
    total_bytes: int
    weight_format: Optional[str]  # safetensors, bin, gguf
    weight_files: list[WeightFile]
    has_tokenizer: bool
    has_chat_template: bool
    config_digest: str  # SHA-256 of config.json
    num_local_experts: Optional[int] = None
    kv_lora_rank: Optional[int] = None  # multi-head latent attention: the KV cache is compressed
    qk_rope_head_dim: Optional[int] = None
    problems: list[Failure] = field(default_factory=list)
