"""The one place where a config becomes a command line."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .catalogue import find
from .flags import Flag
from .keys import BY_PLACE, ENGINE, KEYS
from .structure import SECRET_PREFIX

API_KEY_VARIABLE = "VLLM_API_KEY"
NO_USAGE_REPORT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
OFFLINE = {"HF_HUB_OFFLINE": "1"}

Content = Mapping[str, Mapping[str, Any]]


class CannotRenderError(ValueError):
    """The config has no command line for this engine; `check` says why in more words."""


@dataclass(frozen=True, slots=True)
class SecretRef:
    """The name of a secret; its value is put into the environment on the host and nowhere else."""

    name: str

    def __str__(self) -> str:
        return f"{SECRET_PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class Managed:
    """What the launcher decides instead of the config.

    `host` and `port` win over the config's where they are given. `extra` are options by vLLM's name that the control
    plane adds on its own account; the ones this vLLM does not have are left out, and the config's own setting wins.
    """

    host: str | None = None
    port: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`own` comes from the config (host and port included), `injected` from the control plane; `left_out` are options
    that it would have added and this vLLM does not have."""

    own: tuple[str, ...]
    injected: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def render(content: Content, *, flags: Mapping[str, Flag], managed: Managed) -> list[str]:
    """The arguments after the executable: `serve MODEL --host …`. Raises CannotRenderError."""
    line = command_line(content, flags=flags, managed=managed)
    return [*line.own, *line.injected]


def command_line(content: Content, *, flags: Mapping[str, Flag], managed: Managed) -> CommandLine:
    """`render`, with what the control plane adds kept apart.

    Order: the keys of the sections as documented, then options of [engine] by name, then what is injected.
    """
    model = content.get("model", {}).get("model_path")
    if not model:
        raise CannotRenderError("The config names no model: write model_path below [model].")
    own = ["serve", str(model)]
    for name, value in _settings(content, managed):
        own += _option(name, value, flags)
    extra = {name: value for name, value in sorted(managed.extra.items()) if not _is_given(content, name)}
    there = {name: value for name, value in extra.items() if find(name, flags) is not None}
    injected = [part for name, value in there.items() for part in _option(name, value, flags)]
    return CommandLine(tuple(own), tuple(injected), tuple(name for name in extra if name not in there))


def environment(content: Content) -> dict[str, SecretRef]:
    """Variables the server needs that are secrets: the API key never is an argument."""
    reference = content.get("server", {}).get("api_key")
    return {} if not reference else {API_KEY_VARIABLE: SecretRef(str(reference).removeprefix(SECRET_PREFIX))}


def variables(content: Content) -> dict[str, str]:
    """Variables in clear that every launch of this config sets, wherever it runs: no usage reports, and no hub for a
    model that is a directory. A config cannot name variables of its own."""
    model = str(content.get("model", {}).get("model_path", ""))
    return {**NO_USAGE_REPORT, **(OFFLINE if model.startswith(("/", "~")) else {})}


def _settings(content: Content, managed: Managed) -> Iterator[tuple[str, Any]]:
    """(vLLM's name, value) in the order of the command line."""
    override = {"host": managed.host, "port": managed.port}
    for key in KEYS:
        value = content.get(key.section, {}).get(key.name)
        if key.section == "server" and override.get(key.name) is not None:
            value = override[key.name]
        if value is not None and key.dest is not None and key.name != "model_path":
            yield key.dest, value
    yield from sorted(content.get(ENGINE, {}).items())


def _is_given(content: Content, dest: str) -> bool:
    if dest in content.get(ENGINE, {}):
        return True
    return any(key.dest == dest and name in content.get(section, {}) for (section, name), key in BY_PLACE.items())


def _option(name: str, value: Any, flags: Mapping[str, Flag]) -> list[str]:
    flag = find(name, flags)
    if flag is None:
        raise CannotRenderError(f"This vLLM has no --{name.replace('_', '-')}.")
    if isinstance(value, bool):
        return _switch(flag, value)
    if not flag.takes_many:
        return _pair(flag.option, _text(value, flag))
    items = value if isinstance(value, list) else [value]
    texts = [_text(item, flag) for item in items]
    if flag.nargs is None:  # an option that is repeated
        return [part for text in texts for part in _pair(flag.option, text)]
    return [flag.option, *texts]


def _switch(flag: Flag, on: bool) -> list[str]:
    if on:
        return [flag.option]
    if flag.negative is not None:
        return [flag.negative]
    # vLLM 0.8 has switches that take true or false; a switch that can only be turned on is off when absent.
    return [flag.option, "false"] if flag.nargs == "?" and flag.kind == "bool" else []


def _pair(option: str, text: str) -> list[str]:
    """A value that begins with a dash would be taken for an option of its own."""
    return [f"{option}={text}"] if text.startswith("-") else [option, text]


def _text(value: Any, flag: Flag) -> str:
    if isinstance(value, (dict, list)) or (flag.scalar_kind == "json" and not isinstance(value, str)):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
