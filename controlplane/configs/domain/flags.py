"""One option of `vllm serve`, and how to read options from the list that a build reports."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# How a kind takes its text: int, float, str; `size` is a count that may be written 1k, 25.6k or 2M; `size_or_auto` also
# takes -1 and auto; `json` a JSON text; `str_or_json` either; `list[…]` several (nargs None: by repeating the flag).
SCALARS = frozenset({"int", "float", "str", "size", "size_or_auto", "json", "str_or_json"})

_KIND_OF_CONVERTER = {
    "int": "int",
    "float": "float",
    "str": "str",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size_or_auto",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "str_or_json",
}
_SUPPRESSED = "==SUPPRESS=="
_DEPRECATED = re.compile(r"^\W?deprecated\b|\bis deprecated\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of one vLLM release.

    `flags` are all option strings, `--no-…` forms included; empty for the positional model. `default` is what vLLM uses
    when the option is absent; "<ClassName>" stands for a config object with defaults of its own.
    """

    dest: str
    flags: tuple[str, ...]
    kind: str
    nargs: str | int | None = None
    choices: tuple[str | int, ...] | None = None
    default: Any = None
    help_line: str = ""
    deprecated: bool = False

    @property
    def option(self) -> str:
        """The spelling used on command lines: the first long one, `--tensor-parallel-size`."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0] if self.flags else self.dest)

    @property
    def negative(self) -> str | None:
        """How this release turns the switch off: `--no-x`, from 0.33 also `--disable-x` for `--enable-x`."""
        return next((flag for flag in self.flags if flag in _inverses(self.option)), None)

    @property
    def only_turns_on(self) -> bool:
        """A switch that is on by itself and has no spelling for off."""
        return self.kind == "bool" and self.default is True and self.negative is None and self.nargs != "?"

    @property
    def takes_many(self) -> bool:
        return self.kind.startswith("list[")

    @property
    def scalar_kind(self) -> str:
        """The kind of one value: `int` of `list[int]`."""
        return self.kind[5:-1] if self.takes_many else self.kind

    @property
    def names(self) -> frozenset[str]:
        """Every name it may be written by in a config, with underscores."""
        return frozenset({self.dest, *(plain_name(flag) for flag in self.flags if self.is_name(flag))})

    def is_name(self, flag: str) -> bool:
        """Whether a spelling names the option, and is no short form of it nor its opposite."""
        is_opposite = any(flag in _inverses(other) for other in self.flags if other != flag)
        return flag in self.flags and flag.startswith("--") and (flag == self.option or not is_opposite)


def _inverses(option: str) -> set[str]:
    """Spellings that would turn a switch off."""
    pairs = (("--enable-", "--disable-"), ("--disable-", "--enable-"), ("--", "--no-"))
    return {inverse + option.removeprefix(prefix) for prefix, inverse in pairs if option.startswith(prefix)}


def plain_name(name: str) -> str:
    """`--max-num-seqs`, `max-num-seqs` and `max_num_seqs` are one name."""
    return name.removeprefix("--").replace("-", "_")


def first_sentence(text: str, limit: int = 160) -> str:
    """The first sentence on one line; cut at `limit` characters."""
    line = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    sentence = re.split(r"(?<=[.!?])\s", line)[0]
    return sentence if len(sentence) <= limit else sentence[: limit - 1].rstrip() + "…"


def says_deprecated(help_text: str) -> bool:
    """Whether a help text declares its own option deprecated (and not, say, deprecated metrics)."""
    return bool(_DEPRECATED.search(first_sentence(help_text)))


def from_record(record: Mapping[str, Any], known: Flag | None = None) -> Flag:
    """A Flag from one record of an option list: the probe's (`kind` given) or a live build's (`parser_type`).

    `known` is the catalogue's idea of the same option: it says the kind where the build's list does not, and it has the
    help line (a build prints only half of its help unless it was started with --help).
    """
    help_text = str(record.get("help") or "")
    # "None" is how up to 0.30 a release lists that an option may be absent; given as a value it is refused.
    choices = [choice for choice in record.get("choices") or () if choice not in (None, "None")]
    default = record.get("default")
    return Flag(
        dest=str(record["dest"]),
        flags=tuple(record.get("flags") or ()),
        kind=str(record.get("kind") or _live_kind(record, known)),
        nargs=record.get("nargs"),
        choices=tuple(choices) or None,
        default=None if default == _SUPPRESSED else default,
        help_line=known.help_line if known else first_sentence(help_text),
        deprecated=bool(record.get("deprecated")) or says_deprecated(help_text),
    )


def _live_kind(record: Mapping[str, Any], known: Flag | None) -> str:
    if record.get("nargs") == 0 or record.get("is_bool_pair"):
        return "bool"
    many = record.get("nargs") in ("+", "*") or isinstance(record.get("nargs"), int)
    many = many or record.get("action") == "_AppendAction"
    scalar = _KIND_OF_CONVERTER.get(str(record.get("parser_type")))
    if scalar is None and known is not None and known.takes_many == many and known.kind != "bool":
        scalar = known.scalar_kind
    scalar = scalar or _kind_of_annotation(str(record.get("annotation") or ""))
    return f"list[{scalar}]" if many else scalar


def _kind_of_annotation(annotation: str) -> str:
    if re.search(r"\bdict\b|Config\b", annotation):
        return "json"
    if re.search(r"\bstr\b|Literal", annotation):
        return "str"
    return next((kind for kind in ("int", "float") if re.search(rf"\b{kind}\b", annotation)), "str")
