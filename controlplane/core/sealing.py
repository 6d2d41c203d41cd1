"""Secrets at rest: encrypted with the key file, each bound to the row it belongs to."""

import base64
import hashlib
import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from controlplane.core.errors import Problem


class Unreadable(Problem):
    """The key file in use cannot open this secret."""

    code = "secret_unreadable"
    remedy = "Put the key file back that this installation was made with, or store the secret again."


def seal(plain: str, *, bound_to: str) -> bytes:
    """Encrypt `plain`; it opens only with the same `bound_to` (so a ciphertext moved to another row stays shut)."""
    return _fernet().encrypt(json.dumps([bound_to, plain]).encode())


def unseal(token: bytes, *, bound_to: str) -> str:
    try:
        owner, plain = json.loads(_fernet().decrypt(bytes(token)))
    except InvalidToken:
        raise Unreadable(f"The secret {bound_to} cannot be read with the present key file.") from None
    if owner != bound_to:
        raise Unreadable(f"The secret stored for {bound_to} belongs to something else.")
    return str(plain)


def digest(text: str) -> str:
    """The hash a token is looked up by: 256 random bits need no slow hash, and no key that may be rotated."""
    return hashlib.sha256(b"token:" + text.encode()).hexdigest()


def _fernet() -> MultiFernet:
    derived = (hashlib.sha256(b"secrets:" + key.encode()).digest() for key in settings.MASTER_KEYS)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])
