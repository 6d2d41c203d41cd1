"""Changing values in a TOML text and leaving every other byte as it is."""

from typing import Any

import tomlkit

from .keys import ENGINE
from .scanner import Statement, statements
from .syntax import Tree


def literal(value: Any) -> str:
    """A value as TOML; tables become inline tables, so that they fit on the line of their key."""
    if isinstance(value, dict):
        inner = ", ".join(f"{tomlkit.key(str(name)).as_string()} = {literal(item)}" for name, item in value.items())
        return f"{{{inner}}}" if not inner else f"{{ {inner} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item) for item in value)}]"
    return str(tomlkit.item(value).as_string())


def with_value(tree: Tree, section: str, name: str, value: Any) -> str:
    """The text with one key set, or removed where `value` is None."""
    body = tree.values.get(section)
    spelled = _spelling(body if isinstance(body, dict) else {}, section, name)
    statement = tree.places.get((section, spelled))
    if statement is not None and not statement.is_header:
        return _removed(tree.text, statement) if value is None else _replaced(tree.text, statement, literal(value))
    if isinstance(body, dict) and spelled in body:
        # Below a header of its own, in an inline table, or with dotted keys.
        return _through_tomlkit(tree.text, section, spelled, value)
    if value is None:
        return tree.text
    return _added(tree, section, f"{name} = {literal(value)}")


def newline_of(text: str) -> str:
    """The line break that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def _spelling(body: dict[str, Any], section: str, name: str) -> str:
    """How the file writes the key: options may have dashes."""
    if section != ENGINE:
        return name
    plain = name.replace("-", "_")
    return next((known for known in body if known.replace("-", "_") == plain), name)


def _replaced(text: str, statement: Statement, new: str) -> str:
    return text[: statement.value_start] + new + text[statement.end :]


def _removed(text: str, statement: Statement) -> str:
    line_start = text.rfind("\n", 0, statement.start) + 1
    return text[:line_start] + text[statement.line_end :]


def _added(tree: Tree, section: str, line: str) -> str:
    text, newline = tree.text, newline_of(tree.text)
    header = tree.places.get((section,))
    if header is None or not header.is_header:
        if isinstance(tree.values.get(section), dict):
            name, _, value = line.partition(" = ")
            return _through_tomlkit(text, section, name, tomlkit.value(value))
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        return f"{text}{gap}[{section}]{newline}{line}{newline}"
    last = header
    for statement in statements(text):
        if statement.start > header.start:
            if statement.is_header:
                break
            last = statement
    before = text[: last.line_end]
    joint = "" if before.endswith("\n") else newline
    return f"{before}{joint}{line}{newline}{text[last.line_end :]}"


def _through_tomlkit(text: str, section: str, name: str, value: Any) -> str:
    document = tomlkit.parse(text)
    table: Any = document[section]
    if value is None:
        del table[name]
    else:
        table[name] = value
    return tomlkit.dumps(document)
