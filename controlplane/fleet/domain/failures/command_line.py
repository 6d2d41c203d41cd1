"""Failures of the command line and of contradicting values. vLLM exits within seconds, before any GPU work."""

import re
from collections.abc import Iterable

from ..config_values import KEY_OF_FLAG, Content, value
from ..texts import gettext_noop as _
from .rule import Fix, Match, Rule, Scene, rule, set_to, whole

# flag -> (release that lost it, what to do instead), from the releases' sources; the catalogue is in `configs`.
REMOVED_FLAGS = {
    "swap_space": ("0.18", "it had no effect since the V1 engine: delete it"),
    "disable_log_requests": ("0.17", "requests are not logged unless enable_log_requests is set: delete it"),
    "task": ("0.13", "use runner (auto, generate, pooling) and convert"),
    "enable_reasoning": ("0.10", "reasoning_parser alone switches it on: delete it"),
    "use_v2_block_manager": ("0.10", "it had no effect: delete it"),
    "device": ("0.10", "vLLM finds the device itself: delete it"),
    "num_scheduler_steps": ("0.10.2", "the V1 engine has no multi-step scheduling: delete it"),
    "preemption_mode": ("0.11", "the V1 engine always recomputes: delete it"),
    "max_seq_len_to_capture": ("0.11", "use cudagraph_capture_sizes or max_cudagraph_capture_size"),
    "guided_decoding_backend": ("0.11", "use structured_outputs_config with the key backend"),
    "scheduler_delay_factor": ("0.11", "delete it"),
    "rope_scaling": ("0.11.2", "use hf_overrides"),
    "rope_theta": ("0.11.2", "use hf_overrides"),
    "cuda_graph_sizes": ("0.13", "use cudagraph_capture_sizes"),
    "max_num_partial_prefills": ("0.27", "delete it"),
    "max_long_partial_prefills": ("0.27", "delete it"),
    "calculate_kv_scales": ("0.28", "delete it"),
    "speculative_model": ("0.8.5", "use speculative_config"),
    "num_speculative_tokens": ("0.8.5", "use speculative_config"),
}


def key_of(flag: str, content: Content) -> str:
    """The config key behind a flag: --tokenizer=X gives tokenizer_path.

    `--no-` may also belong to the name of an option; what the config holds decides.
    """
    bare = flag.split("=", maxsplit=1)[0].split("/", maxsplit=1)[0].lstrip("-").replace("-", "_")
    bare = KEY_OF_FLAG.get(bare, bare)
    positive = bare.removeprefix("no_")
    return positive if positive != bare and value(content, positive) is not None else bare


def _flags(found: Match) -> list[str]:
    return re.findall(r"(?<!\S)--[A-Za-z][\w.-]*", found["rest"])


def _drop_flags(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("remove", key_of(flag, scene.content)) for flag in _flags(found))


def _unknown_flag(found: Match, scene: Scene) -> dict[str, str]:
    flags = _flags(found)
    keys = [key_of(flag, scene.content) for flag in flags]
    known = [REMOVED_FLAGS[key] for key in keys if key in REMOVED_FLAGS]
    reason = f" It was removed in vLLM {known[0][0]}; {known[0][1]}." if known else ""
    return {"flags": ", ".join(flags) or found["rest"].strip(), "reason": reason}


def _drop_flag(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("remove", key_of(found["flag"], scene.content)),)


def _fit_budget(found: Match, scene: Scene) -> Iterable[Fix]:
    context = whole(found["longest"])
    return (
        Fix("set", "enable_chunked_prefill", True),
        Fix("raise", "max_num_batched_tokens", context),
        Fix("lower", "max_model_len", whole(found["budget"])),
    )


def _fit_sequences(found: Match, scene: Scene) -> Iterable[Fix]:
    budget, sequences = whole(found["budget"]), whole(found["sequences"])
    return (Fix("raise", "max_num_batched_tokens", sequences), Fix("lower", "max_num_seqs", budget))


def _fit_model(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("lower", "max_model_len", whole(found["derived"])),)


def _derived(found: Match, scene: Scene) -> dict[str, str]:
    return {"derived_shown": str(whole(found["derived"]))}


RULES: tuple[Rule, ...] = (
    rule(
        "unknown_flag",
        r"unrecognized arguments: (?P<rest>.+)",
        _("This vLLM does not know {flags}.{reason}"),
        _("Remove it, or choose an engine whose version has it."),
        fixes=_drop_flags,
        params=_unknown_flag,
    ),
    rule(
        "invalid_choice",
        r"argument (?P<flag>--[\w-]+)\S*: invalid choice: (?P<value>'[^']*'|\S+) \(choose from (?P<choices>.*)\)",
        _("{flag} does not take {value}."),
        _("Use one of: {choices}."),
        fixes=_drop_flag,
    ),
    rule(
        "invalid_value",
        r"argument (?P<flag>--[\w.-]+)\S*: (?P<why>.*(?:cannot be converted|invalid \S+ value"
        r"|expected .*argument|cannot set).*)",
        _("The value of {flag} cannot be read: {why}"),
        _('Correct the value. JSON options want one JSON text, such as {{"image": 2}}.'),
        fixes=_drop_flag,
    ),
    rule(
        "ambiguous_flag",
        r"error: ambiguous option: (?P<flag>--\S+) could match (?P<choices>.+)",
        _("{flag} is the beginning of several options: {choices}."),
        _("Write the option out in full."),
    ),
    rule(
        "missing_argument",
        r"error: the following arguments are required: (?P<flags>.+)",
        _("The command line lacks {flags}."),
        _("Add the missing key to the config."),
    ),
    rule(
        "budget_below_context",
        r"max_num_batched_tokens \((?P<budget>\d+)\) is smaller than max_model_len \((?P<longest>\d+)\)",
        _(
            "max_num_batched_tokens ({budget}) is below max_model_len ({longest}) while chunked prefill is off, "
            "so a long prompt could never run."
        ),
        _("Switch chunked prefill on, or raise max_num_batched_tokens to max_model_len."),
        fixes=_fit_budget,
    ),
    rule(
        "budget_below_sequences",
        r"max_num_batched_tokens \((?P<budget>\d+)\) must be greater than or equal to max_num_seqs "
        r"\((?P<sequences>\d+)\)",
        _(
            "max_num_batched_tokens ({budget}) is below max_num_seqs ({sequences}): each running "
            "request needs one token a step."
        ),
        _("Raise max_num_batched_tokens, or lower max_num_seqs."),
        fixes=_fit_sequences,
    ),
    rule(
        "context_above_model",
        r"max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\([^)]*?=(?P<derived>\d+(?:\.\d+)?)",
        _("max_model_len {asked} is longer than the {derived_shown} tokens the model was made for."),
        _("Lower max_model_len, or set the rope parameters the model card gives with hf_overrides."),
        fixes=_fit_model,
        params=_derived,
    ),
    rule(
        "tool_parser_missing",
        r"(?:enable-auto-tool-choice requires --tool-call-parser"
        r"|requires --enable-auto-tool-choice and --tool-call-parser)",
        _("Automatic tool choice is on, but no tool_call_parser is named."),
        _(
            "Set tool_call_parser to the model's family (hermes, llama3_json, mistral, ...), or "
            "switch enable_auto_tool_choice off."
        ),
        fixes=set_to("enable_auto_tool_choice", False),
    ),
    rule(
        "invalid_parser",
        r"invalid (?P<kind>tool call|reasoning) parser: (?P<value>\S+) \(chose from (?P<choices>.*)\)",
        _("This vLLM has no {kind} parser {value}."),
        _("Use one of: {choices}."),
    ),
    rule(
        "v1_unsupported",
        r"(?:NotImplementedError|ValueError|AssertionError).*?(?P<what>\S+(?: \S+){0,4}) (?:is"
        r"|are) not supported (?:by|in|on) (?:the )?V1",
        _("The V1 engine does not support {what}."),
        _("Remove that setting: the older engine is gone from vLLM 0.11."),
    ),
    rule(
        "v1_unsupported",
        r"Concurrent Partial Prefill",
        _("The V1 engine runs one partial prefill at a time only; max_num_partial_prefills above 1 is refused."),
        _("Remove max_num_partial_prefills."),
        fixes=lambda found, scene: (
            Fix("remove", "max_num_partial_prefills"),
            Fix("remove", "max_long_partial_prefills"),
        ),
    ),
    rule(
        "port_variable_is_uri",
        r"VLLM_PORT.{0,80}appears to be a URI",
        _("The environment variable VLLM_PORT holds an address: Kubernetes sets it for a Service named vllm."),
        _("Rename the Service or set enableServiceLinks to false; VLLM_PORT is internal and not the HTTP port."),
    ),
    rule(
        "unknown_environment",
        r"[Uu]nknown vLLM environment variable(?:s)? detected: (?P<what>.+)",
        _("vLLM does not know the environment variable {what} and was told to refuse such."),
        _("Remove the variable, or fail_on_environ_validation."),
        fixes=lambda found, scene: (Fix("remove", "fail_on_environ_validation"),),
    ),
    rule(
        "release_bug",
        r"AttributeError: .?SpeculativeConfig.? object has no attribute .?get",
        _("A mistake in this vLLM release breaks speculative decoding with n-grams."),
        _("Use a newer engine (0.11 or later), or remove speculative_config."),
        fixes=lambda found, scene: (Fix("remove", "speculative_config"),),
    ),
)
