"""What a config read says that only this installation knows, and its problems made ready to be shown."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from controlplane.configs.domain.document import Reading
from controlplane.configs.domain.problem import Problem
from controlplane.configs.domain.structure import SECRET_PREFIX
from controlplane.core.models import Secret

_ASSIGNED_KEY = re.compile(r"((?:api[-_]?key|hf[-_]token)\b[^=]*=\s*).*", re.IGNORECASE)
_KEY_OVER_LINES = re.compile(r"""(?:api[-_]?key|hf[-_]token)\b[^=\n]*=\s*(?:\"{3}|'{3})""", re.IGNORECASE)


def secret_problems(reading: Reading) -> tuple[Problem, ...]:
    """A warning when the config refers to a secret that nobody stored yet: it imports, and would not launch."""
    reference = str(reading.content.get("server", {}).get("api_key", ""))
    is_plain = reading.document is not None and reading.document.secret_text is not None
    if is_plain or not reference.startswith(SECRET_PREFIX) or _is_stored(reference):
        return ()
    line, column = reading.place("server", "api_key")
    message = _("There is no %(reference)s here.") % {"reference": reference}
    remedy = _("Store it under Settings, Secrets before launching.")
    return (Problem("unknown_secret", line, column, "[server] api_key", message, remedy, severity="warning"),)


def shown(problems: Iterable[Problem], raw: bytes = b"") -> list[dict[str, Any]]:
    """Problems for pages and API answers, each with its line of `raw` in `source_line`; keys are blotted out there."""
    text = raw.decode(errors="replace")
    lines = [] if _KEY_OVER_LINES.search(text) else text.split("\n")
    return [{**dataclasses.asdict(problem), "source_line": _line(lines, problem.line)} for problem in problems]


def _line(lines: list[str], number: int | None) -> str | None:
    if number is None or not 1 <= number <= len(lines):
        return None
    return _ASSIGNED_KEY.sub(r"\1…", lines[number - 1]).rstrip("\r")[:400]


def _is_stored(reference: str) -> bool:
    return Secret.objects.filter(name=reference.removeprefix(SECRET_PREFIX)).exists()
