"""Texts that a TOML parser takes, or chokes on, and that no config needs: found before they are parsed."""

import re

from .problem import Problem

# JSON columns of Postgres hold every character but this one, which TOML lets people write as an escape.
_ESCAPED_NUL = re.compile(rb"\\u0000|\\U00000000|\\x00")
# A key of thousands of dotted parts keeps tomlkit busy for most of a minute before it gives up.
_DOTTED = re.compile(rb"[\w\"'-]+(?:[ \t]*\.[ \t]*[\w\"'-]+)*")
_MAX_DOTS = 32


def unreadable(raw: bytes) -> Problem | None:
    """The first thing that makes `raw` no config whatever else it says; None: parse it."""
    if nul := _ESCAPED_NUL.search(raw):
        return _at(raw, nul.start(), "The text holds a NUL character.", "Remove it.")
    deep = next((found for found in _DOTTED.finditer(raw) if found[0].count(b".") > _MAX_DOTS), None)
    if deep is not None:
        message = f"A name has more than {_MAX_DOTS} dots."
        return _at(raw, deep.start(), message, "Write tables as { key = value }.")
    return None


def escaped_key(raw: bytes, key: object) -> Problem:
    """A key written with an escape: the scanner compares names as they are written, tomllib as they are meant."""
    return _at(raw, max(raw.find(b"\\"), 0), f"The key {key} is written with an escape.", "Write it plainly.")


def _at(raw: bytes, offset: int, message: str, remedy: str) -> Problem:
    line = raw.count(b"\n", 0, offset) + 1
    column = len(raw[:offset].rpartition(b"\n")[2].decode(errors="replace")) + 1
    return Problem("syntax", line, column, "", message, remedy)
