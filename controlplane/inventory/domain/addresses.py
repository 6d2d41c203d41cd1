"""What a person types to say where a host is, checked in one pass."""

import base64
import binascii
import hashlib
import ipaddress
import re
from dataclasses import dataclass
from struct import error as struct_error
from struct import unpack_from

_NAME = re.compile(r"^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$")
_HOSTNAME = re.compile(r"^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?$")
_USERNAME = re.compile(r"^[A-Za-z_][A-Za-z0-9._-]{0,31}\$?$")
_FINGERPRINT = re.compile(r"^SHA256:[A-Za-z0-9+/]{43}=?$")
_PRIVATE_KEY = re.compile(
    r"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s.+\s-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*$", re.S
)
MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that cannot be used: the field, what is wrong, what to write instead."""

    field: str
    message: str
    remedy: str = ""


def faults_of_name(name: str) -> list[Fault]:
    if _NAME.match(name):
        return []
    return [
        Fault(
            "name",
            f"“{name}” cannot name a host." if name else "The host has no name.",
            "Use lower-case letters, digits and -, at most 80, starting and ending with a letter or digit.",
        )
    ]


def faults_of_ssh(*, address: str, port: int, username: str) -> list[Fault]:
    """Everything wrong with an SSH address, not only the first fault."""
    faults = []
    if not _is_address(address):
        message = f"“{address}” is neither a host name nor an IP address." if address else "The address is missing."
        faults.append(
            Fault("address", message, "Write it without user, port or ssh://, for example gpu-1.example.org.")
        )
    if not 1 <= port <= MAX_PORT:
        faults.append(
            Fault("port", f"{port} is not a port.", f"SSH listens on a port from 1 to {MAX_PORT}, mostly 22.")
        )
    if not _USERNAME.match(username):
        message = f"“{username}” is not a user name." if username else "The user name is missing."
        faults.append(Fault("username", message, "Name the account that runs vLLM there; it needs no root."))
    return faults


def faults_of_fingerprint(fingerprint: str) -> list[Fault]:
    if _FINGERPRINT.match(fingerprint):
        return []
    return [
        Fault(
            "expected_fingerprint",
            "This is not a SHA-256 fingerprint.",
            "On the host: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; copy the word that starts with SHA256:.",
        )
    ]


def faults_of_private_key(text: str) -> list[Fault]:
    """Only the outside is looked at; whether it opens is the SSH library's to say."""
    if _PRIVATE_KEY.match(text.strip()):
        return []
    remedy = "Paste the whole file, from -----BEGIN … PRIVATE KEY----- to -----END … PRIVATE KEY-----."
    if text.strip().startswith(("ssh-", "ecdsa-")):
        return [Fault("new_key", "This is the public half of a key.", remedy)]
    return [Fault("new_key", "This is not a private key.", remedy)]


def is_same_fingerprint(one: str, other: str) -> bool:
    """OpenSSH leaves out the padding, other tools write it."""
    return one.rstrip("=") == other.rstrip("=")


def fingerprint_of(public_key: str) -> str:
    """`SHA256:…` of a public key written as type and base64; ValueError when it is none."""
    words = public_key.split()
    try:
        blob = base64.b64decode(words[1], validate=True)
        (length,) = unpack_from(">I", blob)
    except (IndexError, binascii.Error, struct_error):
        raise ValueError("not a public key: expected a type and base64, as in ssh_host_ed25519_key.pub") from None
    if blob[4 : 4 + length] != words[0].encode():
        raise ValueError(f"the key calls itself {words[0]} but is something else")
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def key_file_kind(key_type: str) -> str:
    """ "ed25519" of "ssh-ed25519": how sshd names the file of a key of that type."""
    return "ecdsa" if key_type.startswith("ecdsa") else key_type.removeprefix("ssh-") or "ed25519"


def _is_address(address: str) -> bool:
    try:
        ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return bool(_HOSTNAME.match(address))
    return True
