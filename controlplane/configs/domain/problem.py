"""One thing that is wrong with a config, as a person is told."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
Edit = tuple[str, str, object]
"""(section, key, new value); None as value removes the key."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and what to do about it.

    `line` and `column` count from 1, the column in characters; None when only the content was looked at, not its text.
    `key` is written `[section] name`. `replacement` is text to write instead; `fix` the same as edits for
    `Document.with_values`. The value of a secret never appears in any of them.
    """

    code: str
    line: int | None
    column: int | None
    key: str
    message: str
    remedy: str
    replacement: str | None = None
    severity: Severity = "error"
    fix: tuple[Edit, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    def __str__(self) -> str:
        place = "" if self.line is None else f"{self.line}:{self.column}: "
        subject = f"{self.key}: " if self.key else ""
        return f"{place}{self.severity}: {subject}{self.message} {self.remedy}".rstrip()
