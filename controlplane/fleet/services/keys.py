"""The key of an instance's own vLLM server: sealed at rest, known to probes, load generator and gateway only."""

import secrets

from controlplane.core import sealing
from controlplane.fleet.models import Instance


def new_key() -> str:
    """A key nobody chose: 256 random bits."""
    return "vcpi_" + secrets.token_urlsafe(32)


def seal_key(instance: Instance, plain: str) -> bytes:
    return sealing.seal(plain, bound_to=f"instance:{instance.name}")


def key_of(instance: Instance) -> str:
    """The key the instance's server asks for, for handing it to whoever talks to it; never for showing it. "" before
    the first start."""
    sealed = bytes(instance.sealed_key)
    return sealing.unseal(sealed, bound_to=f"instance:{instance.name}") if sealed else ""
