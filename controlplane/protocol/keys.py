"""API keys as they travel: in the Authorization header of HTTP."""

from __future__ import annotations


def is_sendable(key: str) -> bool:
    """Whether a header can carry the key as it is: printable ASCII on one line."""
    return key.isascii() and key.isprintable()
