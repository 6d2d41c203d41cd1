"""What became of each request: the raw material of every metric, and its compact form on disk.

Times are seconds since the run's own start (a monotonic clock), `None` where the thing did not happen.
Lengths and hashes are kept, prompt text is not.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OK, FAILED, CANCELLED = "ok", "failed", "cancelled"

# Failure classes beside "http_<status>". Each means one cause; counted by class, with a sample of the body.
CONNECT = "connect"  # no connection, or it broke before any answer
DISCONNECT = "disconnect"  # the connection broke in the middle of the answer
TIMEOUT = "timeout"
ERROR_EVENT = "error_event"  # an error object inside a 200 stream
TRUNCATED = "truncated"  # no finish_reason or no [DONE]
EMPTY = "empty"  # a complete stream without a single token
NOT_A_STREAM = "not_a_stream"  # 200, but not text/event-stream
BAD_EVENT = "bad_event"  # an event that is not the JSON we know

SAMPLE_CHARACTERS = 500


@dataclass
class RequestRecord:
    """One request.

    asked_s   the client turned to it
    sent_s    its body went to the socket (connecting lies between the two)
    stamps    arrival times of the chunks that carried generated text, in order
    """

    index: int
    sent_s: float
    asked_s: float | None = None
    status: str = CANCELLED
    error_class: str | None = None
    error_sample: str | None = None
    http_status: int | None = None
    first_s: float | None = None
    first_visible_s: float | None = None
    last_s: float | None = None
    ended_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    body_bytes: int = 0
    body_sha256: str = ""
    stamps: array[float] = field(default_factory=lambda: array("d"))


def count_by_status(records: Iterable[RequestRecord], *, planned: int) -> dict[str, int]:
    """planned = ok + failed + cancelled; requests that were never sent are cancelled ones."""
    seen = Counter(record.status for record in records)
    ok, failed = seen[OK], seen[FAILED]
    return {"planned": planned, "ok": ok, "failed": failed, "cancelled": planned - ok - failed}


def group_errors(records: Iterable[RequestRecord]) -> list[dict[str, Any]]:
    """Failures by class, most frequent first, each with its first sample."""
    groups: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.status != FAILED:
            continue
        name = record.error_class or "unknown"
        group = groups.setdefault(
            name, {"class": name, "count": 0, "sample": record.error_sample, "first_index": record.index}
        )
        group["count"] += 1
    return sorted(groups.values(), key=lambda group: (-group["count"], group["class"]))


# Column of the file -> attribute of the record. Times are stored in microseconds, as whole numbers.
_TIMES = {
    "asked_us": "asked_s",
    "sent_us": "sent_s",
    "first_us": "first_s",
    "first_visible_us": "first_visible_s",
    "last_us": "last_s",
    "ended_us": "ended_s",
}
_PLAIN = (
    "index",
    "status",
    "error_class",
    "http_status",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "finish_reason",
    "body_bytes",
    "body_sha256",
)


def to_columns(records: Sequence[RequestRecord]) -> dict[str, list[Any]]:
    """Records as one list per column, for requests.json.gz."""
    columns: dict[str, list[Any]] = {name: [getattr(record, name) for record in records] for name in _PLAIN}
    for column, attribute in _TIMES.items():
        columns[column] = [_microseconds(getattr(record, attribute)) for record in records]
    columns["chunks"] = [len(record.stamps) for record in records]
    return columns


def from_columns(columns: Mapping[str, Sequence[Any]]) -> list[RequestRecord]:
    """Records again, without chunk stamps and samples; raises KeyError for a missing column."""
    records = []
    for row in range(len(columns["index"])):
        values = {name: columns[name][row] for name in _PLAIN}
        for column, attribute in _TIMES.items():
            time_us = columns[column][row]
            values[attribute] = None if time_us is None else time_us / 1e6
        records.append(RequestRecord(**values))
    return records


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)
