"""Command lines of launches: arguments from a config, and the same launch as files that run without this product."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

from controlplane.configs.domain import exports
from controlplane.configs.domain.argv import (
    API_KEY_VARIABLE,
    CannotRenderError,
    Managed,
    SecretRef,
    command_line,
    environment,
    variables,
)
from controlplane.configs.domain.catalogue import UnsupportedReleaseError, catalogue, find
from controlplane.configs.domain.flags import Flag, plain_name
from controlplane.configs.domain.keys import BY_PLACE, ENGINE
from controlplane.configs.domain.versions import NotAVersionError
from controlplane.configs.queries import ANY_ADDRESS
from controlplane.core.errors import Invalid
from controlplane.fleet.domain import placing
from controlplane.fleet.models import Instance
from controlplane.inventory.models import Engine

DRAIN_S = 30
"""How long open requests may take after a stop. Without `--shutdown-timeout` (vLLM 0.18) the engine drops them at once,
and the API process can hang for minutes (seen on 0.32)."""
INJECTED = {"shutdown_timeout": DRAIN_S}
IMAGE = "vllm/vllm-openai"
# A launch has a key in any case. Where the config names none, the one made for it stays here.
OWN_KEY = "a key that you choose"

Flags = Mapping[str, Flag]
Format = Literal["argv", "shell", "systemd", "compose"]


class CannotRender(Invalid):
    code = "cannot_render"
    remedy = "Correct the config, or choose an engine that has the option."


def arguments(content: Mapping[str, Any], flags: Flags, *, host: str, port: int) -> tuple[list[str], list[str]]:
    """(all arguments after the executable, those of them that we add). Raises CannotRender."""
    try:
        line = command_line(content, flags=flags, managed=Managed(host=host, port=port, extra=INJECTED))
    except CannotRenderError as error:
        raise CannotRender(str(error)) from None
    return [*line.own, *line.injected], list(line.injected)


def arguments_of(instance: Instance) -> tuple[list[str], list[str]]:
    """`arguments` for an instance. Where a failed check was overridden, unknown options pass as they are written."""
    content = instance.config_version.content
    flags = flags_of(instance.engine) or {}
    if instance.override_reason:
        flags = {**flags, **_made_up(content, flags)}
    return arguments(content, flags, host=instance.bind, port=instance.port)


def flags_of(engine: Engine) -> Flags | None:
    """The options of this very build, else those of its release; None when neither is known."""
    if engine.option_list is not None:
        return catalogue().from_option_list(engine.option_list.args)
    try:
        return catalogue().flags(engine.version)
    except (NotAVersionError, UnsupportedReleaseError):
        return None


def exported(instance: Instance, form: Format) -> tuple[list[str], str]:
    """(the command line, the file) of `instance` as it was last launched, or as it would be; the file sets the same
    variables. No key is in either: the files read it from where their comments say. Raises CannotRender."""
    attempt = instance.attempts.exclude(argv=[]).order_by("-number").first()
    argv = list(attempt.argv) if attempt else [instance.engine.executable, *arguments_of(instance)[0]]
    if form == "argv":
        return argv, shlex.join(argv)
    launch = exports.Launch(
        name=instance.name,
        executable=argv[0],
        argv=argv[1:],
        secrets=_keys(instance),
        environment=attempt.environment if attempt else variables_of(instance),
        drain_s=DRAIN_S,
    )
    if form == "compose":
        return argv, _compose(instance, launch)
    return argv, exports.shell_script(launch) if form == "shell" else exports.systemd_unit(launch)


def variables_of(instance: Instance) -> dict[str, str]:
    """What a launch of `instance` sets in the environment of its process, its key apart."""
    is_cpu = instance.engine.device == Engine.Device.CPU
    return {
        **variables(instance.config_version.content),
        **placing.device_environment(instance.gpu_uuids, is_cpu=is_cpu),
        "VLLM_PORT": str(placing.internal_port(instance.port)),
    }


def _keys(instance: Instance) -> Mapping[str, SecretRef | str]:
    return environment(instance.config_version.content) or {API_KEY_VARIABLE: OWN_KEY}


def _compose(instance: Instance, launch: exports.Launch) -> str:
    """The container has a vLLM of its own, an address of its own, and only the GPUs it is given."""
    release = re.match(r"\d+(\.\d+)*", instance.engine.version)
    places = (instance.config_version.value("model", key) for key in ("model_path", "tokenizer_path"))
    argv = [ANY_ADDRESS if before == "--host" else part for before, part in pairwise(["", *launch.argv])]
    return exports.compose_service(
        replace(launch, executable="vllm", argv=argv),
        image=f"{IMAGE}:v{release[0]}" if release else IMAGE,
        port=instance.port,
        gpus=len(instance.gpu_uuids),
        device_ids=instance.gpu_uuids,
        volumes=sorted({str(place) for place in places if str(place or "").startswith("/")}),
    )


def _made_up(content: Mapping[str, Any], flags: Flags) -> dict[str, Flag]:
    """Options that this engine is not known to have, spelled as the config names them."""
    missing = {name for name in _options_in(content) if find(name, flags) is None}
    return {name: Flag(dest=name, flags=("--" + name.replace("_", "-"),), kind="str") for name in missing}


def _options_in(content: Mapping[str, Any]) -> Iterator[str]:
    for section, body in content.items():
        for name in body:
            key = BY_PLACE.get((section, name))
            if section == ENGINE or key is None:
                yield plain_name(name)
            elif key.dest is not None:
                yield key.dest
