"""The flag catalogue as pages and API show it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from controlplane.configs.domain.catalogue import catalogue, find
from controlplane.configs.domain.flags import Flag, plain_name
from controlplane.configs.domain.keys import BY_PLACE, ENGINE, KEYS, key_of_dest
from controlplane.configs.queries.configs import text_of
from controlplane.configs.queries.targets import Target
from controlplane.core.paging import PAGE_SIZE, Page


@dataclass(frozen=True, slots=True)
class FlagEntry:
    """An option over all known releases. `flag` is how the newest release with it has it; `defaults` are
    (release, default) where the default was new; `added_in` None means before the oldest known release."""

    flag: Flag
    key: str
    added_in: str | None
    removed_in: str | None
    replacement: str | None
    note: str
    defaults: tuple[tuple[str, Any], ...]

    @property
    def dest(self) -> str:
        return self.flag.dest

    @property
    def default_texts(self) -> list[tuple[str, str]]:
        """`defaults` as a config would write them."""
        return [(release, text_of(default)) for release, default in self.defaults]

    def answers(self, text: str) -> bool:
        """Whether a search for `text` means this option: by any of its names, its key in configs, or its help."""
        plain = plain_name(text.strip().lower())
        words = text.strip().lower()
        names = (*self.flag.names, self.key)
        return any(plain in name for name in names) or words in f"{self.flag.help_line} {self.note}".lower()


@dataclass(frozen=True, slots=True)
class Setting:
    """A key that a config sets, beside the option it becomes on a target; `option` is "" where that has none.

    `value` and `default` are texts, as a config writes them.
    """

    section: str
    key: str
    value: str
    option: str
    default: str


def settings_of(content: Mapping[str, Mapping[str, Any]], target: Target) -> list[Setting]:
    """What a config sets, the fixed keys in their documented order, then options by name."""
    order = {(key.section, key.name): index for index, key in enumerate(KEYS)}
    places = sorted(
        ((section, key) for section, body in content.items() for key in body),
        key=lambda place: (order.get(place, len(order)), place),
    )
    return [_setting(place, content[place[0]][place[1]], target) for place in places]


def flags(*, search: str = "", status: str = "") -> list[FlagEntry]:
    """Options that answer `search`, by name; `status`: current, removed, moved (their default changed)."""
    tests: dict[str, Callable[[FlagEntry], bool]] = {
        "current": lambda entry: entry.removed_in is None,
        "removed": lambda entry: entry.removed_in is not None,
        "moved": lambda entry: len(entry.defaults) > 1,
    }
    keep = tests.get(status)
    return [
        entry for entry in _entries() if (keep is None or keep(entry)) and (not search.strip() or entry.answers(search))
    ]


def flag_named(name: str) -> FlagEntry | None:
    """By dest or any spelling, `--swap-space` or `swap_space`, or by the key of a config."""
    own = key_of_dest(plain_name(name))
    dest = (own.dest if own else None) or catalogue().dest_of(name)
    return next((entry for entry in _entries() if entry.dest == dest), None)


def slice_of(rows: Sequence[Any], number: Any = 1, *, size: int = PAGE_SIZE) -> Page[Any]:
    """Page `number` of rows that are in memory anyway; nonsense means the first."""
    last = max(1, -(-len(rows) // size))
    text = str(number)
    wanted = min(max(1, int(text)), last) if text.isdecimal() and len(text) < 10 else 1
    items = rows[(wanted - 1) * size : wanted * size]
    return Page(items=items, number=wanted, size=size, total=len(rows), total_is_exact=True)


def _setting(place: tuple[str, str], value: Any, target: Target) -> Setting:
    own = BY_PLACE.get(place)
    dest = own.dest if own else place[1]
    flag = find(dest, target.flags) if dest else None
    return Setting(*place, text_of(value), flag.option if flag else "", text_of(flag.default if flag else None))


@cache
def _entries() -> Sequence[FlagEntry]:
    """All options of all releases; worked out once, as the catalogue is."""
    known = catalogue()
    newest: dict[str, Flag] = {}
    for release in known.releases:
        newest.update(known.flags(release))
    return tuple(_entry(newest[dest]) for dest in sorted(newest))


def _entry(flag: Flag) -> FlagEntry:
    history = catalogue().history(flag.dest)
    own = key_of_dest(flag.dest)
    return FlagEntry(
        flag=flag,
        key=f"{own.section}.{own.name}" if own else f"{ENGINE}.{flag.dest}",
        added_in=history.added_in if history else None,
        removed_in=history.removed_in if history else None,
        replacement=history.replacement if history else None,
        note=history.note if history else "",
        defaults=_defaults(flag.dest),
    )


def _defaults(dest: str) -> tuple[tuple[str, Any], ...]:
    moves: list[tuple[str, Any]] = []
    for release in catalogue().releases:
        flag = catalogue().flags(release).get(dest)
        if flag is not None and (not moves or moves[-1][1] != flag.default):
            moves.append((release, flag.default))
    return tuple(moves)
