"""The flag catalogue: every option of `vllm serve`, release by release."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from . import harvest
from .flags import Flag, from_record, plain_name
from .removals import REMOVALS
from .versions import Version

DATA = Path(__file__).resolve().parent.parent / "catalogue" / "options.json"


class UnsupportedReleaseError(ValueError):
    """The version is older than everything the catalogue knows."""

    def __init__(self, version: str, oldest: str) -> None:
        super().__init__(f"vLLM {version} is not supported: the oldest known release is {oldest}. Use a newer vLLM.")


@dataclass(frozen=True, slots=True)
class Resolution:
    """The release whose options stand in for a version; `note` says so when it is not that very release."""

    release: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class FlagHistory:
    """The life of an option.

    `added_in` and `removed_in` are releases; `added_in` None means it was there in the oldest known one, `removed_in`
    None that it still is in the newest. `last_in` is the newest release that has it.
    """

    dest: str
    added_in: str | None
    removed_in: str | None
    last_in: str
    replacement: str | None = None
    note: str = ""


class Catalogue:
    """Options of all known releases. Made once by `catalogue()`."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.releases: tuple[str, ...] = tuple(data["releases"])
        self._options = harvest.unfold(data)
        self._ordered = [(Version.parse(release), release) for release in self.releases]

    def resolve(self, version: str) -> Resolution:
        """The release to look options up in, for what an engine calls its version.

        An exact match; else, for `+cpu`, candidates and development builds, the release they lead to; else the nearest
        earlier release, of the same minor where there is one. Raises NotAVersionError, UnsupportedReleaseError.
        """
        asked = Version.parse(version)
        wanted = asked.final if asked.is_before_release else asked
        earlier = [(known, release) for known, release in self._ordered if known <= wanted]
        if not earlier:
            raise UnsupportedReleaseError(version, self.releases[0])
        known, release = earlier[-1]
        if known == wanted:
            note = f"{version} is a build on the way to {release}: checked as {release}." if wanted != asked else None
            return Resolution(release, note)
        which = "the newest known release" if release == self.releases[-1] else "the nearest earlier one"
        return Resolution(release, f"vLLM {version} is not in the catalogue: checked as {release}, {which}.")

    def release_for(self, version: str) -> str:
        """`resolve(version).release`."""
        return self.resolve(version).release

    def flags(self, version: str) -> Mapping[str, Flag]:
        """dest → Flag for the release that stands for `version`."""
        return MappingProxyType(self._options[self.release_for(version)])

    def knows(self, name: str) -> bool:
        """Whether any release has, or had, an option of this name."""
        return plain_name(name) in self._all_names()

    def dest_of(self, name: str) -> str | None:
        """The dest of an option by any of its names in any release, newest first."""
        return self._all_names().get(plain_name(name))

    def has_choice(self, dest: str, word: str) -> bool:
        """Whether any release offers `word` as a choice of this option."""
        return (dest, word) in self._all_choices()

    @cache  # noqa: B019 - there is one catalogue, for the life of the process
    def history(self, dest: str) -> FlagHistory | None:
        """When `dest` came and went; None if no known release ever had it."""
        having = [release for release in self.releases if dest in self._options[release]]
        if not having:
            return None
        after = self.releases.index(having[-1]) + 1
        removal = REMOVALS.get(dest)
        return FlagHistory(
            dest=dest,
            added_in=None if having[0] == self.releases[0] else having[0],
            removed_in=self.releases[after] if after < len(self.releases) else None,
            last_in=having[-1],
            replacement=removal.replacement if removal else None,
            note=removal.note if removal else "",
        )

    def nearest(self, name: str, version: str) -> str | None:
        """The option of `version` whose name looks most like `name`."""
        return nearest_name(name, self.flags(version).values())

    def changed_defaults(self, before: str, after: str) -> Mapping[str, tuple[Any, Any]]:
        """dest → (default in `before`, default in `after`), for options of both that differ."""
        old, new = self.flags(before), self.flags(after)
        return {
            dest: (old[dest].default, flag.default)
            for dest, flag in new.items()
            if dest in old and old[dest].default != flag.default
        }

    def from_option_list(self, option_list: Mapping[str, Any]) -> Mapping[str, Flag]:
        """dest → Flag from the option list that one build reports: `{"vllm_version": …, "args": [record, …]}`.

        The build's list says which options there are, their spellings, choices and defaults. Only what kind of text an
        option takes is looked up here when the build names a converter that does not tell (`_optional_type`).
        """
        version = str(option_list.get("vllm_version") or self.releases[-1])
        known = self.flags(version)
        records: list[Mapping[str, Any]] = option_list["args"]
        found = (from_record(record, known.get(str(record["dest"]))) for record in records)
        return MappingProxyType({flag.dest: flag for flag in found})

    @cache  # noqa: B019
    def _all_choices(self) -> frozenset[tuple[str, str]]:
        flags = (flag for options in self._options.values() for flag in options.values())
        return frozenset((flag.dest, str(choice)) for flag in flags for choice in flag.choices or ())

    @cache  # noqa: B019
    def _all_names(self) -> Mapping[str, str]:
        names: dict[str, str] = {}
        for release in self.releases:
            names.update({name: flag.dest for flag in self._options[release].values() for name in flag.names})
        return names


def find(name: str, flags: Mapping[str, Flag]) -> Flag | None:
    """The option that a config names: by dest or any long spelling, with dashes or underscores."""
    plain = plain_name(name)
    if plain in flags:
        return flags[plain]
    option = "--" + plain.replace("_", "-")
    return next((flag for flag in flags.values() if flag.is_name(option)), None)


def nearest_name(name: str, flags: Iterable[Flag]) -> str | None:
    """The name that `name` is most likely a slip of; None when nothing is close."""
    names = sorted({known for flag in flags for known in flag.names})
    close = difflib.get_close_matches(plain_name(name), names, n=1, cutoff=0.7)
    return close[0] if close else None


@cache
def catalogue() -> Catalogue:
    """The committed catalogue, read once."""
    return Catalogue(json.loads(DATA.read_text(encoding="utf-8")))
