"""From the tree of a file to canonical content: sections, keys, types and ranges of mission section 1."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.protocol.keys import is_sendable

from .catalogue import catalogue
from .flags import plain_name
from .keys import BY_PLACE, ENGINE, KEYS, MANAGED, SECRET_OPTIONS, SECTIONS, Key, key_of_dest
from .problem import Problem
from .syntax import Tree, label, nearest
from .values import canonical, described, expected, fits, has_dates, is_unset, out_of_range

SECRET_PREFIX = "secret:"  # noqa: S105 - marks references
# Stands in content for a key that was given in clear and has no reference yet.
UNSTORED_SECRET = "secret:?"  # noqa: S105 - a placeholder
_SECRET_REFERENCE = re.compile(r"secret:[A-Za-z0-9][A-Za-z0-9._/@-]*|secret:\?")

Content = dict[str, dict[str, Any]]


def content_of(tree: Tree) -> tuple[Content, list[Problem]]:
    """section → key → value for all that is right and set, and what is not right."""
    content: Content = {}
    problems: list[Problem] = []
    for section, body in tree.values.items():
        if section not in SECTIONS or not isinstance(body, dict):
            problems.append(_no_section(tree, section, body))
            continue
        keep = content.setdefault(section, {})
        check = _engine_options if section == ENGINE else _fixed_keys
        for name, found in check(tree, section, body):
            problems += found
            if not any(problem.is_error for problem in found):
                keep.update(_kept(section, name, body[name]))
    return {section: content[section] for section in SECTIONS if content.get(section)}, problems


def secret_text(tree: Tree) -> str | None:
    """The api_key that stands in the file in clear, if one does."""
    server = tree.values.get("server")
    value = server.get("api_key") if isinstance(server, dict) else None
    if not isinstance(value, str) or is_unset(value) or not value.strip() or value.startswith(SECRET_PREFIX):
        return None
    return value


def _kept(section: str, name: str, value: Any) -> Mapping[str, Any]:
    if section == ENGINE:
        plain = plain_name(name)
        return {} if _is_engine_unset(plain, value) else {plain: value}
    if is_unset(value):
        return {}
    if name == "api_key" and not value.startswith(SECRET_PREFIX):
        return {name: UNSTORED_SECRET}
    return {name: canonical(value, BY_PLACE[section, name].kind)}


def _no_section(tree: Tree, section: str, body: Any) -> Problem:
    line, column = tree.place(section)
    key = next((key for key in KEYS if key.name == section), None)
    if key is not None and not isinstance(body, dict):
        remedy = f"Put it below a line [{key.section}]."
        return Problem("misplaced_key", line, column, section, "The key stands outside its section.", remedy)
    if section in SECTIONS:
        remedy = f"Write a line [{section}] and its keys below it."
        return Problem(
            "wrong_type", line, column, label(section), f"A section is wanted, not {described(body)}.", remedy
        )
    close = nearest(section, list(SECTIONS))
    known = ", ".join(f"[{name}]" for name in SECTIONS)
    remedy = f"Did you mean [{close}]?" if close else f"Sections are {known}."
    kind = "section" if isinstance(body, dict) else "key outside a section"
    name = f"[{section}]" if isinstance(body, dict) else section
    return Problem(
        "unknown_section", line, column, name, f"There is no such {kind}.", remedy, f"[{close}]" if close else None
    )


def _fixed_keys(tree: Tree, section: str, body: Mapping[str, Any]) -> Iterator[tuple[str, list[Problem]]]:
    for name, value in body.items():
        yield name, list(_fixed_key(tree, section, name, value))


def _fixed_key(tree: Tree, section: str, name: str, value: Any) -> Iterator[Problem]:
    key = BY_PLACE.get((section, name))
    if key is None:
        yield _unknown_key(tree, section, name)
    elif name == "api_key":
        yield from _api_key(tree, key, value)
    elif not is_unset(value):
        yield from _value_problems(tree, key, value)


def _value_problems(tree: Tree, key: Key, value: Any) -> Iterator[Problem]:
    line, column = tree.place(key.section, key.name, value=True)
    kind = "size_or_auto" if key.name == "max_model_len" else key.kind
    wanted = expected(kind)
    if not fits(value, kind) or (key.kind == "str" and not isinstance(value, str)):
        message = f"{wanted.capitalize()} is wanted, not {described(value)}."
        yield Problem("wrong_type", line, column, key.label, message, f"Write {key.name} = {_example(key, value)}.")
        return
    is_auto = kind == "size_or_auto" and value == -1
    if not is_auto and (bounds := out_of_range(value, key)):
        yield Problem("out_of_range", line, column, key.label, f"The value must be {bounds}.", "Correct it.")
    elif key.choices and value not in key.choices:
        known = ", ".join(f'"{choice}"' for choice in key.choices)
        close = nearest(str(value), list(key.choices))
        remedy = f'Did you mean "{close}"?' if close else f"Write one of {known}."
        replacement = f'{key.name} = "{close}"' if close else None
        yield Problem(
            "wrong_choice", line, column, key.label, f"The value must be one of {known}.", remedy, replacement
        )


def _example(key: Key, value: Any) -> str:
    match key.kind:
        case "bool":
            return "true or false"
        case "int" | "size":
            number = re.fullmatch(r"\s*(\d+)(?:\.0+)?\s*", str(value))
            return number[1] if number else "128" if key.low is None or key.high is None else f"{key.low:g}"
        case "float":
            number = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*", str(value))
            return number[1] if number else "0.9" if key.high == 1 else "4"
        case _:
            return '"…"'


def _api_key(tree: Tree, key: Key, value: Any) -> Iterator[Problem]:
    line, column = tree.place(key.section, key.name, value=True)
    if not isinstance(value, str):
        message = f"Text in quotes is wanted, not {described(value)}."
        yield Problem("wrong_type", line, column, key.label, message, "Put the key, or secret:NAME, in quotes.")
    elif not value.strip():
        yield Problem("out_of_range", line, column, key.label, "The key is empty.", "Delete the line or write the key.")
    elif value.startswith(SECRET_PREFIX) and not _SECRET_REFERENCE.fullmatch(value):
        message = "A secret reference is secret: and a name of letters, digits and . _ - / @."
        yield Problem("bad_reference", line, column, key.label, message, 'Write it like "secret:prod-vllm".')
    elif not is_sendable(value):
        message = "The key holds a line end or a character outside ASCII, which no client can send."
        yield Problem("out_of_range", line, column, key.label, message, "Use letters, digits and signs of ASCII.")
    elif value != value.strip():
        message = "The key begins or ends with white space, which vLLM compares exactly: clients would get 401."
        yield Problem("stray_space", line, column, key.label, message, "Remove the white space.", severity="warning")


def _unknown_key(tree: Tree, section: str, name: str) -> Problem:
    line, column = tree.place(section, name)
    here = label(section, name)
    plain = plain_name(name)
    own = next((key for key in KEYS if plain in {key.name, key.dest}), None)
    if own is not None:
        remedy = f"Write it as {own.name} in [{own.section}]."
        return Problem("misplaced_key", line, column, here, "The key has another place or name.", remedy, own.label)
    if catalogue().knows(plain):
        remedy = f"Put it below [{ENGINE}]."
        return Problem(
            "misplaced_key", line, column, here, "This is an option of vLLM, not a key of this section.", remedy
        )
    names = [key.name for key in KEYS if key.section == section]
    close = nearest(plain, names) or nearest(plain, [key.name for key in KEYS])
    if close is None:
        remedy = f"Keys of [{section}] are {', '.join(names)}. Other vLLM options stand below [{ENGINE}]."
        return Problem("unknown_key", line, column, here, "There is no such key.", remedy)
    home = next(key for key in KEYS if key.name == close)
    where = "" if home.section == section else f" in [{home.section}]"
    return Problem("unknown_key", line, column, here, "There is no such key.", f"Did you mean {close}{where}?", close)


def _engine_options(tree: Tree, section: str, body: Mapping[str, Any]) -> Iterator[tuple[str, list[Problem]]]:
    spellings: dict[str, str] = {}
    for name, value in body.items():
        spellings.setdefault(plain_name(name), name)
        yield name, list(_engine_option(tree, name, value, spellings))


def _engine_option(tree: Tree, name: str, value: Any, spellings: Mapping[str, str]) -> Iterator[Problem]:
    """`spellings` is plain name → the way it was written first."""
    section = ENGINE
    line, column = tree.place(section, name)
    here, plain = label(section, name), plain_name(name)
    dest = catalogue().dest_of(plain) or plain
    key = key_of_dest(dest)
    first_spelling = spellings[plain]
    if key is not None and key.name in (tree.values.get(key.section) or {}):
        first, _ = tree.place(key.section, key.name)
        message = f"The same setting is given as {key.label}, on line {first}."
        yield Problem(
            "given_twice", line, column, here, message, "Keep the one in its section.", fix=((ENGINE, name, None),)
        )
    elif dest in MANAGED or plain in MANAGED:
        remedy = MANAGED.get(plain) or MANAGED[dest]
        yield Problem("managed", line, column, here, "The control plane sets this itself.", remedy)
    elif key is not None:
        remedy = f"Write it as {key.name} in [{key.section}]."
        yield Problem("misplaced_key", line, column, here, "The key has a section of its own.", remedy, key.label)
    elif dest in SECRET_OPTIONS and value is not True:
        message = "A credential would show in the command line."
        yield Problem("secret_in_clear", line, column, here, message, SECRET_OPTIONS[dest])
    elif first_spelling != name:
        first, _ = tree.place(section, first_spelling)
        message = f"The option is there already as {first_spelling}, on line {first}."
        yield Problem("duplicate_key", line, column, here, message, "Keep one of the two.")
    elif has_dates(value):
        line, column = tree.place(section, name, value=True)
        message = "vLLM takes no dates and no numbers that are not finite."
        yield Problem("wrong_type", line, column, here, message, "Write it in quotes if text is meant.")


def _is_engine_unset(plain: str, value: Any) -> bool:
    """Here "none" may be a real choice (`convert = "none"`); only then it stays."""
    if not is_unset(value):
        return False
    known = catalogue()
    return not known.has_choice(known.dest_of(plain) or plain, str(value).strip().lower())
