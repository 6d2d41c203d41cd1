"""Whether a config can run on a vLLM: every option against the options of that release or build."""

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from .catalogue import FlagHistory, catalogue, find, nearest_name
from .editing import literal
from .fitting import fits_flag, not_a_choice, wanted
from .flags import Flag
from .keys import BY_PLACE
from .problem import Edit, Problem
from .replacing import edits_instead_of
from .syntax import label
from .values import described


class Placed(Protocol):
    """A document or a reading: content that knows where its keys stand."""

    @property
    def content(self) -> Mapping[str, Mapping[str, Any]]: ...

    def place(self, section: str, key: str) -> tuple[int, int]: ...


# How the catalogue writes defaults that are no plain value.
_OBJECT = re.compile(r"<(\w+)>")
_UNSET = "<_UnsetType>"

Content = Mapping[str, Mapping[str, Any]]
Id = TypeVar("Id", bound=Hashable)


def check(subject: Placed | Content, *, flags: Mapping[str, Flag], version: str) -> tuple[Problem, ...]:
    """What would not work with these options, in the order of the file for a document.

    `flags` are the options of the release or, better, of the very build (`Catalogue.from_option_list`); `version` is
    for the words and for looking up when an option came or went.
    """
    checker = _Checker(subject, flags, version)
    content = checker.content
    problems = [problem for section, body in content.items() for problem in checker.section(section, body)]
    if not content.get("model", {}).get("model_path"):
        problems.insert(0, _no_model())
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))


def what_breaks(contents: Mapping[Id, Content], version: str) -> dict[Id, tuple[Problem, ...]]:
    """For each config that has any, its problems if its engine were `version`. Raises UnsupportedReleaseError."""
    flags = catalogue().flags(version)
    checked = {key: check(content, flags=flags, version=version) for key, content in contents.items()}
    return {key: problems for key, problems in checked.items() if problems}


def moved_defaults(content: Content, *, before: str, after: str) -> tuple[Problem, ...]:
    """Options that the config leaves alone and whose default is another one in `after`: information, not errors."""
    dests = {_dest(section, name) for section, body in content.items() for name in body}
    return tuple(
        Problem(
            code="default_changed",
            line=None,
            column=None,
            key=dest,
            message=f"The default is {_default(new)} in vLLM {after}; it was {_default(old)} in {before}.",
            remedy="Write the value that you want if it matters.",
            severity="info",
        )
        for dest, (old, new) in catalogue().changed_defaults(before, after).items()
        if dest not in dests
    )


def _default(value: Any) -> str:
    """A default as a config would write it; vLLM's config objects are known by their name only."""
    if value is None or value == _UNSET:
        return "no value"
    if isinstance(value, str) and (found := _OBJECT.fullmatch(value)):
        return f"what {found[1]} has by itself"
    return literal(value)


def _dest(section: str, name: str) -> str | None:
    """vLLM's name for a key of a config; None for api_key, which is no argument."""
    key = BY_PLACE.get((section, name))
    return key.dest if key else name


class _Checker:
    """One config against one set of options."""

    def __init__(self, subject: Placed | Content, flags: Mapping[str, Flag], version: str) -> None:
        self.content = subject if isinstance(subject, Mapping) else subject.content
        self._subject = subject
        self._flags = flags
        self._version = version

    def section(self, section: str, body: Mapping[str, Any]) -> Iterator[Problem]:
        for name, value in body.items():
            dest = _dest(section, name)
            if dest is not None:
                yield from self._option(section, name, dest, value)

    def _option(self, section: str, name: str, dest: str, value: Any) -> Iterator[Problem]:
        flag = find(dest, self._flags)
        if flag is None:
            yield self._missing(section, name, dest)
            return
        if flag.deprecated:
            yield self._deprecated(section, name, flag)
        if not fits_flag(value, flag):
            message = f"vLLM {self._version} wants {wanted(flag)} for {flag.option}, not {described(value)}."
            yield self._problem("wrong_type", section, name, message, "Correct the value.")
        elif value is False and flag.only_turns_on:
            message = f"{flag.option} cannot be turned off in vLLM {self._version}."
            yield self._problem(
                "wrong_choice", section, name, message, "Remove the key.", None, ((section, name, None),)
            )
        elif (wrong := not_a_choice(value, flag)) is not None:
            yield self._wrong_choice(section, name, flag, wrong)

    def _missing(self, section: str, name: str, dest: str) -> Problem:
        option = "--" + dest.replace("_", "-")
        known = catalogue()
        history = known.history(known.dest_of(dest) or dest)
        fix = ((section, name, None),)
        if history is None:
            return self._unknown(section, name, option)
        reached = known.releases.index(known.release_for(self._version))
        if history.removed_in and known.releases.index(history.removed_in) <= reached:
            return self._removed(section, name, option, history)
        if history.added_in and known.releases.index(history.added_in) > reached:
            message = f"{option} came with vLLM {history.added_in}; this engine is {self._version}."
            return self._problem("too_new", section, name, message, "Remove the key or use a newer engine.", None, fix)
        message = f"This build of vLLM {self._version} has no {option}, though the release does."
        return self._problem("not_in_build", section, name, message, "Remove the key or use another build.", None, fix)

    def _removed(self, section: str, name: str, option: str, history: FlagHistory) -> Problem:
        message = f"vLLM has no {option} since {history.removed_in}; {history.last_in} was the last with it."
        replacement = history.replacement if history.replacement in self._flags else None
        release = catalogue().release_for(self._version)
        edits = edits_instead_of(section, name, content=self.content, flags=self._flags, release=release)
        remedy = f"{history.note} {_advice(edits, replacement)}".strip()
        return self._problem("removed", section, name, message, remedy, replacement, edits)

    def _unknown(self, section: str, name: str, option: str) -> Problem:
        plain = name.removeprefix("no_")
        if plain != name and find(plain, self._flags) is not None:
            message = f"vLLM {self._version} has no {option} as a key."
            remedy = f"Write {plain} = false."
            return self._problem("unknown_flag", section, name, message, remedy, f"{plain} = false")
        close = nearest_name(name, self._flags.values())
        message = f"vLLM {self._version} has no {option}, and no known release had it."
        remedy = f"Did you mean {close}?" if close else "Remove the key."
        return self._problem("unknown_flag", section, name, message, remedy, close, ((section, name, None),))

    def _deprecated(self, section: str, name: str, flag: Flag) -> Problem:
        history = catalogue().history(flag.dest)
        gone = f" It is gone in {history.removed_in}." if history and history.removed_in else ""
        message = f"{flag.option} is deprecated in vLLM {self._version}.{gone}"
        remedy = (history.note if history else "") or flag.help_line
        replacement = history.replacement if history and history.replacement in self._flags else None
        return self._problem("deprecated", section, name, message, remedy, replacement, severity="warning")

    def _wrong_choice(self, section: str, name: str, flag: Flag, wrong: Any) -> Problem:
        choices = [str(choice) for choice in flag.choices or ()]
        message = f"vLLM {self._version} does not know “{wrong}” for {flag.option}."
        same = next((choice for choice in choices if _folded(choice) == _folded(wrong)), None)
        remedy = f"Write {same}." if same else f"Write one of {', '.join(choices)}."
        return self._problem("wrong_choice", section, name, message, remedy, same)

    def _problem(
        self,
        code: str,
        section: str,
        name: str,
        message: str,
        remedy: str,
        replacement: str | None = None,
        fix: tuple[tuple[str, str, object], ...] = (),
        severity: Any = "error",
    ) -> Problem:
        subject = self._subject
        line, column = (None, None) if isinstance(subject, Mapping) else subject.place(section, name)
        return Problem(code, line, column, label(section, name), message, remedy, replacement, severity, fix)


def _no_model() -> Problem:
    message = "No model is named; vLLM would silently serve a small default model."
    return Problem("no_model", None, None, "[model] model_path", message, "Write model_path below [model].")


def _advice(edits: tuple[Edit, ...], replacement: str | None) -> str:
    """What to do about a removed option, after the reason why it went."""
    written = [f"{key} = {literal(value)}" for _section, key, value in edits if value is not None]
    if written:
        return f"Write {' and '.join(written)} below [engine]."
    if edits:
        return "Remove the key."
    return f"Use {replacement}." if replacement else "Remove the key if you can do without."


def _folded(word: Any) -> str:
    return str(word).lower().replace("-", "_")
