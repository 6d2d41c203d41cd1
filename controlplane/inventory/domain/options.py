"""One build's arguments of `vllm serve`, out of what its own parser told (`protocol.engines.EngineOptions.args`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NOT_GIVEN = "==SUPPRESS=="  # argparse's way to say that there is no default
_PLAIN = {"int": "int", "float": "float", "str": "str", "bool": "bool", "dict": "json"}
_OF_PARSER = {
    "human_readable_int": "int",
    "human_readable_int_or_auto": "int",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "json",
}


@dataclass(frozen=True, slots=True)
class Option:
    """`kind`: bool, int, float, str or json. `default` is a JSON value; `choices` may be empty."""

    dest: str
    flags: list[str]
    group: str
    kind: str
    takes_several: bool
    choices: list[Any]
    default: Any
    is_deprecated: bool
    help: str

    @property
    def default_text(self) -> str:
        """The default as one would write it in a config; empty when there is none."""
        if self.default is None:
            return ""
        return self.default if isinstance(self.default, str) else json.dumps(self.default, ensure_ascii=False)

    def mentions(self, wanted: str) -> bool:
        """Whether name, choices or help contain `wanted`; `_`, `-` and case make no difference."""
        words = [self.dest, *self.flags, *map(str, self.choices), self.help]
        return _folded(wanted).lstrip("-") in _folded(" ".join(words))


def option(entry: Mapping[str, Any]) -> Option:
    """Read one entry; what an older or newer build does not tell is empty."""
    default = entry.get("default")
    return Option(
        dest=str(entry.get("dest", "")),
        flags=list(entry.get("flags") or []),
        group=str(entry.get("group") or ""),
        kind=kind_of(entry),
        takes_several=entry.get("nargs") in {"+", "*"},
        choices=list(entry.get("choices") or []),
        default=None if default == _NOT_GIVEN else default,
        is_deprecated=bool(entry.get("deprecated")),
        help=str(entry.get("help") or ""),
    )


def kind_of(entry: Mapping[str, Any]) -> str:
    """The parser's own type where it is a plain one, else the annotation of the field behind it, else text."""
    if entry.get("is_bool_pair") or str(entry.get("action", "")).startswith("_StoreTrue"):
        return "bool"
    parser = str(entry.get("parser_type") or "")
    return _PLAIN.get(parser) or _OF_PARSER.get(parser) or _of_annotation(str(entry.get("annotation") or ""))


def _of_annotation(annotation: str) -> str:
    """ "int | None" → int, "<class 'str'>" → str, "dict[str, Any]" → json, "list[int] | None" → int."""
    first = annotation.partition("|")[0].strip().removeprefix("<class '").removesuffix("'>")
    first = first.removeprefix("Optional[").removeprefix("list[").rstrip("]")
    if first.startswith(("dict", "vllm.")):
        return "json"
    return _PLAIN.get(first, "str")


def _folded(text: str) -> str:
    return text.strip().lower().replace("_", "-")
