"""What can go wrong between here and a host. One class per cause: a code, a sentence, and what to do about it."""

# ruff: noqa: N818 - the names say what happened

from __future__ import annotations


class HostError(Exception):
    """Base of everything that `call` raises."""

    code = "host_error"
    remedy = ""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if remedy is not None:
            self.remedy = remedy


class Unreachable(HostError):
    """No connection: name, network, firewall, or no sshd."""

    code = "unreachable"
    remedy = "Check address and port, that the machine is up, and that sshd listens there."


class StillOpening(Unreachable):
    """The connection is being opened, and the caller would not wait: says nothing about the host yet."""

    code = "still_opening"
    remedy = "The opening goes on; ask again in a moment."


class AuthenticationRefused(HostError):
    """The host does not accept this user with this key."""

    code = "authentication_refused"
    remedy = "Add the public key to the user's ~/.ssh/authorized_keys on the host, or choose another key or user."


class HostKeyChanged(HostError):
    """The host shows another key than the pinned one. Nothing is sent to it."""

    code = "host_key_changed"
    remedy = (
        "If the machine was reinstalled, compare the new fingerprint on its console and pin it again; "
        "otherwise somebody may be between you and the host."
    )

    def __init__(self, *, address: str, expected: str, presented: str) -> None:
        super().__init__(f"{address} shows host key {presented}, but {expected} is pinned.")
        self.expected = expected
        self.presented = presented


class KeyUnusable(HostError):
    """The private key or the pinned host key cannot be read. Their text is in no message."""

    code = "key_unusable"
    remedy = "Store an OpenSSH private key without a passphrase."


class PythonMissing(HostError):
    """No Python 3.9 or later on the host."""

    code = "python_missing"
    remedy = "Install python3 (3.9 or later) on the host, or name its path in the host's settings."


class AgentFailed(HostError):
    """The host program cannot be brought to the host, does not start, or speaks another protocol."""

    code = "agent_failed"
    remedy = "Check that the root directory on the host can be written and is not full."


class LinkBroken(HostError):
    """The connection ended while an answer was awaited; whether the request was carried out is not known."""

    code = "link_broken"
    remedy = "It is opened again with the next call."


class CallTimedOut(HostError):
    """No answer in time; the host may still be at it."""

    code = "call_timed_out"
    remedy = "Look at the host's load and network; ask again."


class HostRefused(HostError):
    """The host program answered with a refusal; code, sentence and remedy are its own."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.code = code
