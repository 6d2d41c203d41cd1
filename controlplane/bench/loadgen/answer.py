"""One streamed chat answer, understood event by event: when tokens came, what went wrong. No input or output here."""

from __future__ import annotations

import json
from typing import Any

from controlplane.bench.domain import records
from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.loadgen.sse import EventParser, EventTooLong

_decode_from_start = json.JSONDecoder().raw_decode


def _loads(data: bytes) -> Any:
    """`json.loads` without its search for encodings and white space: two fifths of its time on one token."""
    text = data.decode()
    if text.startswith("{"):
        value, end = _decode_from_start(text)
        if end == len(text):
            return value
    return json.loads(text)


DONE = b"[DONE]"


class Answer:
    """Fills a RequestRecord from the bytes of a 200 stream. `feed` takes the time of the read, not of the parsing."""

    def __init__(self, record: RequestRecord) -> None:
        self.record = record
        self._parser = EventParser()
        self._is_done = False

    def feed(self, chunk: bytes, at_s: float) -> None:
        """Take bytes that arrived at `at_s`. After the first error the rest is ignored: one cause per request."""
        if self.record.error_class:
            return
        try:
            for data in self._parser.feed(chunk):
                self._take(data, at_s)
        except EventTooLong as error:
            self._fail(records.BAD_EVENT, str(error))

    def finish(self) -> None:
        """The stream has ended in good order: decide what it was."""
        record = self.record
        if not record.error_class:
            self._judge_completeness()
        record.status = records.FAILED if record.error_class else records.OK

    def _take(self, data: bytes, at_s: float) -> None:
        if data == DONE:
            self._is_done = True
            return
        try:
            event = _loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self._fail(records.BAD_EVENT, data.decode("utf-8", "replace"))
        elif event.get("error") or event.get("object") == "error":
            self._fail(records.ERROR_EVENT, data.decode("utf-8", "replace"))
        else:
            self._take_chunk(event, at_s)

    def _take_chunk(self, event: dict[str, Any], at_s: float) -> None:
        record = self.record
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            if delta.get("content"):
                record.stamps.append(at_s)
                if record.first_visible_s is None:
                    record.first_visible_s = at_s
            elif delta.get("reasoning_content") or delta.get("reasoning") or delta.get("tool_calls"):
                record.stamps.append(at_s)
            if choice.get("finish_reason"):
                record.finish_reason = choice["finish_reason"]
                # The last token may have no text (a stop token, half a character): the finishing chunk is its time.
                record.last_s = at_s
        if usage := event.get("usage"):
            self._take_usage(usage)

    def _take_usage(self, usage: dict[str, Any]) -> None:
        self.record.prompt_tokens = usage.get("prompt_tokens")
        self.record.output_tokens = usage.get("completion_tokens")
        details = usage.get("prompt_tokens_details") or {}
        self.record.cached_tokens = details.get("cached_tokens")

    def _judge_completeness(self) -> None:
        record = self.record
        if not record.stamps and not record.output_tokens:
            self._fail(records.EMPTY, "the stream ended without a token")
        elif not self._is_done or not record.finish_reason:
            missing = "[DONE]" if record.finish_reason else "finish_reason"
            self._fail(records.TRUNCATED, f"the stream ended without {missing} after {len(record.stamps)} chunks")
        else:
            # Tokens but no text at all: the finishing chunk is the first thing that tells of them.
            record.first_s = record.stamps[0] if record.stamps else record.last_s

    def _fail(self, error_class: str, sample: str) -> None:
        self.record.error_class = error_class
        self.record.error_sample = sample[: records.SAMPLE_CHARACTERS]
