"""The whole command of a launch: words, environment, key. The one place where they come together."""

from dataclasses import dataclass, field

from controlplane.configs.domain.argv import API_KEY_VARIABLE, environment
from controlplane.core import secrets_store
from controlplane.fleet.models import Instance
from controlplane.fleet.services.keys import key_of, new_key
from controlplane.fleet.services.rendering import arguments_of, variables_of


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
        env=variables_of(instance),
        api_key=_key(instance),
    )


def _key(instance: Instance) -> str:
    named = environment(instance.config_version.content).get(API_KEY_VARIABLE)
    return secrets_store.reveal(str(named)) if named else key_of(instance) or new_key()
