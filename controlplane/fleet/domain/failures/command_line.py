"""Failures of the command line and of contradicting values. vLLM exits within seconds, before any GPU work."""

import re
from collections.abc import Iterable, Iterator

from controlplane.configs.domain.catalogue import FlagHistory, catalogue
from controlplane.configs.domain.problem import Edit
from controlplane.configs.domain.replacing import edits_instead_of

from ..config_values import KEY_OF_FLAG, Content, section_of, value
from ..texts import gettext_noop as _
from .rule import Fix, Match, Rule, Scene, rule, set_to, whole


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


def _unknown_flag(found: Match, scene: Scene) -> dict[str, str]:
    flags = _flags(found)
    reasons = "".join(f" {told}" for flag in flags if (told := _why_gone(flag, is_alone=len(flags) == 1)))
    return {"flags": ", ".join(flags) or found["rest"].strip(), "reason": reasons}


def _why_gone(flag: str, *, is_alone: bool) -> str:
    """When the catalogue last had the option and why it went; "" for one that no release lost."""
    history = _history(flag)
    if history is None or history.removed_in is None:
        return ""
    return f"{'It' if is_alone else flag} was removed in vLLM {history.removed_in}. {history.note}"


def _history(flag: str) -> FlagHistory | None:
    known = catalogue()
    dest = known.dest_of(flag.split("=", maxsplit=1)[0])
    return known.history(dest) if dest else None


def _drop_or_replace(found: Match, scene: Scene) -> Iterator[Fix]:
    for flag in _flags(found):
        key = key_of(flag, scene.content)
        written = _instead_of(key, flag, scene.content)
        yield Fix("replace", key, also=written) if written else Fix("remove", key)


def _instead_of(key: str, flag: str, content: Content) -> tuple[Edit, ...]:
    """What `configs` would write for a removed option. The engine's release is not in such a log, so it has to be the
    same for the release that lost the option and for the newest."""
    history, section = _history(flag), section_of(key)
    if history is None or history.removed_in is None or key not in content.get(section, {}):
        return ()
    known = catalogue()
    first, last = (
        edits_instead_of(section, key, content=content, flags=known.flags(release), release=release)
        for release in (history.removed_in, known.releases[-1])
    )
    return tuple(edit for edit in first if edit[2] is not None) if first == last else ()


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
        fixes=_drop_or_replace,
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
