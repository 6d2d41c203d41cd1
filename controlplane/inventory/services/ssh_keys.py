"""Private keys that people paste: checked to open, kept in the secret store, recognised by their fingerprint."""

from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.utils.translation import gettext as _

from controlplane.core import secrets_store
from controlplane.core.errors import Invalid
from controlplane.core.models import Secret
from controlplane.inventory.domain.addresses import Fault, faults_of_private_key, fingerprint_of


@dataclass(frozen=True, slots=True)
class KeyDescription:
    """The public half of a private key: what goes into `authorized_keys`, and its fingerprint."""

    public_key: str
    fingerprint: str

    @property
    def hint(self) -> str:
        return f"{self.public_key.split()[0]} {self.fingerprint}"


def store_key(*, name: str, text: str, actor: str) -> Secret:
    """Keep a pasted private key under a free name like `name`. Raises Invalid when it does not open."""
    described = describe_key(text)
    return secrets_store.store(
        name=secrets_store.free_name(name),
        kind=Secret.Kind.SSH_KEY,
        plain=normalised(text),
        actor=actor,
        hint=described.hint,
    )


def describe_key(text: str) -> KeyDescription:
    """Open a private key without passphrase. Raises Invalid, naming the field `new_key`; the text is never repeated."""
    faults = faults_of_private_key(text)
    if faults:
        raise invalid(faults)
    data = normalised(text).encode()
    load = (
        serialization.load_ssh_private_key
        if "BEGIN OPENSSH PRIVATE KEY" in text
        else serialization.load_pem_private_key
    )
    try:
        key = load(data, password=None)
    except TypeError:  # how both loaders say that a passphrase is needed
        raise invalid([Fault("new_key", _("This key has a passphrase."), _without_passphrase())]) from None
    except (ValueError, UnsupportedAlgorithm):
        raise invalid(
            [Fault("new_key", _("This private key cannot be read."), _("Paste the file again, whole and unchanged."))]
        ) from None
    try:
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (AttributeError, ValueError, UnsupportedAlgorithm):
        raise invalid([Fault("new_key", _("SSH cannot use a key of this kind."), _without_passphrase())]) from None
    return KeyDescription(public_key=public, fingerprint=fingerprint_of(public))


def is_same_key(secret: Secret | None, text: str) -> bool:
    """Whether a stored key is the private key in `text`, told by its fingerprint."""
    return secret is not None and secret.hint == describe_key(text).hint


def normalised(text: str) -> str:
    """As OpenSSH writes it: a browser sends CRLF, and people lose the last line end."""
    return "\n".join(line.strip() for line in text.strip().splitlines()) + "\n"


def invalid(faults: list[Fault]) -> Invalid:
    """Every fault in one refusal; forms put each beside its field."""
    return Invalid(
        faults[0].message if len(faults) == 1 else _("Some fields cannot be used; nothing was changed."),
        remedy=faults[0].remedy if len(faults) == 1 else _("See “problems”."),
        extra={"problems": [{"field": f.field, "message": f.message, "remedy": f.remedy} for f in faults]},
    )


def _without_passphrase() -> str:
    return _("Make one for this product: ssh-keygen -t ed25519 -N '' -f vllm-controlplane; it is kept encrypted here.")
