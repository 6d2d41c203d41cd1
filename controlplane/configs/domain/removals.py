"""Why options of `vllm serve` went away and what to write instead.

When an option came and went is in the catalogue; the reason is in no option list and is kept here by hand. Notes and
rewrites were checked against vLLM's own sources of 0.8.2, 0.8.5, 0.9.2, 0.10.2, 0.11.0, 0.11.2, 0.12.0, 0.17.1, 0.20.0
and 0.33.0: help texts, the warnings and conversions that the last releases with an option print and make
(`engine/arg_utils.py`, `config/`), and the fields of the tables that took options in. Release notes were not read.
Where the sources give no reason, the note says only what is the case.
"""

from dataclasses import dataclass

from .rewrites import (
    ROPE_UNTIL,
    Rewrite,
    Write,
    ask,
    ask_if_on,
    drop,
    drop_if_on,
    if_off,
    if_on,
    if_on_structured,
    into,
    of_draft_model,
    of_graph_sizes,
    of_guided_backend,
    of_pooler,
    of_rope_scaling,
    of_task,
    rename,
)


@dataclass(frozen=True, slots=True)
class Removal:
    """`note` is a full sentence; `replacement` the option that took over, if any; `rewrite` what a value becomes."""

    note: str
    replacement: str | None = None
    rewrite: Rewrite = drop


_V0 = Removal("It belonged to the V0 engine.")
_NO_EFFECT = Removal("It had no effect any more.")
_TOKENIZER_POOL = Removal("Tokenizer pools were removed.")
_MULTI_STEP = "Multi-step scheduling belonged to the V0 engine"
_SPECULATIVE = "Speculative decoding is one table now: speculative_config = {{{example}}}."
_GUIDED = "Guided decoding became structured outputs, one table with its own backend key."
_ROPE = "It belongs to the model's own configuration; how it is written there depends on the build's transformers."
_PARTIAL_PREFILLS = Removal(
    "The V1 engine never ran several partial prefills at once. Bound long prompts with long_prefill_token_threshold.",
    "long_prefill_token_threshold",
)


def _speculative(key: str, *, until: str | None = None) -> Removal:
    return Removal(
        _SPECULATIVE.format(example=f"{key} = …"), "speculative_config", into("speculative_config", key, until=until)
    )


def _eplb(key: str) -> Removal:
    return Removal("The single eplb_ options are one table now.", "eplb_config", into("eplb_config", key))


def _guided(rewrite: Rewrite) -> Removal:
    return Removal(_GUIDED, "structured_outputs_config", rewrite)


def _prompt_adapter(rewrite: Rewrite) -> Removal:
    return Removal("Prompt adapters were removed; LoRA adapters are not.", "enable_lora", rewrite)


REMOVALS: dict[str, Removal] = {
    "calculate_kv_scales": Removal(
        "Scales of an fp8 KV cache come from the checkpoint, and are 1.0 where it has none.", rewrite=ask_if_on
    ),
    "cuda_graph_sizes": Removal("It was renamed.", "cudagraph_capture_sizes", of_graph_sizes),
    "device": Removal("The device follows from the installed vLLM build."),
    "disable_async_output_proc": _V0,
    "disable_frontend_multiprocessing": _V0,
    "disable_log_requests": Removal(
        "Requests are not logged any more unless enable_log_requests = true is written.",
        "enable_log_requests",
        if_off(Write("enable_log_requests", True)),
    ),
    "disable_logprobs_during_spec_decoding": _speculative("disable_logprobs", until="0.10.2"),
    "disable_mm_preprocessor_cache": Removal(
        "The cache has a size now, and 0 is off.", "mm_processor_cache_gb", if_on(Write("mm_processor_cache_gb", 0))
    ),
    "enable_bf16x3_router_gemm": Removal("It was experimental and lived for a few releases only."),
    "enable_lora_bias": Removal("Biases in LoRA adapters are not supported any more.", rewrite=ask_if_on),
    "enable_mamba_fine_grained_prefix_cache": Removal("It lived for one release only."),
    "enable_multimodal_encoder_data_parallel": Removal(
        'It is mm_encoder_tp_mode = "data" now.', "mm_encoder_tp_mode", if_on(Write("mm_encoder_tp_mode", "data"))
    ),
    "enable_prompt_adapter": _prompt_adapter(ask_if_on),
    "enable_reasoning": Removal("Naming a reasoning_parser switches reasoning on.", "reasoning_parser", drop_if_on),
    "eplb_log_balancedness": _eplb("log_balancedness"),
    "eplb_step_interval": _eplb("step_interval"),
    "eplb_window_size": _eplb("window_size"),
    "expand_tools_even_if_tool_choice_none": Removal(
        "Tools are in the prompt by default; the opposite has its own option.",
        "exclude_tools_when_tool_choice_none",
        if_off(Write("exclude_tools_when_tool_choice_none", True)),
    ),
    "guided_decoding_backend": _guided(of_guided_backend),
    "guided_decoding_disable_additional_properties": _guided(if_on_structured("disable_additional_properties")),
    "guided_decoding_disable_any_whitespace": _guided(if_on_structured("disable_any_whitespace")),
    "guided_decoding_disable_fallback": _guided(if_on_structured("disable_fallback")),
    "logits_processor_pattern": Removal(
        "Logits processors are loaded at start-up by name, not chosen by requests.", "logits_processors", ask
    ),
    "long_lora_scaling_factors": Removal("LongLoRA is not supported any more.", rewrite=ask),
    "lora_extra_vocab_size": Removal("Adapters cannot add to the vocabulary any more."),
    "max_long_partial_prefills": _PARTIAL_PREFILLS,
    "max_num_partial_prefills": _PARTIAL_PREFILLS,
    "max_prompt_adapter_token": _prompt_adapter(drop),
    "max_prompt_adapters": _prompt_adapter(drop),
    "max_seq_len_to_capture": Removal(
        "It limited the V0 engine's CUDA graphs. The V1 engine captures by batch size.", "cudagraph_capture_sizes"
    ),
    "multi_step_stream_outputs": Removal(f"{_MULTI_STEP}."),
    "ngram_prompt_lookup_max": _speculative("prompt_lookup_max"),
    "ngram_prompt_lookup_min": _speculative("prompt_lookup_min"),
    "num_lookahead_slots": Removal("The scheduler works it out from the speculation."),
    "num_redundant_experts": _eplb("num_redundant_experts"),
    "num_scheduler_steps": Removal(f"{_MULTI_STEP}; async_scheduling hides the same gaps.", "async_scheduling"),
    "num_speculative_tokens": _speculative("num_speculative_tokens"),
    "override_attention_dtype": Removal("Only ROCm builds heeded it."),
    "override_neuron_config": Removal("Neuron devices are not supported by vLLM itself any more.", rewrite=ask_if_on),
    "override_pooler_config": Removal("It was renamed.", "pooler_config", of_pooler),
    "preemption_mode": Removal("The V1 engine always recomputes."),
    "prompt_adapters": _prompt_adapter(ask),
    "qlora_adapter_name_or_path": _NO_EFFECT,
    "rope_scaling": Removal(_ROPE, "hf_overrides", of_rope_scaling),
    "rope_theta": Removal(_ROPE, "hf_overrides", into("hf_overrides", "rope_theta", until=ROPE_UNTIL)),
    "scheduler_delay_factor": Removal("The V1 scheduler does not delay prompts."),
    "spec_decoding_acceptance_method": _speculative("acceptance_method", until="0.9.2"),
    "speculative_disable_by_batch_size": _speculative("disable_by_batch_size", until="0.12.0"),
    "speculative_disable_mqa_scorer": _speculative("disable_mqa_scorer", until="0.9.2"),
    "speculative_draft_tensor_parallel_size": _speculative("draft_tensor_parallel_size"),
    "speculative_max_model_len": _speculative("max_model_len"),
    "speculative_model": Removal(
        _SPECULATIVE.format(example='model = "…", num_speculative_tokens = …'), "speculative_config", of_draft_model
    ),
    "speculative_model_quantization": _speculative("quantization"),
    "swap_space": Removal("It had no effect on the V1 engine, which recomputes instead of swapping to the CPU."),
    "task": Removal("It was split into runner (generate or pooling) and convert.", "runner", of_task),
    "tokenizer_pool_extra_config": _TOKENIZER_POOL,
    "tokenizer_pool_size": _TOKENIZER_POOL,
    "tokenizer_pool_type": _TOKENIZER_POOL,
    "typical_acceptance_sampler_posterior_alpha": _speculative("posterior_alpha", until="0.9.2"),
    "typical_acceptance_sampler_posterior_threshold": _speculative("posterior_threshold", until="0.9.2"),
    # The help text went over unchanged; what was off by default is on.
    "use_gpu_for_pooling_score": Removal(
        "It was renamed.", "enable_flash_late_interaction", rename("enable_flash_late_interaction")
    ),
    "use_v2_block_manager": _NO_EFFECT,
}
