"""Folding the option lists of many releases into one small file, and unfolding it again.

An option is stored once, with the stretches of releases in which it looked the same:
`{"help": …, "spans": [[first release, last release, {"flags", "kind", "nargs", "choices", "default", "deprecated"}]]}`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .flags import Flag, from_record
from .versions import Version

NOTE = "Made by `manage.py harvest_engine_args` from vLLM's source distributions (Apache-2.0). Do not edit by hand."

Options = Mapping[str, Flag]


def options_of(records: Iterable[Mapping[str, Any]]) -> dict[str, Flag]:
    """dest → Flag, from what the probe printed for one release."""
    return {flag.dest: flag for flag in map(from_record, records)}


def fold(releases: Mapping[str, Options]) -> dict[str, Any]:
    """The compact data of these releases, oldest first, options in alphabetical order."""
    order = sorted(releases, key=Version.parse)
    dests = sorted({dest for options in releases.values() for dest in options})
    return {
        "note": NOTE,
        "releases": order,
        "options": {dest: _fold_one(dest, order, releases) for dest in dests},
    }


def unfold(data: Mapping[str, Any]) -> dict[str, dict[str, Flag]]:
    """release → dest → Flag: the inverse of `fold`, save that a help line is the newest one everywhere."""
    order: list[str] = list(data["releases"])
    position = {release: index for index, release in enumerate(order)}
    unfolded: dict[str, dict[str, Flag]] = {release: {} for release in order}
    for dest, option in data["options"].items():
        for first, last, stored in option["spans"]:
            flag = _flag(dest, option["help"], stored)
            for release in order[position[first] : position[last] + 1]:
                unfolded[release][dest] = flag
    return unfolded


def dumps(data: Mapping[str, Any]) -> str:
    """JSON with one option a line, so that a new release reads well as a diff."""
    lines = [f"  {json.dumps(dest)}: {_compact(option)}" for dest, option in data["options"].items()]
    head = f'{{\n "note": {_compact(data["note"])},\n "releases": {_compact(data["releases"])},\n "options": {{\n'
    return head + ",\n".join(lines) + "\n }\n}\n"


def _fold_one(dest: str, order: list[str], releases: Mapping[str, Options]) -> dict[str, Any]:
    spans: list[list[Any]] = []
    help_line, previous = "", None
    for release in order:
        flag = releases[release].get(dest)
        stored = None if flag is None else _stored(flag)
        if stored is not None and stored == previous:
            spans[-1][1] = release
        elif stored is not None:
            spans.append([release, release, stored])
        previous = stored
        help_line = (flag.help_line if flag else "") or help_line
    return {"help": help_line, "spans": spans}


def _stored(flag: Flag) -> dict[str, Any]:
    full = {
        "flags": list(flag.flags),
        "kind": flag.kind,
        "nargs": flag.nargs,
        "choices": None if flag.choices is None else list(flag.choices),
        "default": flag.default,
        "deprecated": flag.deprecated or None,
    }
    return {key: value for key, value in full.items() if value is not None}


def _flag(dest: str, help_line: str, stored: Mapping[str, Any]) -> Flag:
    choices = stored.get("choices")
    return Flag(
        dest=dest,
        flags=tuple(stored["flags"]),
        kind=stored["kind"],
        nargs=stored.get("nargs"),
        choices=None if choices is None else tuple(choices),
        default=stored.get("default"),
        help_line=help_line,
        deprecated=bool(stored.get("deprecated")),
    )


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
