"""From what a host read out of a model's files to what the estimates need."""

from collections.abc import Mapping
from typing import Any

from .memory import ModelFacts

# Families with recurrent layers, by the beginning of `model_type` in config.json.
_HYBRID = (
    "bamba",
    "falcon_h1",
    "falcon_mamba",
    "granitemoehybrid",
    "jamba",
    "lfm2",
    "mamba",
    "minimax",
    "nemotron_h",
    "plamo2",
    "qwen3_5",
    "qwen3_next",
    "zamba",
)


def model_facts(facts: Mapping[str, Any]) -> ModelFacts | None:
    """The estimate's view of `protocol.artifacts.ModelFacts` as JSON; None when the files do not tell enough."""
    layers, heads, hidden = (facts.get(name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    if not layers or not heads or not hidden:
        return None
    quantization = facts.get("quantization") or {}
    return ModelFacts(
        weights_bytes=facts.get("weights_bytes") or 0,
        layers=layers,
        attention_heads=heads,
        kv_heads=facts.get("num_key_value_heads") or heads,
        head_dim=facts.get("head_dim") or hidden // heads,
        hidden_size=hidden,
        dtype=facts.get("dtype") or "bfloat16",
        vocab_size=facts.get("vocab_size"),
        quantization=quantization.get("method"),
        max_positions=facts.get("max_position_embeddings"),
        kv_lora_rank=facts.get("kv_lora_rank"),
        qk_rope_head_dim=facts.get("qk_rope_head_dim"),
        sliding_window=facts.get("sliding_window"),
        is_hybrid=str(facts.get("model_type") or "").startswith(_HYBRID),
    )
