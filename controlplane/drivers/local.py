"""This machine as a host: the same program as a child process, so that nothing behaves differently here."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.drivers import zipapp
from controlplane.drivers.channel import Channel
from controlplane.drivers.endpoint import Endpoint
from controlplane.drivers.errors import AgentFailed
from controlplane.protocol.wire import MAX_LINE_BYTES

_CLOSE_TIMEOUT_S = 5.0
_STDERR_LINES = 20

# What a login would give. The worker's own environment holds database addresses and keys; engines must not inherit
# those.
_PASSED_ON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}
    | {"XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CUDA_HOME", "CUDA_PATH"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"}
)
_PASSED_ON_PREFIXES = ("LC_", "NVIDIA_")


class LocalLink:
    """A host program on this machine."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel, errors: asyncio.Task[None]) -> None:
        self._process = process
        self._channel = channel
        self._errors = errors

    @classmethod
    async def open(cls, endpoint: Endpoint) -> LocalLink:
        """Start the program and greet it. Raises AgentFailed."""
        root = expanded(endpoint.root)
        try:
            program = await asyncio.to_thread(zipapp.place_in, Path(root, "program"))
            process = await asyncio.create_subprocess_exec(
                *(endpoint.python or sys.executable, "-I", str(program), "session", "--root", root),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
                env=clean_environment(os.environ),
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is meant for the control plane
            )
        except OSError as error:
            raise AgentFailed(f"The host program cannot be started in {root}: {error}.") from error
        if not (process.stdin and process.stdout and process.stderr):
            raise AgentFailed("The host program was started without its pipes.")  # cannot be: asked for above
        said: deque[str] = deque(maxlen=_STDERR_LINES)
        errors = asyncio.create_task(_collect(process.stderr, said))

        async def last_words() -> str:
            await asyncio.wait([errors], timeout=1.0)
            return "\n".join(said)

        link = cls(process, Channel(endpoint.name, process.stdout, process.stdin, last_words=last_words), errors)
        try:
            await link._channel.greet(zipapp.program().digest)
        except BaseException:
            await link.close()
            raise
        return link

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        """See `HostLink.call`."""
        return await self._channel.call(verb, params, timeout_s=timeout_s)

    async def close(self) -> None:
        """End the program by closing its stdin; what it launched lives on."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._channel.close()
        self._errors.cancel()


def expanded(root: str) -> str:
    """`root` with `~` replaced by this user's home directory."""
    return str(Path(root).expanduser())


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of this process's environment that the host program, and every engine after it, may see."""
    return {
        name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }


async def _collect(stream: asyncio.StreamReader, said: deque[str]) -> None:
    """Keep stderr flowing, and its end for messages."""
    while line := await stream.readline():
        said.append(line.decode("utf-8", "replace").rstrip())
