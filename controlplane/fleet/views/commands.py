"""A command line as people read it: one option a line, ours told from the config's."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One option with its values, quoted for a shell; `is_injected`: we added it. `end` continues the command."""

    text: str
    is_injected: bool
    end: str = " \\"


def lines_of(argv: Sequence[str], injected: Sequence[str]) -> list[Line]:
    """`argv` (executable first) in lines that can be pasted into a shell; `injected` are its last words."""
    first_of_ours = len(argv) - len(injected)
    groups: list[tuple[list[str], bool]] = []
    for place, word in enumerate(argv):
        is_ours = place >= first_of_ours
        if not groups or word.startswith("--") or is_ours != groups[-1][1]:
            groups.append(([], is_ours))
        groups[-1][0].append(shlex.quote(word))
    lines = [
        Line(("  " if number else "") + " ".join(words), is_ours) for number, (words, is_ours) in enumerate(groups)
    ]
    return [*lines[:-1], Line(lines[-1].text, lines[-1].is_injected, end="")] if lines else []
