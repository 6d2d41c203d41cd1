"""Whether a value fits a kind, in words for people. Used for the fixed keys and for options under [engine]."""

import json
import math
import re
from collections.abc import Callable
from datetime import date, time
from typing import Any

from .keys import Key

UNSET_WORDS = frozenset({"null", "none"})
_SIZE = re.compile(r"\d+(\.\d+)?[kmgtKMGT]?")
_EXPECTED = {
    "str": "text in quotes",
    "path": "text in quotes",
    "names": "text in quotes, or a list of such",
    "int": "a whole number",
    "size": 'a whole number, or text like "8k"',
    "size_or_auto": 'a whole number, text like "8k", -1 or "auto"',
    "float": "a number",
    "bool": "true or false",
    "json": "a table, a list or text that is JSON",
    "str_or_json": "text or a table",
}


def is_unset(value: Any) -> bool:
    """The texts "null" and "none" mean that nothing is set."""
    return isinstance(value, str) and value.strip().lower() in UNSET_WORDS


def described(value: Any) -> str:
    """What kind of value this is, for messages; never the value itself."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan or inf"
    names = {int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def expected(kind: str) -> str:
    """What to write for a kind."""
    return _EXPECTED[kind]


def fits(value: Any, kind: str) -> bool:
    """Whether `value`, as read from TOML, can stand for an option of this kind."""
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    if isinstance(value, (date, time)) or (isinstance(value, float) and not math.isfinite(value)):
        return False
    return _FITS.get(kind, _is_scalar)(value)


def out_of_range(value: Any, key: Key) -> str | None:
    """What the bounds are, if `value` lies outside them."""
    if isinstance(value, str) and key.kind in {"str", "path", "names"}:
        return "not empty" if not value.strip() else None
    if not isinstance(value, (int, float)):
        return None
    unit = f" {key.unit}" if key.unit else ""
    if key.above is not None and key.high is not None and not key.above < value <= key.high:
        return f"above {key.above:g} and at most {key.high:g}"
    if key.low is not None and key.high is not None and not key.low <= value <= key.high:
        return f"between {key.low:g} and {key.high:g}"
    if key.low is not None and value < key.low:
        return f"at least {key.low:g}{unit}"
    return None


def canonical(value: Any, kind: str) -> Any:
    """One form for one meaning, so that digests agree: 1 and 1.0 for a float, a list of one name and the name."""
    if kind == "float" and isinstance(value, (int, float)):
        return float(value)
    if kind == "names" and isinstance(value, list) and len(value) == 1:
        return value[0]
    return value


def has_dates(value: Any) -> bool:
    """Dates and numbers that are not finite have no JSON form."""
    if isinstance(value, dict):
        return any(has_dates(inner) for inner in value.values())
    if isinstance(value, list):
        return any(has_dates(inner) for inner in value)
    return isinstance(value, (date, time)) or (isinstance(value, float) and not math.isfinite(value))


def _is_size(text: str, kind: str) -> bool:
    return bool(_SIZE.fullmatch(text.strip())) or (kind == "size_or_auto" and text.strip().lower() in {"auto", "-1"})


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float))


_FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int),
    "float": lambda value: isinstance(value, (int, float)),
    "size": lambda value: isinstance(value, int) or (isinstance(value, str) and _is_size(value, "size")),
    "size_or_auto": lambda value: (
        isinstance(value, int) or (isinstance(value, str) and _is_size(value, "size_or_auto"))
    ),
    "path": lambda value: isinstance(value, str),
    "names": lambda value: isinstance(value, str) or (_is_list_of_text(value) and bool(value)),
    "json": lambda value: isinstance(value, (dict, list, int)) or (isinstance(value, str) and _is_json(value)),
    "str_or_json": lambda value: isinstance(value, (str, dict)),
}
