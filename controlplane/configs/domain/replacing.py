"""Edits that move a config off an option which a vLLM does not have any more."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .catalogue import catalogue, find
from .fitting import fits_flag, not_a_choice
from .flags import Flag
from .keys import BY_PLACE, ENGINE
from .problem import Edit
from .removals import REMOVALS
from .rewrites import Write, as_table
from .versions import Version

Content = Mapping[str, Mapping[str, Any]]


def edits_instead_of(
    section: str, name: str, *, content: Content, flags: Mapping[str, Flag], release: str
) -> tuple[Edit, ...]:
    """Take a removed option out of `content` and write what stands in for it with these options.

    () where a person has to decide: what it did is gone, has no one equivalent in `release`, or the config already
    says something else. Options that end up in one table each get the whole table, so the edits of several can be
    applied together and in any order.
    """
    writes = _writes(section, name, content[section][name])
    if writes is None:
        return ()
    values = {write.dest: _new_value(write, content, flags, release) for write in writes}
    if None in values.values():
        return ()
    return ((section, name, None), *((ENGINE, dest, value) for dest, value in values.items()))


def _writes(section: str, name: str, value: Any) -> tuple[Write, ...] | None:
    key = BY_PLACE.get((section, name))
    dest = (key.dest if key else None) or catalogue().dest_of(name) or name
    removal = REMOVALS.get(dest)
    return removal.rewrite(value) if removal else None


def _new_value(write: Write, content: Content, flags: Mapping[str, Flag], release: str) -> Any | None:
    """What the option of `write` is to be; None when that cannot be known or is not allowed."""
    flag = flags.get(write.dest)
    if flag is None or not _is_read(write, release):
        return None
    held = next((value for name, value in content.get(ENGINE, {}).items() if find(name, flags) is flag), None)
    if write.key is not None:
        new = _table(held, _writes_into(write.dest, content, flags, release))
    else:
        new = write.value if held in (None, write.value) else None
    return new if new is not None and fits_flag(new, flag) and not_a_choice(new, flag) is None else None


def _is_read(write: Write, release: str) -> bool:
    return write.until is None or Version.parse(release) <= Version.parse(write.until)


def _table(held: Any, writes: Iterable[Write]) -> dict[str, Any] | None:
    """What the config has of a table, and every removed option that belongs there; None when two of them differ."""
    table = {} if held is None else as_table(held)
    if table is None:
        return None
    for write in writes:
        if table.setdefault(str(write.key), write.value) != write.value:
            return None
    return table


def _writes_into(dest: str, content: Content, flags: Mapping[str, Flag], release: str) -> Iterator[Write]:
    for name, value in content.get(ENGINE, {}).items():
        if find(name, flags) is None:
            writes = _writes(ENGINE, name, value) or ()
            yield from (write for write in writes if write.dest == dest and _is_read(write, release))
