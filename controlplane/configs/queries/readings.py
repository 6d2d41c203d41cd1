"""Config texts as they come from people: read, and their problems made ready to be shown."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from controlplane.configs.domain.document import MAX_BYTES, Reading, read
from controlplane.configs.domain.problem import Problem
from controlplane.configs.domain.structure import SECRET_PREFIX
from controlplane.core.models import Secret

# JSON columns of Postgres hold every character but this one, which TOML lets people write as an escape.
_ESCAPED_NUL = re.compile(rb"\\u0000|\\U00000000|\\x00")
# A key of thousands of dotted parts keeps tomlkit busy for most of a minute before it gives up.
_DOTTED = re.compile(rb"[\w\"'-]+(?:[ \t]*\.[ \t]*[\w\"'-]+)*")
_MAX_DOTS = 32
_ASSIGNED_KEY = re.compile(r"((?:api[-_]?key|hf[-_]token)\b[^=]*=\s*).*", re.IGNORECASE)
_KEY_OVER_LINES = re.compile(r"""(?:api[-_]?key|hf[-_]token)\b[^=\n]*=\s*(?:\"{3}|'{3})""", re.IGNORECASE)


def read_config(raw: bytes) -> Reading:
    """`document.read`, and what a TOML parser takes but no column here can hold."""
    if len(raw) > MAX_BYTES:
        return read(raw)
    if nul := _ESCAPED_NUL.search(raw):
        return _refused(raw, nul.start(), _("The text holds a NUL character."), _("Remove it."))
    deep = next((found for found in _DOTTED.finditer(raw) if found[0].count(b".") > _MAX_DOTS), None)
    if deep is not None:
        message = _("A name has more than %(most)d dots.") % {"most": _MAX_DOTS}
        return _refused(raw, deep.start(), message, _("Write tables as { key = value }."))
    try:
        return read(raw)
    except KeyError as key:  # the scanner compares names as they are written, tomllib as they are meant
        message = _("The key %(key)s is written with an escape.") % {"key": key}
        return _refused(raw, max(raw.find(b"\\"), 0), message, _("Write it plainly."))


def secret_problems(reading: Reading) -> tuple[Problem, ...]:
    """A warning when the config refers to a secret that nobody stored yet: it imports, and would not launch."""
    reference = str(reading.content.get("server", {}).get("api_key", ""))
    is_plain = reading.document is not None and reading.document.secret_text is not None
    if is_plain or not reference.startswith(SECRET_PREFIX) or _is_stored(reference):
        return ()
    line, column = reading.place("server", "api_key")
    message = _("There is no %(reference)s here.") % {"reference": reference}
    remedy = _("Store it under Settings, Secrets before launching.")
    return (Problem("unknown_secret", line, column, "[server] api_key", message, remedy, severity="warning"),)


def shown(problems: Iterable[Problem], raw: bytes = b"") -> list[dict[str, Any]]:
    """Problems for pages and API answers, each with its line of `raw` in `source_line`; keys are blotted out there."""
    text = raw.decode(errors="replace")
    lines = [] if _KEY_OVER_LINES.search(text) else text.split("\n")
    return [{**dataclasses.asdict(problem), "source_line": _line(lines, problem.line)} for problem in problems]


def _refused(raw: bytes, at: int, message: str, remedy: str) -> Reading:
    line = raw.count(b"\n", 0, at) + 1
    column = len(raw[:at].rpartition(b"\n")[2].decode(errors="replace")) + 1
    return Reading((Problem("syntax", line, column, "", message, remedy),), None)


def _line(lines: list[str], number: int | None) -> str | None:
    if number is None or not 1 <= number <= len(lines):
        return None
    return _ASSIGNED_KEY.sub(r"\1…", lines[number - 1]).rstrip("\r")[:400]


def _is_stored(reference: str) -> bool:
    return Secret.objects.filter(name=reference.removeprefix(SECRET_PREFIX)).exists()
