"""How configs and their keys are named by people: default names, names of keys, values typed as text."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from .catalogue import catalogue
from .flags import plain_name
from .keys import BY_PLACE, ENGINE, KEYS, SECTIONS, key_of_dest

MAX_NAME = 100
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Words that addresses of pages and of the API have for themselves, beside the names of configs.
RESERVED = frozenset({"check", "flags", "import", "versions", "what-breaks"})
_TEXT_KINDS = frozenset({"str", "path", "names"})


def name_for(content: Mapping[str, Mapping[str, Any]]) -> str:
    """A config's name out of its first served model name, else of the last part of its model's path."""
    served = content.get("server", {}).get("served_model_name")
    first = served[0] if isinstance(served, list) and served else served
    model = str(content.get("model", {}).get("model_path") or "").rstrip("/")
    for wanted in (str(first or ""), model.rpartition("/")[2]):
        slug = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")[:MAX_NAME].strip("-")
        if slug:
            return slug if is_name(slug) else f"config-{slug}"[:MAX_NAME]
    return "config"


def is_name(text: str) -> bool:
    """Letters, digits, - and _; not only digits, which would be read as the number of a config."""
    is_shaped = bool(_NAME.fullmatch(text)) and len(text) <= MAX_NAME and not text.isdecimal()
    return is_shaped and text not in RESERVED


def place_of(text: str) -> tuple[str, str]:
    """(section, key) of `batching.max_num_seqs`, `[batching] max_num_seqs`, `max_num_seqs` or `--max-num-seqs`.

    What has no section of its own is an option of [engine].
    """
    section, separator, key = text.strip().replace("[", "").replace("] ", ".").partition(".")
    if separator and section in SECTIONS:
        return section, key.strip() if section != ENGINE else plain_name(key.strip())
    plain = plain_name(text.strip())
    own = key_of_dest(plain)
    return (own.section, own.name) if own else (ENGINE, plain)


def value_of(text: str, place: tuple[str, str]) -> Any:
    """A value typed by a person, as TOML reads it; text needs no quotes; nothing means that the key is removed."""
    text = text.strip()
    if not text:
        return None
    kind = _kind_of(place)
    if kind in _TEXT_KINDS and not text.startswith(('"', "'", "[")):
        return text
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if list(read) == ["value"] else text


def _kind_of(place: tuple[str, str]) -> str:
    if place in BY_PLACE:
        return BY_PLACE[place].kind
    known = catalogue()
    dest = known.dest_of(place[1])
    flags = (known.flags(release).get(dest or "") for release in reversed(known.releases))
    return next((flag.kind for flag in flags if flag is not None), "")


def key_names() -> list[str]:
    """Every key that a config can have, as `place_of` reads it: the fixed ones, then the newest release's options."""
    fixed = [f"{key.section}.{key.name}" for key in KEYS]
    known = catalogue().flags(catalogue().releases[-1])
    return fixed + sorted(f"{ENGINE}.{dest}" for dest in known if key_of_dest(dest) is None)
