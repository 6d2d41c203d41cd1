"""A launch as files that run without this product: shell script, systemd user unit, docker compose service.

The variables that the launch sets are in them; keys never are: each file reads its key from another one, or from the
environment.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .argv import SecretRef

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Time beyond draining for a server to leave: workers hand back GPU memory.
STOP_MARGIN_S = 30


class CannotExportError(ValueError):
    """Something in the launch cannot be written in this format."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What is exported. `argv` are the arguments after the executable, as `argv.render` gives them; `secrets` says of
    each variable with a key which key it is, `environment` holds the others in clear; `name` becomes file and service
    names; `drain_s` is how long open requests may take after a stop."""

    name: str
    argv: Sequence[str]
    secrets: Mapping[str, SecretRef | str]
    executable: str = "vllm"
    drain_s: int = 30
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """`name` with only what file, unit and service names may hold."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "vllm"


def shell_script(launch: Launch) -> str:
    """A POSIX shell script that becomes the server (exec), with one option a line."""
    for part in launch.argv:
        _refuse_nul(part)
    lines = ["#!/bin/sh", f"# {_one_line(launch.name)}", "set -eu"]
    for variable, secret in launch.secrets.items():
        lines += [
            f"# {secret}: put the key into {variable}, or the name of a file with only the key into {variable}_FILE.",
            f'if [ -n "${{{variable}_FILE:-}}" ]; then',
            f'  {variable}=$(cat "${variable}_FILE")',
            "fi",
            f': "${{{variable}:?set it or {variable}_FILE}}"',
            f"export {variable}",
        ]
    lines += [f"export {variable}={shlex.quote(value)}" for variable, value in _variables(launch)]
    command = " \\\n  ".join(" ".join(shlex.quote(part) for part in group) for group in _groups(launch))
    return "\n".join([*lines, f"exec {command}"]) + "\n"


def systemd_unit(launch: Launch) -> str:
    """A user unit (`systemctl --user`). The key stands in ~/.config/vllm/<slug>.env, readable by its owner only."""
    command = " \\\n  ".join(" ".join(_systemd_quoted(part) for part in group) for group in _systemd_groups(launch))
    keys = [f"# Lines {_described(launch)}; chmod 600.", f"EnvironmentFile=%h/.config/vllm/{launch.slug}.env"]
    keys += [f"ExecStartPre=/bin/sh -c {_systemd_quoted(_guard(variable))}" for variable in launch.secrets]
    lines = [
        "[Unit]",
        f"Description=vLLM: {_one_line(launch.name).replace('%', '%%')}",
        # A wrong model path fails for ever: three tries in ten minutes are enough.
        "StartLimitIntervalSec=600",
        "StartLimitBurst=3",
        "",
        "[Service]",
        "Type=exec",
        *(keys if launch.secrets else ()),
        *(f"Environment={_systemd_assigned(variable, value)}" for variable, value in _variables(launch)),
        f"ExecStart={command}",
        # vLLM's engine and worker processes must go with the API process, or they keep the GPU.
        "KillMode=control-group",
        f"TimeoutStopSec={launch.drain_s + STOP_MARGIN_S}",
        "Restart=on-failure",
        "RestartSec=10",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def compose_service(
    launch: Launch,
    *,
    image: str,
    port: int,
    gpus: int,
    volumes: Sequence[str] = (),
    device_ids: Sequence[str] = (),
) -> str:
    """A docker compose file with one service. `volumes` are directories of the host, mounted read-only at the same
    path; the key stands in <slug>.env beside the file. `device_ids` are the very GPUs, by UUID; else any `gpus` of the
    host."""
    lines = [
        "services:",
        f"  {launch.slug}:",
        f"    image: {_yaml(image)}",
        f"    entrypoint: [{', '.join(map(_yaml, _entrypoint(launch)))}]",
        "    command:",
        *(f"      - {_yaml(part)}" for part in launch.argv),
    ]
    if launch.secrets:
        lines += [f"    # Lines {_described(launch)}; chmod 600."]
        lines += ["    env_file:", f"      - {_yaml(f'./{launch.slug}.env')}"]
    if variables := [f"      {variable}: {_yaml(value)}" for variable, value in _variables(launch)]:
        lines += ["    environment:", *variables]
    lines += ["    ports:", f"      - {_yaml(f'{port}:{port}')}"]
    if volumes:
        lines += ["    volumes:", *(f"      - {_yaml(f'{path}:{path}:ro')}" for path in volumes)]
    lines += [
        "    # Worker processes share memory.",
        "    ipc: host",
        "    init: true",
        f"    restart: {_yaml('on-failure:3')}",
        f"    stop_grace_period: {launch.drain_s + STOP_MARGIN_S}s",
    ]
    if gpus or device_ids:
        which = f"device_ids: [{', '.join(map(_yaml, device_ids))}]" if device_ids else f"count: {gpus}"
        lines += [
            "    deploy:",
            "      resources:",
            "        reservations:",
            "          devices:",
            "            - driver: nvidia",
            f"              {which}",
            "              capabilities: [gpu]",
        ]
    return "\n".join(lines) + "\n"


def _described(launch: Launch) -> str:
    """What the file with the keys has to hold."""
    return ", ".join(f"{variable}=… ({secret})" for variable, secret in launch.secrets.items())


def _guard(variable: str) -> str:
    """A shell command that fails where the key is missing: vLLM would start without one, open to everybody."""
    return f': "${{{variable}:?the key is missing}}"'


def _entrypoint(launch: Launch) -> list[str]:
    if not launch.secrets:
        return [launch.executable]
    guards = "; ".join(map(_guard, launch.secrets))
    return ["/bin/sh", "-ec", f'{guards}; exec "$0" "$@"', launch.executable]


def _variables(launch: Launch) -> Iterator[tuple[str, str]]:
    """Name and value of what stands in the export itself, by name. Raises CannotExportError."""
    for variable, value in sorted(launch.environment.items()):
        if variable in launch.secrets:
            continue
        if not _VARIABLE.fullmatch(variable):
            raise CannotExportError(f"“{variable}” cannot name an environment variable.")
        _refuse_nul(value)
        yield variable, value


def _groups(launch: Launch) -> Iterator[list[str]]:
    """The command with each option and its values together."""
    group = [launch.executable]
    for part in launch.argv:
        if part.startswith("--"):
            yield group
            group = []
        group.append(part)
    yield group


def _systemd_groups(launch: Launch) -> Iterator[list[str]]:
    """systemd wants an absolute path or looks in a fixed list of directories; env looks along PATH."""
    groups = _groups(launch)
    first = next(groups)
    yield first if launch.executable.startswith("/") else ["/usr/bin/env", *first]
    yield from groups


def _systemd_quoted(part: str) -> str:
    """One word of ExecStart: C-like escapes in double quotes, %% and $$ for the characters that systemd expands."""
    _refuse_nul(part)
    return _systemd_word(part.replace("$", "$$"))


def _systemd_assigned(variable: str, value: str) -> str:
    """One assignment of Environment=, where a dollar sign means itself."""
    return _systemd_word(f"{variable}={value}")


def _systemd_word(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    escaped = escaped.replace("%", "%%")
    return escaped if re.fullmatch(r"[A-Za-z0-9_./:=,+@%-]+", escaped) else f'"{escaped}"'


def _yaml(text: str) -> str:
    """A double-quoted YAML scalar (a superset of JSON strings); $$ because compose expands variables."""
    _refuse_nul(text)
    return json.dumps(text, ensure_ascii=False).replace("$", "$$")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _refuse_nul(text: str) -> None:
    if "\0" in text:
        raise CannotExportError("An argument or variable holds a NUL character, which neither can.")
