"""Copying an attempt's log from its host into the database, whole lines at a time, keys taken out."""

from dataclasses import asdict
from typing import Any

from django.db import transaction

from controlplane.fleet.domain.log_reading import LogReader, StartupFacts
from controlplane.fleet.domain.redaction import redact
from controlplane.fleet.models import Attempt, LogChunk
from controlplane.inventory.services import call_host

SLICE_BYTES = 256 * 1024
KEPT_BYTES = 16 * 1024 * 1024
"""How much of one log the database keeps; the host keeps all of it."""


def copy_log(attempt: Attempt, *, is_over: bool = False) -> StartupFacts:
    """Bring our copy of the log up to date and return what the log has said so far.

    `is_over`: nobody writes any more, so a last line without an end is taken, too.
    """
    reader = LogReader.from_state(attempt.reader_state)
    while attempt.log_bytes < KEPT_BYTES:
        answer = _read(attempt)
        text, next_offset = _whole_lines(answer["text"], answer["next_offset"], is_over=is_over)
        if not text:
            break
        _keep(attempt, reader, text, next_offset)
        if next_offset >= answer["size_bytes"]:
            break
    if is_over and reader.finish():
        _save_reader(attempt, reader)
    return reader.facts


def log_text(attempt: Attempt) -> str:
    """The copied log as one text."""
    return "".join(LogChunk.objects.filter(attempt=attempt).order_by("offset").values_list("text", flat=True))


def _read(attempt: Attempt) -> dict[str, Any]:
    params = {"launch_id": attempt.launch_id, "name": "log", "offset": attempt.log_bytes, "limit": SLICE_BYTES}
    return dict(call_host(attempt.instance.host, "read_file", params))


def _whole_lines(text: str, next_offset: int, *, is_over: bool) -> tuple[str, int]:
    """Cut after the last line end: redaction and numbering want whole lines. Only one longer than a slice is cut."""
    kept, end, rest = text.rpartition("\n")
    if "\ufffd" in rest:  # broken bytes: how many they were cannot be told any more, so the line is not left for later
        return text, next_offset
    if not end:
        return (text, next_offset) if is_over or len(text) >= SLICE_BYTES // 2 else ("", next_offset)
    if is_over:
        return text, next_offset
    return kept + end, next_offset - len(rest.encode())


def _keep(attempt: Attempt, reader: LogReader, text: str, next_offset: int) -> None:
    first_line_number = reader.line_number + 1
    reader.feed(text)
    with transaction.atomic():
        LogChunk.objects.get_or_create(
            attempt=attempt,
            offset=attempt.log_bytes,
            # A NUL cannot be stored in Postgres text; a log that holds one is still a log.
            defaults={"text": redact(text).replace("\0", "␀"), "first_line_number": first_line_number},
        )
        attempt.log_bytes = next_offset
        _save_reader(attempt, reader)


def _save_reader(attempt: Attempt, reader: LogReader) -> None:
    attempt.reader_state = reader.to_state()
    attempt.startup = asdict(reader.facts)
    attempt.save(update_fields=["log_bytes", "reader_state", "startup"])
