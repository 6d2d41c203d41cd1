"""What a failure rule is, and what it may look at."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from controlplane.configs.domain.editing import literal
from controlplane.configs.domain.problem import Edit

from ..config_values import Content, section_of, value
from ..log_lines import LogLine
from ..log_reading import StartupFacts
from ..texts import GIB, gib, grouped

Verb = Literal["set", "lower", "raise", "remove", "replace"]


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory on a GPU. `is_ours` is None when nobody could tell."""

    pid: int
    used_bytes: int
    user: str = ""
    command: str = ""
    is_ours: bool | None = None

    def __str__(self) -> str:
        owner = {True: "ours", False: "not ours", None: "unknown"}[self.is_ours]
        named = " ".join(part for part in (self.user, self.command) if part)
        return f"pid {self.pid} ({named + ', ' if named else ''}{gib(self.used_bytes)}, {owner})"


@dataclass(frozen=True)
class Gpu:
    """A GPU as last probed."""

    uuid: str
    total_bytes: int
    used_bytes: int
    index: int | None = None
    name: str = ""
    processes: tuple[GpuProcess, ...] = ()

    @property
    def free_bytes(self) -> int:
        return self.total_bytes - self.used_bytes


@dataclass(frozen=True)
class Fix:
    """One change of a config that would cure a failure. `value` None removes the key; `also` are edits made with it,
    (section, key, value): what a `replace` writes instead."""

    verb: Verb
    key: str
    value: object = None
    also: tuple[Edit, ...] = ()

    @property
    def section(self) -> str:
        return section_of(self.key)

    @property
    def label(self) -> str:
        """The button's words: "lower max_model_len to 20,480"."""
        if self.verb == "remove":
            return f"remove {self.key}"
        if self.verb == "replace":
            return f"replace {self.key} by {', '.join(f'{key} = {literal(new)}' for _section, key, new in self.also)}"
        return f"{self.verb} {self.key} to {self._shown}"

    @property
    def _shown(self) -> str:
        if isinstance(self.value, bool | dict | list):
            return json.dumps(self.value)
        return grouped(self.value) if isinstance(self.value, int) else str(self.value)


@dataclass(frozen=True)
class Scene:
    """Everything a rule may look at besides its own line. Texts are free of colours and keys; `gpus` are the host's."""

    lines: tuple[LogLine, ...]
    facts: StartupFacts = field(default_factory=StartupFacts)
    content: Content = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()

    def near(self, index: int, pattern: str, *, before: int = 150, after: int = 80) -> bool:
        """Is `pattern` on a line around `index`, such as a frame of its traceback?"""
        found = re.compile(pattern)
        return any(found.search(line.message) for line in self.lines[max(0, index - before) : index + after + 1])

    def earlier(self, index: int, pattern: str) -> bool:
        """Was `pattern` written before line `index`?"""
        found = re.compile(pattern)
        return any(found.search(line.message) for line in self.lines[:index])

    def got_past(self, index: int) -> bool:
        """Did the start reach another step after line `index`?"""
        return any(step.at_line > index + 1 for step in self.facts.steps)

    def setting(self, key: str) -> object | None:
        """The value of a config key: from the content, else from the arguments the log itself prints."""
        held = value(self.content, key)
        if held is not None:
            return held
        printed = re.compile(rf"(?:'{key}': |\b{key}=)(?P<raw>'[^']*'|[\w.+-]+)")
        for line in self.lines:
            if ("args: " in line.message or "with config: " in line.message) and (
                found := printed.search(line.message)
            ):
                raw = found["raw"].strip("'")
                return None if raw == "None" else raw
        return None

    def number(self, key: str) -> float | None:
        """`setting` as a number, or None."""
        try:
            return float(str(self.setting(key)))
        except ValueError:
            return None

    @property
    def holders(self) -> str:
        """The processes on the GPUs in words, largest first; empty when nothing is known."""
        found = sorted((process for gpu in self.gpus for process in gpu.processes), key=lambda p: -p.used_bytes)
        return "; ".join(str(process) for process in found)


Match = re.Match[str]
When = Callable[[Match, Scene, int], bool]
MakeFixes = Callable[[Match, Scene], Iterable[Fix]]
MakeParams = Callable[[Match, Scene], dict[str, str]]


def _always(found: Match, scene: Scene, index: int) -> bool:
    return True


def _nothing(found: Match, scene: Scene) -> Iterable[Fix]:
    return ()


def _no_params(found: Match, scene: Scene) -> dict[str, str]:
    return {}


def got_stuck(found: Match, scene: Scene, index: int) -> bool:
    """For lines that every start may write on its way: only where nothing came of it. Neither a further step of the
    start nor the news that a process died or was told to end."""
    return not scene.got_past(index) and not any(_ENDS.search(line.message) for line in scene.lines[index + 1 :])


_ENDS = re.compile(r"died unexpectedly|exited unexpectedly|EngineDeadError|EngineCore encountered|shutdown triggered")


@dataclass(frozen=True)
class Rule:
    """One known failure.

    `template` and `remedy` are sentences with {name} for the pattern's groups and for what `params` adds. A `symptom`
    (the engine died, something hangs) is only used when no cause is found. Information and warning lines are passed
    over unless `is_said_softly`.
    """

    code: str
    pattern: re.Pattern[str]
    template: str
    remedy: str
    fixes: MakeFixes = _nothing
    params: MakeParams = _no_params
    when: When = _always
    is_symptom: bool = False
    is_said_softly: bool = False

    def match(self, scene: Scene, index: int) -> Match | None:
        """This rule's match on line `index`, or None."""
        line = scene.lines[index]
        is_soft = line.level in {"warning", "debug"} or (line.level == "info" and line.stamp is not None)
        if is_soft and not self.is_said_softly:
            return None
        found = self.pattern.search(line.message)
        return found if found and self.when(found, scene, index) else None


def rule(code: str, pattern: str, template: str, remedy: str, **more: object) -> Rule:
    """A rule with its pattern compiled; for tables."""
    return Rule(code, re.compile(pattern), template, remedy, **more)  # type: ignore[arg-type]


def remove(key: str) -> MakeFixes:
    """The fix that takes a key out."""
    return lambda found, scene: (Fix("remove", key),)


def set_to(key: str, new: object) -> MakeFixes:
    """The fix that sets a key to a value known beforehand."""
    return lambda found, scene: (Fix("set", key, new),)


def whole(text: str) -> int:
    """Read "20,480" or "2048.0"."""
    return int(float(text.replace(",", "")))


def less_utilisation(scene: Scene, *, by: float = 0.05, default: float = 0.9) -> tuple[Fix, ...]:
    """Lower utilisation a step, to 0.85 first where it stands at the default; nothing when it is low already."""
    now = scene.number("gpu_memory_utilization") or default
    target = round(now - by, 2)
    return (Fix("lower", "gpu_memory_utilization", target),) if target >= 0.5 else ()


def more_tensor_parallel(scene: Scene) -> tuple[Fix, ...]:
    """Twice the cards, where the host has them."""
    doubled = int(scene.number("tensor_parallel_size") or 1) * 2
    return (Fix("raise", "tensor_parallel_size", doubled),) if len(scene.gpus) >= doubled else ()


def more_utilisation(scene: Scene, *, by_gib: float | None = None, ceiling: float = 0.95) -> tuple[Fix, ...]:
    """Raise utilisation by what is missing, where the card's size is known; a step of 0.03 otherwise."""
    now = scene.number("gpu_memory_utilization")
    if now is None or now >= ceiling:
        return ()
    totals = [gpu.total_bytes for gpu in scene.gpus]
    step = 0.03 if by_gib is None or not totals else by_gib * GIB / min(totals) + 0.005
    target = round(now + step + 0.0049, 2)
    return (Fix("raise", "gpu_memory_utilization", target),) if target <= ceiling else ()
