"""Host keys: fetched and shown on first contact, pinned, compared ever after."""

from __future__ import annotations

import asyncio

import asyncssh

from controlplane.drivers.endpoint import Endpoint, HostKey
from controlplane.drivers.errors import KeyUnusable, Unreachable

_CONNECT_TIMEOUT_S = 15.0


def from_ssh(key: asyncssh.SSHKey) -> HostKey:
    """A key as it is shown and pinned."""
    kind, text = key.export_public_key().decode().split()[:2]
    return HostKey(type=kind, text=f"{kind} {text}", fingerprint=key.get_fingerprint())


def parse(text: str) -> HostKey:
    """Read a pinned key (`type base64`, with or without a comment). Raises KeyUnusable."""
    return from_ssh(load(text))


def load(text: str) -> asyncssh.SSHKey:
    """The same as a key object for asyncssh."""
    try:
        return asyncssh.import_public_key(text.strip())
    except (asyncssh.KeyImportError, ValueError) as error:
        raise KeyUnusable("The pinned host key cannot be read.", "Fetch and pin the host key again.") from error


async def fetch_async(endpoint: Endpoint, *, tunnel: asyncssh.SSHClientConnection | None = None) -> HostKey:
    """The key that the host shows now; nothing is trusted and nobody logs in. Raises Unreachable."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            key = await asyncssh.get_server_host_key(endpoint.address, endpoint.port, tunnel=tunnel or (), config=None)
    except TimeoutError as error:
        raise Unreachable(f"{endpoint.name} did not answer in {_CONNECT_TIMEOUT_S:g} s.") from error
    except (OSError, asyncssh.Error) as error:
        raise Unreachable(f"{endpoint.name} cannot be reached: {error}") from error
    if key is None:
        raise Unreachable(f"{endpoint.name} shows no host key.")
    return from_ssh(key)
