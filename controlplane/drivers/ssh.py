"""A host over SSH: pinned host key, the key's text in memory only, optionally through a jump host.

The program is sent once per version and checked by digest; one channel stays open for all calls. Nothing of the user's
own SSH setup is read: no config file, no agent, no known_hosts.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Any, cast

import asyncssh

from controlplane.drivers import host_keys, zipapp
from controlplane.drivers.channel import Channel
from controlplane.drivers.endpoint import Endpoint
from controlplane.drivers.errors import (
    AgentFailed,
    AuthenticationRefused,
    HostKeyChanged,
    KeyUnusable,
    LinkBroken,
    PythonMissing,
    Unreachable,
)
from controlplane.protocol.wire import MAX_LINE_BYTES

_CONNECT_TIMEOUT_S = 15.0
_SETUP_TIMEOUT_S = 30.0
_KEEPALIVE_S = 5.0  # times three unanswered: a dead network is noticed by all callers at once
_KEEPALIVE_COUNT = 3
_PYTHONS = "python3 python3.13 python3.12 python3.11 python3.10 python3.9 /usr/bin/python3 /usr/local/bin/python3"
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 9))"
_DIGEST = (
    "import hashlib, os, sys; p = sys.argv[1]; "
    "print('digest=' + (hashlib.sha256(open(p, 'rb').read()).hexdigest() if os.path.exists(p) else ''))"
)
_RSA_SIGNATURES = ("rsa-sha2-256", "rsa-sha2-512")


class SshLink:
    """One SSH connection (and that of its jump host) with the host program at the other end."""

    def __init__(
        self,
        connections: list[asyncssh.SSHClientConnection],
        process: asyncssh.SSHClientProcess[bytes],
        channel: Channel,
    ) -> None:
        self._connections = connections  # the host's last
        self._process = process
        self._channel = channel

    @classmethod
    async def open(cls, endpoint: Endpoint) -> SshLink:
        """Connect, send the program if it is not there, start it and greet it. Raises HostError."""
        connections = await connect(endpoint)
        try:
            python, digest = await _look_around(connections[-1], endpoint)
            if digest != zipapp.program().digest:
                await _send_program(connections[-1], endpoint)
            process = await _start_program(connections[-1], endpoint, python)
            link = cls(connections, process, _channel(endpoint, process))
            await link._channel.greet(zipapp.program().digest)
        except BaseException:
            await disconnect(connections)
            raise
        return link

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        """See `HostLink.call`."""
        return await self._channel.call(verb, params, timeout_s=timeout_s)

    async def close(self) -> None:
        """Hang up. The program ends with its stdin; what it launched lives on."""
        self._process.close()
        await self._channel.close()
        await disconnect(self._connections)


async def connect(endpoint: Endpoint) -> list[asyncssh.SSHClientConnection]:
    """Log in: the connection to the jump host first, if there is one. Raises HostError."""
    connections: list[asyncssh.SSHClientConnection] = []
    try:
        if endpoint.jump:
            connections = await connect(endpoint.jump)
        connections.append(await _log_in(endpoint, connections[-1] if connections else None))
    except BaseException:
        await disconnect(connections)
        raise
    return connections


async def _log_in(endpoint: Endpoint, tunnel: asyncssh.SSHClientConnection | None) -> asyncssh.SSHClientConnection:
    if not endpoint.host_key:
        raise KeyUnusable(f"No host key is pinned for {endpoint.name}.", "Fetch its host key, compare it, and pin it.")
    pinned = host_keys.load(endpoint.host_key)
    client = _Client(pinned)
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            return await asyncssh.connect(
                endpoint.address,
                endpoint.port,
                username=endpoint.username,
                client_keys=[_private_key(endpoint)],
                client_factory=lambda: client,
                # An empty list of trusted keys: asyncssh then asks our client about every key, and it compares.
                known_hosts=([], [], []),
                server_host_key_algs=_signatures(pinned),
                preferred_auth="publickey",
                agent_path=None,
                config=None,
                tunnel=tunnel or (),
                keepalive_interval=_KEEPALIVE_S,
                keepalive_count_max=_KEEPALIVE_COUNT,
            )
    except TimeoutError as error:
        raise Unreachable(f"{endpoint.name} did not answer in {_CONNECT_TIMEOUT_S:g} s.") from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise _key_changed(endpoint, pinned, client.presented) from error
    except asyncssh.PermissionDenied as error:
        raise AuthenticationRefused(f"{endpoint.name} does not accept this user with this key.") from error
    except (OSError, asyncssh.Error) as error:
        if client.is_connected and client.presented is None:  # it broke before a key was shown
            raise await _no_key_shown(endpoint, pinned, tunnel, error) from error
        raise Unreachable(f"{endpoint.name} cannot be reached: {error}") from error


class _Client(asyncssh.SSHClient):
    """Trusts exactly one host key, and remembers what was shown instead."""

    def __init__(self, pinned: asyncssh.SSHKey) -> None:
        self._pinned = pinned
        self.presented: asyncssh.SSHKey | None = None
        self.is_connected = False

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Called by asyncssh once TCP stands."""
        self.is_connected = True

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called by asyncssh during the key exchange, before anything is sent that matters."""
        self.presented = key
        return key.public_data == self._pinned.public_data


def _signatures(pinned: asyncssh.SSHKey) -> list[str]:
    """Signature algorithms that make the host show its key of the pinned type."""
    kind = pinned.get_algorithm()
    return list(_RSA_SIGNATURES) if kind == "ssh-rsa" else [kind]


def _key_changed(endpoint: Endpoint, pinned: asyncssh.SSHKey, shown: asyncssh.SSHKey | None) -> HostKeyChanged:
    return HostKeyChanged(
        address=endpoint.name,
        expected=pinned.get_fingerprint(),
        presented=shown.get_fingerprint() if shown else "an unreadable key",
    )


async def _no_key_shown(
    endpoint: Endpoint, pinned: asyncssh.SSHKey, tunnel: asyncssh.SSHClientConnection | None, error: Exception
) -> HostKeyChanged | Unreachable:
    """The host has no key of the pinned type any more, or nothing else in common with us: look which of the two."""
    try:
        shown = await host_keys.fetch_async(endpoint, tunnel=tunnel)
    except Unreachable as unreachable:
        return unreachable
    if shown.type == pinned.get_algorithm():
        return Unreachable(f"{endpoint.name} broke off while keys were exchanged: {error}")
    return HostKeyChanged(address=endpoint.name, expected=pinned.get_fingerprint(), presented=shown.fingerprint)


def _private_key(endpoint: Endpoint) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(endpoint.private_key)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError):
        raise KeyUnusable(f"The private key for {endpoint.name} cannot be read.") from None  # the cause may quote it


async def _look_around(connection: asyncssh.SSHClientConnection, endpoint: Endpoint) -> tuple[str, str]:
    """The first Python that is new enough, found by running it, and the digest of the program there ("" if none)."""
    candidates = shlex.quote(endpoint.python) if endpoint.python else _PYTHONS
    script = (
        f"for p in {candidates}; do "
        f"q=$(command -v $p 2>/dev/null) && $q -IS -c {shlex.quote(_NEW_ENOUGH)} >/dev/null 2>&1 && "
        f'printf "python=%s\\n" "$q" && exec "$q" -IS -c {shlex.quote(_DIGEST)} {_program_path(endpoint)}; done; exit 9'
    )
    code, output = await _shell(connection, script)
    found = dict(line.split("=", 1) for line in output.splitlines() if line.startswith(("python=", "digest=")))
    if "digest" in found:
        return found["python"], found["digest"]
    if code == 9:
        raise PythonMissing(f"{endpoint.name} has no Python 3.9 or later among: {candidates}.")
    raise AgentFailed(f"The shell of {endpoint.name} does not work (exit {code}): {output.strip()[-300:]}")


async def _send_program(connection: asyncssh.SSHClientConnection, endpoint: Endpoint) -> None:
    """Put the program on the host. Through `cat`: some hosts have SFTP switched off.

    A transfer that is cut leaves a short file behind, which is not moved into place.
    """
    content, target = zipapp.program().content, _program_path(endpoint)
    script = (
        f'umask 077 && mkdir -p {_folder(endpoint)} && t={target}.$$ && cat > "$t" && '
        f'test $(wc -c < "$t") -eq {len(content)} && mv -f "$t" {target}'
    )
    code, output = await _shell(connection, script, content)
    if code != 0:
        said = output.strip()[-300:]
        raise AgentFailed(f"The host program cannot be stored on {endpoint.name} (exit {code}): {said}")


async def _start_program(
    connection: asyncssh.SSHClientConnection, endpoint: Endpoint, python: str
) -> asyncssh.SSHClientProcess[bytes]:
    command = f"exec {shlex.quote(python)} -I {_program_path(endpoint)} session --root {_remote(endpoint.root)}"
    try:
        return await connection.create_process(_posix(command), encoding=None, window=MAX_LINE_BYTES)
    except asyncssh.Error as error:
        raise AgentFailed(f"The host program cannot be started on {endpoint.name}: {error}") from error


def _channel(endpoint: Endpoint, process: asyncssh.SSHClientProcess[bytes]) -> Channel:
    async def last_words() -> str:
        try:
            async with asyncio.timeout(1.0):
                return (await process.stderr.read(4096)).decode("utf-8", "replace")
        except TimeoutError:
            return ""

    return Channel(endpoint.name, process.stdout, process.stdin, last_words=last_words)


async def _shell(
    connection: asyncssh.SSHClientConnection, script: str, content: bytes | None = None
) -> tuple[int, str]:
    """Run a POSIX shell script whatever the user's login shell is; exit status and output."""
    try:
        async with asyncio.timeout(_SETUP_TIMEOUT_S):
            done = await connection.run(_posix(script), input=content or b"", encoding=None)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        raise LinkBroken(f"The connection broke while the host was prepared: {error}") from error
    output = cast(bytes, done.stdout or b"") + cast(bytes, done.stderr or b"")
    return (done.returncode if done.returncode is not None else -1), output.decode("utf-8", "replace")


def _posix(script: str) -> str:
    return f"exec sh -c {shlex.quote(script)}"


def _folder(endpoint: Endpoint) -> str:
    return f"{_remote(endpoint.root)}/program"


def _program_path(endpoint: Endpoint) -> str:
    return f"{_folder(endpoint)}/{zipapp.program().file_name}"


def _remote(path: str) -> str:
    """Quote a path for the host's shell, leaving a leading `~` to the host's own home directory."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{shlex.quote(path[1:])}' if path != "~" else '"$HOME"'
    return shlex.quote(path)


async def disconnect(connections: list[asyncssh.SSHClientConnection]) -> None:
    """Hang up, the host first, then its jump host."""
    for connection in reversed(connections):
        connection.abort()
        await connection.wait_closed()
