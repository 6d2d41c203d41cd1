"""Where a host is and how to get in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

DEFAULT_ROOT = "~/.local/state/vllm-controlplane-host"


@dataclass(frozen=True)
class HostKey:
    """A host's public key. `text` is what gets pinned: `type base64` as in known_hosts, without the host's name."""

    type: str
    text: str
    fingerprint: str  # SHA256:… as ssh-keygen shows it


@dataclass(frozen=True)
class Endpoint:
    """Everything needed to reach one host. Equal endpoints share one connection.

    `root` is the directory on the host that belongs to this control plane; `python` an interpreter to use instead of
    the first fitting one. For SSH, `private_key` is the key's text and `host_key` the pinned `HostKey.text`; without
    it nothing connects.
    """

    kind: Literal["local", "ssh"] = "local"
    address: str = "localhost"
    port: int = 22
    username: str = ""
    private_key: str = field(default="", repr=False)
    host_key: str = field(default="", repr=False)
    jump: Endpoint | None = None
    root: str = DEFAULT_ROOT
    python: str = ""

    @property
    def name(self) -> str:
        """As people read it in messages."""
        return "localhost" if self.kind == "local" else f"{self.username}@{self.address}:{self.port}"


class HostLink(Protocol):
    """An open way to one host's program."""

    @property
    def is_open(self) -> bool:
        """Whether a call has a chance."""

    async def call(self, verb: str, params: dict[str, Any], *, timeout_s: float) -> Any:
        """Ask for one verb and return its result (JSON values). Calls run side by side. Raises HostError."""

    async def close(self) -> None:
        """Let go of the host. What runs there runs on."""
