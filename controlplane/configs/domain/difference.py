"""What differs between two configs: by meaning, and line by line."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .keys import KEYS, SECTIONS

Content = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """A key whose value differs; None where it is not set."""

    section: str
    key: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a side-by-side view. Line numbers count from 1; None and "" where a side has no line."""

    kind: Literal["same", "changed", "removed", "added"]
    left_no: int | None
    left: str
    right_no: int | None
    right: str


def differences(a_content: Content, b_content: Content) -> tuple[Change, ...]:
    """Keys that differ, sections and keys in their documented order, options of [engine] by name."""
    order = {(key.section, key.name): index for index, key in enumerate(KEYS)}
    places = {
        (section, name) for content in (a_content, b_content) for section, body in content.items() for name in body
    }
    ordered = sorted(places, key=lambda place: (SECTIONS.index(place[0]), order.get(place, len(order)), place[1]))
    pairs = ((place, _value(a_content, place), _value(b_content, place)) for place in ordered)
    return tuple(Change(*place, before, after) for place, before, after in pairs if not _equal(before, after))


def side_by_side(a: str, b: str) -> tuple[Row, ...]:
    """Two texts beside each other; changed stretches are paired line by line."""
    left, right = a.splitlines(), b.splitlines()
    rows: list[Row] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        for offset in range(max(left_to - left_from, right_to - right_from)):
            left_at, right_at = left_from + offset, right_from + offset
            has_left, has_right = left_at < left_to, right_at < right_to
            rows.append(
                Row(
                    kind="same" if tag == "equal" else _kind(has_left, has_right),
                    left_no=left_at + 1 if has_left else None,
                    left=left[left_at] if has_left else "",
                    right_no=right_at + 1 if has_right else None,
                    right=right[right_at] if has_right else "",
                )
            )
    return tuple(rows)


def _kind(has_left: bool, has_right: bool) -> Literal["changed", "removed", "added"]:
    if has_left and has_right:
        return "changed"
    return "removed" if has_left else "added"


def _value(content: Content, place: tuple[str, str]) -> Any:
    return content.get(place[0], {}).get(place[1])


def _equal(before: Any, after: Any) -> bool:
    """true is not 1."""
    return bool(before == after) and isinstance(before, bool) == isinstance(after, bool)
