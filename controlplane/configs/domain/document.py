"""A service config as TOML: read with every problem at its place, changed without touching anything else."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import editing, structure, syntax
from .keys import KEYS
from .problem import Problem
from .scanner import statements
from .structure import SECRET_PREFIX, Content
from .syntax import Tree
from .unreadable import escaped_key, unreadable

MAX_BYTES = 64 * 1024
_BOM = "\ufeff"
# A key shorter than this could be an ordinary word: it is not looked for in comments.
_MIN_KEY_IN_COMMENTS = 8


class InvalidEditError(ValueError):
    """An edit would make the config wrong; `problems` say how."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(" ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True)
class Document:
    """A config without errors.

    `toml` is the text as it came, byte for byte once encoded as UTF-8. `content` is section → key → plain value, in the
    order of the sections, without what is unset; a key given in clear stands there as "secret:?", never as itself.
    `secret_text` is that key. None of the three shows in a repr.
    """

    toml: str = field(repr=False)
    content: Content = field(repr=False)
    secret_text: str | None = field(repr=False, default=None)
    _tree: Tree | None = field(repr=False, compare=False, default=None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical content: comments, order and notation do not count."""
        return content_digest(self.content)

    def place(self, section: str, key: str) -> tuple[int, int]:
        """Line and column of a key."""
        return self._parsed.place(section, key)

    def with_secret(self, ref: str) -> "Document":
        """The same text with the plain api_key replaced by `secret:<name>`; itself if there is no plain key.

        The key is also replaced where it stands in comments.
        """
        if self.secret_text is None:
            return self
        reference = SECRET_PREFIX + ref.removeprefix(SECRET_PREFIX)
        changed = editing.with_value(self._parsed, "server", "api_key", reference)
        return _document(self._bom + _without_key_in_comments(changed, self.secret_text, reference))

    def with_values(self, values: Mapping[tuple[str, str], Any]) -> "Document":
        """The same text with keys set, or removed where the value is None. Raises InvalidEditError."""
        text = self.toml.removeprefix(_BOM)
        for (section, key), value in values.items():
            text = editing.with_value(syntax.parse(text), section, key, value)
        return _document(self._bom + text)

    @property
    def _bom(self) -> str:
        return _BOM if self.toml.startswith(_BOM) else ""

    @property
    def _parsed(self) -> Tree:
        return self._tree or syntax.parse(self.toml.removeprefix(_BOM))


@dataclass(frozen=True, slots=True)
class Reading:
    """`document` is None if there is an error among the problems.

    `content` is what could be read even so, and `place` says where it stands: enough for `checking.check`, so that a
    person hears of all problems at once.
    """

    problems: tuple[Problem, ...]
    document: Document | None
    content: Content = field(default_factory=dict, repr=False)
    _tree: Tree = field(default_factory=lambda: Tree(""), repr=False)

    def place(self, section: str, key: str) -> tuple[int, int]:
        """Line and column of a key."""
        return self._tree.place(section, key)


def read(raw: bytes) -> Reading:
    """Read a config file. All problems are found in one pass, in the order of the file."""
    if len(raw) > MAX_BYTES:
        message = f"The file has {len(raw)} bytes; a config has at most {MAX_BYTES}."
        return Reading((Problem("too_large", 1, 1, "", message, "Check that it is the right file."),), None)
    if refused := unreadable(raw):
        return Reading((refused,), None)
    try:
        return _read(raw)
    except KeyError as key:
        return Reading((escaped_key(raw, key),), None)


def _read(raw: bytes) -> Reading:
    text, problems = _decoded(raw)
    tree = syntax.parse(text.removeprefix(_BOM))
    content, wrong = structure.content_of(tree)
    problems = sorted([*problems, *tree.problems, *wrong], key=lambda problem: (problem.line or 0, problem.column or 0))
    has_errors = any(problem.is_error for problem in problems)
    document = None if has_errors else Document(text, content, structure.secret_text(tree), tree)
    return Reading(tuple(problems), document, content, tree)


def content_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of content as JSON with sorted keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def new_document(content: Mapping[str, Mapping[str, Any]]) -> Document:
    """A fresh TOML text for content, sections and keys in their usual order. Raises InvalidEditError."""
    order = {(key.section, key.name): index for index, key in enumerate(KEYS)}
    blocks = []
    for section, body in content.items():
        names = sorted(body, key=lambda name: (order.get((section, name), len(order)), name))
        blocks.append("\n".join([f"[{section}]", *(f"{name} = {editing.literal(body[name])}" for name in names)]))
    return _document("\n\n".join(blocks) + "\n")


def _document(text: str) -> Document:
    reading = read(text.encode())
    if reading.document is None:
        raise InvalidEditError(tuple(problem for problem in reading.problems if problem.is_error))
    return reading.document


def _decoded(raw: bytes) -> tuple[str, list[Problem]]:
    """The text; what is not UTF-8 is told and replaced, so that the rest can be looked at too."""
    try:
        return raw.decode(), []
    except UnicodeDecodeError as error:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            message, text = "The file is UTF-16, not UTF-8.", ""
        else:
            message, text = f"Byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8.", raw.decode(errors="replace")
        before = raw[: error.start].decode().removeprefix(_BOM)
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
        return text, [Problem("not_utf8", line, column, "", message, "Save the file as UTF-8.")]


def _without_key_in_comments(text: str, key: str, reference: str) -> str:
    if len(key) < _MIN_KEY_IN_COMMENTS or key not in text:
        return text
    kept, position = [], 0
    for statement in statements(text):
        kept += [text[position : statement.start].replace(key, reference), text[statement.start : statement.end]]
        position = statement.end
    return "".join([*kept, text[position:].replace(key, reference)])
