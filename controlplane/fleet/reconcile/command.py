"""The whole command of a launch: words, environment, key. The one place where they come together."""

from dataclasses import dataclass, field

from controlplane.configs.domain.argv import API_KEY_VARIABLE, environment
from controlplane.core import secrets_store
from controlplane.fleet.domain import placing
from controlplane.fleet.models import Instance
from controlplane.fleet.services.keys import key_of, new_key
from controlplane.fleet.services.rendering import arguments_of
from controlplane.inventory.models import Engine

NO_USAGE_REPORT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
OFFLINE = {"HF_HUB_OFFLINE": "1"}


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

    Raises CannotRender when the engine lacks an option, and NotFound when the config names a secret that is not there.
    """
    argv, injected = arguments_of(instance)
    return Command(
        argv=[instance.engine.executable, *argv],
        injected=injected,
        env=_environment(instance),
        api_key=_key(instance),
    )


def _environment(instance: Instance) -> dict[str, str]:
    model = str(instance.config_version.value("model", "model_path", ""))
    is_cpu = instance.engine.device == Engine.Device.CPU
    return {
        **NO_USAGE_REPORT,
        **(OFFLINE if model.startswith(("/", "~")) else {}),
        **placing.device_environment(instance.gpu_uuids, is_cpu=is_cpu),
        "VLLM_PORT": str(placing.internal_port(instance.port)),
    }


def _key(instance: Instance) -> str:
    named = environment(instance.config_version.content).get(API_KEY_VARIABLE)
    return secrets_store.reveal(str(named)) if named else key_of(instance) or new_key()
