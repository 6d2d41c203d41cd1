"""Why options of `vllm serve` went away and what to write instead.

The catalogue knows when an option was last there; the reason is not in vLLM's sources and is kept here by hand, from
its release notes and deprecation warnings.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removal:
    """`note` is a full sentence; `replacement` is what to write under `[engine]` instead, if anything."""

    note: str
    replacement: str | None = None


_SPECULATIVE = "Speculative decoding is one table now: speculative_config = {{{example}}}."
_EPLB = Removal("The single eplb_ options are one table now.", "eplb_config")
_GUIDED = Removal(
    "Guided decoding became structured outputs, one table with its own backend key.", "structured_outputs_config"
)
_PROMPT_ADAPTER = Removal("Prompt adapters went with the V0 engine. Use LoRA adapters.", "enable_lora")
_TOKENIZER_POOL = Removal("Tokenizer pools went with the V0 engine. Remove the key.")
_PARTIAL_PREFILLS = Removal(
    "The V1 engine never ran several partial prefills at once. Bound long prompts with long_prefill_token_threshold.",
    "long_prefill_token_threshold",
)
_NO_EFFECT = "It had no effect any more. Remove the key."


def _speculative(example: str) -> Removal:
    return Removal(_SPECULATIVE.format(example=example), "speculative_config")


REMOVALS: dict[str, Removal] = {
    "calculate_kv_scales": Removal("Scales of an fp8 KV cache come from the checkpoint. Remove the key."),
    "cuda_graph_sizes": Removal("It was renamed.", "cudagraph_capture_sizes"),
    "device": Removal("The device follows from the installed vLLM build. Remove the key."),
    "disable_async_output_proc": Removal("It belonged to the V0 engine. Remove the key."),
    "disable_frontend_multiprocessing": Removal("It belonged to the V0 engine. Remove the key."),
    "disable_log_requests": Removal(
        "Requests are not logged any more unless enable_log_requests = true is written.",
        "enable_log_requests",
    ),
    "disable_logprobs_during_spec_decoding": Removal("It belonged to the V0 engine. Remove the key."),
    "disable_mm_preprocessor_cache": Removal("Write a cache size of 0 instead.", "mm_processor_cache_gb"),
    "enable_bf16x3_router_gemm": Removal("It lived for a few releases only. Remove the key."),
    "enable_lora_bias": Removal("Biases in LoRA adapters are not supported any more. Remove the key."),
    "enable_mamba_fine_grained_prefix_cache": Removal("It lived for one release only. Remove the key."),
    "enable_multimodal_encoder_data_parallel": Removal('Write mm_encoder_tp_mode = "data".', "mm_encoder_tp_mode"),
    "enable_prompt_adapter": _PROMPT_ADAPTER,
    "enable_reasoning": Removal("Naming a reasoning_parser switches reasoning on.", "reasoning_parser"),
    "eplb_log_balancedness": _EPLB,
    "eplb_step_interval": _EPLB,
    "eplb_window_size": _EPLB,
    "expand_tools_even_if_tool_choice_none": Removal(
        "Tools are in the prompt by default; the opposite has its own option.", "exclude_tools_when_tool_choice_none"
    ),
    "guided_decoding_backend": _GUIDED,
    "guided_decoding_disable_additional_properties": _GUIDED,
    "guided_decoding_disable_any_whitespace": _GUIDED,
    "guided_decoding_disable_fallback": _GUIDED,
    "logits_processor_pattern": Removal("Logits processors are loaded at start-up by name.", "logits_processors"),
    "long_lora_scaling_factors": Removal("LongLoRA is not supported any more. Remove the key."),
    "lora_extra_vocab_size": Removal("Adapters cannot add to the vocabulary any more. Remove the key."),
    "max_long_partial_prefills": _PARTIAL_PREFILLS,
    "max_num_partial_prefills": _PARTIAL_PREFILLS,
    "max_prompt_adapter_token": _PROMPT_ADAPTER,
    "max_prompt_adapters": _PROMPT_ADAPTER,
    "max_seq_len_to_capture": Removal(
        "It limited the V0 engine's CUDA graphs. The V1 engine captures by batch size.", "cudagraph_capture_sizes"
    ),
    "multi_step_stream_outputs": Removal("Multi-step scheduling went with the V0 engine. Remove the key."),
    "ngram_prompt_lookup_max": _speculative('method = "ngram", prompt_lookup_max = …'),
    "ngram_prompt_lookup_min": _speculative('method = "ngram", prompt_lookup_min = …'),
    "num_lookahead_slots": Removal("The scheduler works it out from the speculation. Remove the key."),
    "num_redundant_experts": _EPLB,
    "num_scheduler_steps": Removal(
        "Multi-step scheduling went with the V0 engine; async_scheduling hides the same gaps.", "async_scheduling"
    ),
    "num_speculative_tokens": _speculative("num_speculative_tokens = …"),
    "override_attention_dtype": Removal("It was meant for one accelerator and had no general use. Remove the key."),
    "override_neuron_config": Removal("Options of one platform go into a general table.", "additional_config"),
    "override_pooler_config": Removal("It was renamed.", "pooler_config"),
    "preemption_mode": Removal("The V1 engine always recomputes. Remove the key."),
    "prompt_adapters": _PROMPT_ADAPTER,
    "qlora_adapter_name_or_path": Removal(_NO_EFFECT),
    "rope_scaling": Removal("It belongs to the model's own configuration.", "hf_overrides"),
    "rope_theta": Removal("It belongs to the model's own configuration.", "hf_overrides"),
    "scheduler_delay_factor": Removal("The V1 scheduler does not delay prompts. Remove the key."),
    "spec_decoding_acceptance_method": _speculative("…"),
    "speculative_disable_by_batch_size": _speculative("disable_by_batch_size = …"),
    "speculative_disable_mqa_scorer": _speculative("…"),
    "speculative_draft_tensor_parallel_size": _speculative("draft_tensor_parallel_size = …"),
    "speculative_max_model_len": _speculative("max_model_len = …"),
    "speculative_model": _speculative('model = "…", num_speculative_tokens = …'),
    "speculative_model_quantization": _speculative("quantization = …"),
    "swap_space": Removal(
        "It had no effect on the V1 engine, which recomputes instead of swapping to the CPU. Remove the key."
    ),
    "task": Removal("It was split into runner (generate or pooling) and convert.", "runner"),
    "tokenizer_pool_extra_config": _TOKENIZER_POOL,
    "tokenizer_pool_size": _TOKENIZER_POOL,
    "tokenizer_pool_type": _TOKENIZER_POOL,
    "typical_acceptance_sampler_posterior_alpha": _speculative("…"),
    "typical_acceptance_sampler_posterior_threshold": _speculative("…"),
    "use_gpu_for_pooling_score": Removal("It was renamed.", "enable_flash_late_interaction"),
    "use_v2_block_manager": Removal(_NO_EFFECT),
}
