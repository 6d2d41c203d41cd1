"""Command lines as people may see them: values of keys, tokens and secrets replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "[redacted]"

_SECRET_OPTION = re.compile(r"^--?[\w.-]*(key|token|secret|password|passwd)$", re.IGNORECASE)
_SECRET_ASSIGNMENT = re.compile(r"^(-*[\w.-]*(?:key|token|secret|password|passwd))=(.*)$", re.IGNORECASE | re.DOTALL)
_CREDENTIALS_IN_URL = re.compile(r"(\w+://)[^/\s@]+@")


def redact(argv: Iterable[str]) -> list[str]:
    """Return `argv` with secret values replaced by `[redacted]`.

    Covers `--api-key VALUE…` (vLLM takes several), `--api-key=VALUE`, `HF_TOKEN=VALUE` and credentials inside a URL.
    """
    shown: list[str] = []
    hiding = False
    for word in argv:
        if word.startswith("-") and len(word) > 1:
            hiding = bool(_SECRET_OPTION.match(word))
            shown.append(_redact_word(word))
        else:
            shown.append(HIDDEN if hiding else _redact_word(word))
    return shown


def _redact_word(word: str) -> str:
    assignment = _SECRET_ASSIGNMENT.match(word)
    if assignment:
        return f"{assignment.group(1)}={HIDDEN}"
    return _CREDENTIALS_IN_URL.sub(rf"\1{HIDDEN}@", word)
