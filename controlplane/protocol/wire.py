"""The conversation with the host program: one JSON object a line, each way.

    -> {"id": 1, "verb": "list", "params": {}}
    <- {"id": 1, "ok": true, "result": {...}}
    <- {"id": 1, "ok": false, "error": {"code": "...", "message": "...", "remedy": "..."}}

Answers come in the order in which they are ready, not in the order asked. `VERSION` is raised when an old and a new
side would misunderstand each other; fields may be added without raising it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional

from controlplane.protocol.shapes import ShapeError, from_wire

VERSION = 1
MAX_LINE_BYTES = 32 * 1024 * 1024


class VerbError(Exception):
    """A request that the host program understood and refuses, or could not carry out."""

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class Request:
    id: int
    verb: str
    params: dict[str, Any] = field(default_factory=dict, repr=False)  # may carry secrets


@dataclass(frozen=True)
class Failure:
    code: str
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Reply:
    id: int
    ok: bool
    result: Any = None
    error: Optional[Failure] = None


def request_line(request: Request) -> bytes:
    """One request as it goes over the wire."""
    return _line({"id": request.id, "verb": request.verb, "params": request.params})


def read_request(line: bytes) -> Request:
    """Decode one request line; `ShapeError` when it is not one."""
    return from_wire(Request, _json(line))


def answer_line(request_id: int, result: Any) -> bytes:
    """A successful answer; `result` is already made of JSON values."""
    return _line({"id": request_id, "ok": True, "result": result})


def refusal_line(request_id: int, error: VerbError) -> bytes:
    """A refusal, with the sentence that people will read."""
    return _line(
        {
            "id": request_id,
            "ok": False,
            "error": {"code": error.code, "message": error.message, "remedy": error.remedy},
        }
    )


def read_reply(line: bytes) -> Reply:
    """Decode one answer line; `ShapeError` when it is not one (a login banner, for example)."""
    return from_wire(Reply, _json(line))


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ShapeError("the line is not JSON") from error
