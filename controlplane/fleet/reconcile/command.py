"""The command line and environment of a launch. The one place where they are made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.configs.domain.argv import API_KEY_VARIABLE, CannotRenderError, Managed, command_line, environment
from controlplane.configs.domain.catalogue import UnsupportedReleaseError, catalogue, find
from controlplane.configs.domain.flags import Flag, plain_name
from controlplane.configs.domain.keys import BY_PLACE, ENGINE
from controlplane.configs.domain.versions import NotAVersionError
from controlplane.core import secrets_store
from controlplane.core.errors import Invalid
from controlplane.fleet.domain import placing
from controlplane.fleet.models import Instance
from controlplane.fleet.services.keys import key_of, new_key
from controlplane.inventory.models import Engine

DRAIN_S = 30
"""How long open requests may take after a stop. Without `--shutdown-timeout` (vLLM 0.18) the engine drops them at once,
and the API process can hang for minutes (seen on 0.32)."""
INJECTED = {"shutdown_timeout": DRAIN_S}

NO_USAGE_REPORT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
OFFLINE = {"HF_HUB_OFFLINE": "1"}

Flags = Mapping[str, Flag]


class CannotRender(Invalid):
    code = "cannot_render"
    remedy = "Correct the config, or choose an engine that has the option."


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` begins with the executable and ends with `injected`, what we add; no secret is in them, nor in `env`."""

    argv: list[str]
    injected: list[str]
    env: dict[str, str]
    api_key: str = field(repr=False)


def command_of(instance: Instance) -> Command:
    """The command of `instance`, with the key its server will ask for: the config's own secret, else the one it was
    given before, else a new random one.

    Raises CannotRender when the engine lacks an option (an overridden check passes it on as it is written), and
    NotFound when the config names a secret that is not there.
    """
    content = instance.config_version.content
    flags = flags_of(instance.engine) or {}
    if instance.override_reason:
        flags = {**flags, **_made_up(content, flags)}
    argv, injected = arguments(content, flags, host=instance.bind, port=instance.port)
    return Command(
        argv=[instance.engine.executable, *argv],
        injected=injected,
        env=_environment(instance, content),
        api_key=_key(instance, content),
    )


def arguments(content: Mapping[str, Any], flags: Flags, *, host: str, port: int) -> tuple[list[str], list[str]]:
    """(all arguments after the executable, those of them that we add). Raises CannotRender."""
    try:
        line = command_line(content, flags=flags, managed=Managed(host=host, port=port, extra=INJECTED))
    except CannotRenderError as error:
        raise CannotRender(str(error)) from None
    return [*line.own, *line.injected], list(line.injected)


def flags_of(engine: Engine) -> Flags | None:
    """The options of this very build, else those of its release; None when neither is known."""
    if engine.option_list is not None:
        return catalogue().from_option_list(engine.option_list.args)
    try:
        return catalogue().flags(engine.version)
    except (NotAVersionError, UnsupportedReleaseError):
        return None


def _made_up(content: Mapping[str, Any], flags: Flags) -> dict[str, Flag]:
    """Options that this engine is not known to have, spelled as the config names them: for an overridden check."""
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


def _environment(instance: Instance, content: Mapping[str, Any]) -> dict[str, str]:
    is_path = str(content.get("model", {}).get("model_path", "")).startswith(("/", "~"))
    is_cpu = instance.engine.device == Engine.Device.CPU
    return {
        **NO_USAGE_REPORT,
        **(OFFLINE if is_path else {}),
        **placing.device_environment(instance.gpu_uuids, is_cpu=is_cpu),
        "VLLM_PORT": str(placing.internal_port(instance.port)),
    }


def _key(instance: Instance, content: Mapping[str, Any]) -> str:
    named = environment(content).get(API_KEY_VARIABLE)
    return secrets_store.reveal(str(named)) if named else key_of(instance) or new_key()
