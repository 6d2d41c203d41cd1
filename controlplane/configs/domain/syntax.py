"""From TOML text to a tree of plain values, with every syntax problem told at its place."""

import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .keys import ENGINE, SECTIONS
from .problem import Problem
from .scanner import Statement, line_and_column, statements

MAX_PROBLEMS = 50
_SECRET_KEYS = frozenset({"api_key", "hf_token"})
_WORDS_FOR_NOTHING = frozenset({"null", "none", "nil", "undefined", "~"})
_WORDS_FOR_TRUTH = {
    **dict.fromkeys(("True", "TRUE", "yes", "on"), "true"),
    **dict.fromkeys(("False", "FALSE", "no", "off"), "false"),
}
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:@-]+")
_WORD_FOR_NOTHING_INSIDE = re.compile(r"(?<![\w\"'])(null|None|nil)(?![\w\"'])")
_TOMLLIB_PLACE = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)$")

Path = tuple[str, ...]


@dataclass(slots=True)
class Tree:
    """The values of a file and where they stand. `places` maps a path to its statement; a path inside an inline table
    has none of its own."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, Statement] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, *path: str, value: bool = False) -> tuple[int, int]:
        """Line and column of a key, or of its value; of the table around it if it has no statement of its own."""
        while path and path not in self.places:
            path = path[:-1]
        if not path:
            return 1, 1
        statement = self.places[path]
        return line_and_column(self.text, statement.value_start if value else statement.start)


def parse(text: str) -> Tree:
    """Parse statement by statement. Statements that cannot be read are told in `problems` and left out of `values`."""
    tree = Tree(text)
    prefix: Path | None = ()
    table: dict[str, Any] = tree.values
    for statement in statements(text):
        if len(tree.problems) >= MAX_PROBLEMS:
            break
        if statement.is_header:
            opened = _open_table(tree, statement)
            prefix, table = (None, {}) if opened is None else opened
        else:
            _add_value(tree, statement, prefix, table)
    if not tree.problems:
        tree.problems.extend(_whole(text))
    return tree


def _open_table(tree: Tree, statement: Statement) -> tuple[Path, dict[str, Any]] | None:
    """The path and table that the following keys belong to; None after a header that cannot be read."""
    raw = tree.text[statement.start : statement.end]
    if (error := _error_of(raw)) or not statement.path:
        tree.problems.append(
            _at(tree, statement, "syntax", f"This section header cannot be read: {error}.", "Write it like [model].")
        )
        return None
    path = statement.path
    # Headers of an array of tables may repeat; so may a header that only adds keys, but TOML forbids that.
    first = tree.places.get(path)
    if first is not None and not statement.is_array:
        line, _ = line_and_column(tree.text, first.start)
        message = f"The section is there already, on line {line}."
        tree.problems.append(_at(tree, statement, "duplicate_section", message, "Put its keys together."))
    tree.places.setdefault(path, statement)
    table = tree.values
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        inner = table.setdefault(part, [] if last and statement.is_array else {})
        if isinstance(inner, list) and last and statement.is_array:
            inner.append({})
        inner = inner[-1] if isinstance(inner, list) and inner else inner
        if not isinstance(inner, dict):
            message = f"“{part}” is a value already and cannot be a section too."
            tree.problems.append(_at(tree, statement, "duplicate_key", message, "Keep one of them."))
            return None
        table = inner
    return path, table


def _add_value(tree: Tree, statement: Statement, prefix: Path | None, table: dict[str, Any]) -> None:
    problem = _statement_problem(tree, statement, prefix or ())
    if problem is not None:
        tree.problems.append(problem)
        return
    if prefix is None:  # its section is unknown
        return
    value: Any = tomllib.loads(_alone(tree.text, statement))
    for depth, part in enumerate(statement.path):
        value = value[part]
        last = depth == len(statement.path) - 1
        if (last and part in table) or (not last and not isinstance(table.get(part, {}), dict)):
            tree.problems.append(_duplicate(tree, statement, (*prefix, *statement.path[: depth + 1])))
            return
        if last:
            table[part] = value
            tree.places.setdefault((*prefix, *statement.path), statement)
        else:
            table = table.setdefault(part, {})


def _duplicate(tree: Tree, statement: Statement, path: Path) -> Problem:
    line, _ = tree.place(*path)
    message = f"The key is there already, on line {line}."
    return _at(tree, statement, "duplicate_key", message, "Keep one of the two.", prefix=path[: -len(statement.path)])


def _statement_problem(tree: Tree, statement: Statement, prefix: Path) -> Problem | None:
    error = _error_of(_alone(tree.text, statement))
    if error is None and statement.path:
        return None
    if not statement.path:
        remedy = "Write it like max_num_seqs = 128, with a # before comments."
        return _at(tree, statement, "syntax", "This line is neither a section nor a key with a value.", remedy)
    value = tree.text[statement.value_start : statement.end]
    code, message, remedy, replacement = _explained(statement.path[-1], value, str(error), prefix)
    return _at(tree, statement, code, message, remedy, replacement, prefix)


def _explained(name: str, value: str, error: str, prefix: Path) -> tuple[str, str, str, str | None]:
    """(code, message, remedy, replacement) for a value that is not TOML."""
    if value.lower() in _WORDS_FOR_NOTHING:
        in_fixed_section = len(prefix) == 1 and prefix[0] != ENGINE
        instead = f'{name} = "none"' if in_fixed_section else None
        remedy = f"Delete the line, or write {instead}." if instead else "Delete the line."
        return "null", f"TOML has no {value}.", remedy, instead
    if _WORD_FOR_NOTHING_INSIDE.search(value):
        return "null", "TOML has no null, inside lists and tables neither.", "Leave the entry out.", None
    if value in _WORDS_FOR_TRUTH:
        instead = f"{name} = {_WORDS_FOR_TRUTH[value]}"
        return "syntax", f"TOML has no {value}.", f"Write {instead}.", instead
    if name in _SECRET_KEYS:
        return "syntax", f"The value cannot be read: {error}.", "Put it in quotes.", None
    if _PLAIN_WORD.fullmatch(value) and not value.isdigit():
        instead = f'{name} = "{value}"'
        return "syntax", "Text needs quotes.", f"Write {instead}.", instead
    return "syntax", f"The value cannot be read: {error}.", "Check quotes, brackets and commas.", None


def _error_of(raw: str) -> str | None:
    """What the TOML parser says of a statement on its own, without positions and without quoting values."""
    try:
        tomllib.loads(raw)
    except tomllib.TOMLDecodeError as error:
        said = _TOMLLIB_PLACE.sub("", str(error)).strip()
        return re.sub(r":? ['\"].*", "", said, flags=re.DOTALL).lower() or "invalid value"
    except RecursionError:
        return "nested too deeply"
    except ValueError:  # a number with thousands of digits
        return "the number is too long"
    return None


def _alone(text: str, statement: Statement) -> str:
    return text[statement.start : statement.end]


def _whole(text: str) -> Iterator[Problem]:
    """What only shows in the file as a whole, when every statement is right."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOMLLIB_PLACE.search(str(error))
        line, column = (int(place[1]), int(place[2])) if place and place[1] else (1, 1)
        message = f"The file is not TOML: {_TOMLLIB_PLACE.sub('', str(error)).strip()}."
        yield Problem("syntax", line, column, "", message, "Correct the line.")


def _at(
    tree: Tree,
    statement: Statement,
    code: str,
    message: str,
    remedy: str,
    replacement: str | None = None,
    prefix: Path = (),
) -> Problem:
    offset = statement.start if code in {"duplicate_key", "duplicate_section"} else statement.value_start
    line, column = line_and_column(tree.text, offset)
    return Problem(code, line, column, label(*prefix, *statement.path), message, remedy, replacement)


def label(*path: str) -> str:
    """`[server] port`; `[server]`; `port` for a key outside any section."""
    if not path:
        return ""
    if len(path) == 1:
        return f"[{path[0]}]" if path[0] in SECTIONS else path[0]
    return f"[{path[0]}] {'.'.join(path[1:])}"


def nearest(word: str, words: list[str]) -> str | None:
    """The word that `word` is most likely a slip of."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return close[0] if close else None
