"""Where things stand in a TOML text: statements, keys and values with their offsets.

A parser stops at the first error and forgets positions. This scanner only finds where each statement begins and ends,
so that statements can be parsed one by one, errors told together, and values replaced without touching anything else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_OPEN, _CLOSE = "[{", "]}"


@dataclass(frozen=True, slots=True)
class Statement:
    """A header (`[server]`, `[[x]]`) or a `key = value`; offsets are into the text.

    `path` is the dotted key as parts, empty if it cannot be read; `end` is after the value or bracket, before trailing
    white space and comment; `line_end` after the line break that follows.
    """

    is_header: bool
    is_array: bool
    path: tuple[str, ...]
    start: int
    value_start: int
    end: int
    line_end: int


def statements(text: str) -> Iterator[Statement]:
    """All statements in order. A bracket or string that never closes ends its statement on its first line."""
    position = 0
    while position < len(text):
        position = _skip_blank(text, position)
        if position >= len(text):
            return
        statement = _header(text, position) if text[position] == "[" else _key_value(text, position)
        yield statement
        position = max(statement.line_end, position + 1)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1; columns in characters."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _skip_blank(text: str, position: int) -> int:
    while position < len(text):
        if text[position] in " \t\r\n":
            position += 1
        elif text[position] == "#":
            position = _line_end(text, position)
        else:
            break
    return position


def _line_end(text: str, position: int) -> int:
    """The offset after the line break that ends this line."""
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _header(text: str, start: int) -> Statement:
    end, line_end = _value_end(text, start)
    raw = text[start:end]
    is_array = raw.startswith("[[") and raw.endswith("]]")
    inner = raw[2:-2] if is_array else raw[1:-1]
    return Statement(True, is_array, key_parts(inner), start, start, end, line_end)


def _key_value(text: str, start: int) -> Statement:
    line_end = _line_end(text, start)
    equals = _find_equals(text, start, line_end)
    if equals is None:
        end = start + len(_without_comment(text[start:line_end]))
        return Statement(False, False, (), start, start, end, line_end)
    value_start = equals + 1
    while value_start < line_end and text[value_start] in " \t":
        value_start += 1
    end, value_line_end = _value_end(text, value_start)
    return Statement(False, False, key_parts(text[start:equals]), start, value_start, end, value_line_end)


def key_parts(raw: str) -> tuple[str, ...]:
    """`a."b.c".d` as ("a", "b.c", "d"); empty if it is no key."""
    parts: list[str] = []
    rest = raw.strip()
    while rest:
        bare = _BARE.match(rest)
        if bare:
            part, after = bare.group(), rest[bare.end() :]
        elif rest[0] in "\"'" and (closing := rest.find(rest[0], 1)) > 0:
            part, after = rest[1:closing], rest[closing + 1 :]
        else:
            return ()
        parts.append(part)
        after = after.lstrip()
        if not after:
            return tuple(parts)
        if after[0] != ".":
            return ()
        rest = after[1:].lstrip()
    return ()


def _find_equals(text: str, start: int, line_end: int) -> int | None:
    quote = ""
    for offset in range(start, line_end):
        char = text[offset]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "=":
            return offset
        elif char == "#":
            return None
    return None


def _value_end(text: str, start: int) -> tuple[int, int]:
    """(end of the value, offset after its line) for a value that may span lines inside brackets or long strings."""
    position, depth, end = start, 0, start
    while position < len(text):
        char = text[position]
        if char == "\n" and depth == 0:
            return end, position + 1
        if char == "#":
            position = _line_end(text, position) - 1
            if text[position] != "\n":
                break
            continue
        if char in "\"'":
            position = _string_end(text, position)
            end = position
            continue
        depth += (char in _OPEN) - (char in _CLOSE)
        position += 1
        if char not in " \t\r\n":
            end = position
    return (end, len(text)) if depth <= 0 else _first_line(text, start)


def _first_line(text: str, start: int) -> tuple[int, int]:
    line_end = _line_end(text, start)
    return start + len(_without_comment(text[start:line_end])), line_end


def _string_end(text: str, start: int) -> int:
    quote = text[start]
    if text.startswith(quote * 3, start):
        closing = start + 3
        while (closing := text.find(quote * 3, closing)) >= 0:
            if quote == "'" or not _is_escaped(text, closing):
                while text.startswith(quote, closing + 3):  # up to two quotes may stand before the closing three
                    closing += 1
                return closing + 3
            closing += 1
        return _line_end(text, start) - 1 if "\n" in text[start:] else len(text)
    position = start + 1
    while position < len(text) and text[position] != "\n":
        if text[position] == "\\" and quote == '"':
            position += 2
            continue
        if text[position] == quote:
            return position + 1
        position += 1
    return min(position, len(text))


def _is_escaped(text: str, position: int) -> bool:
    slashes = 0
    while text[position - 1 - slashes] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _without_comment(line: str) -> str:
    return line.partition("#")[0].rstrip()
