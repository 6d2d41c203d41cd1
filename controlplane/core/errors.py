"""Errors that people read: what happened and what to do."""

from collections.abc import Mapping
from typing import Any


class Problem(Exception):  # noqa: N818  # the word of RFC 9457, which the API answers with
    """Something the caller can understand and act on.

    Subclass once per cause. `code` is stable and machine readable, `sentence` is for people, `remedy` is the next step.
    The API renders it as problem JSON, pages as a notice. Never put a secret into any of the three.
    """

    status = 409
    code = "problem"
    remedy = ""

    def __init__(
        self,
        sentence: str,
        *,
        remedy: str | None = None,
        code: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = self.remedy if remedy is None else remedy
        self.code = code or self.code
        self.extra: Mapping[str, Any] = extra or {}


class NotFound(Problem):
    status = 404
    code = "not_found"


class Invalid(Problem):
    """The input cannot be used as it is; nothing was changed. `extra["problems"]` may list every single fault."""

    status = 422
    code = "invalid"


class Conflict(Problem):
    """The thing is not in a state that allows this."""

    status = 409
    code = "conflict"


class Forbidden(Problem):
    status = 403
    code = "forbidden"
