"""What a stream of events means for one request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.bench.domain.records import RequestRecord
from controlplane.bench.loadgen.answer import Answer, _loads

# As vLLM 0.32 sends them.
ROLE: dict[str, Any] = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
USAGE: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 15, "total_tokens": 18, "completion_tokens": 3}}


def text(content: str, finish: str | None = None, field: str = "content") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {field: content}, "finish_reason": finish, "stop_reason": None}]}


def read(*events: Mapping[str, Any] | str) -> RequestRecord:
    """Feed events one second apart, from second 1 on."""
    record = RequestRecord(index=0, sent_s=0.0)
    answer = Answer(record)
    for at, event in enumerate(events, start=1):
        data = event if isinstance(event, str) else json.dumps(event)
        answer.feed(f"data: {data}\n\n".encode(), float(at))
    answer.finish()
    return record


def test_tokens_are_stamped_and_usage_counts_them() -> None:
    record = read(ROLE, text(" el"), text("uture"), text(" rem", "length"), USAGE, "[DONE]")
    assert record.status == "ok"
    assert (record.first_s, record.first_visible_s, record.last_s) == (2.0, 2.0, 4.0)
    assert list(record.stamps) == [2.0, 3.0, 4.0]
    assert (record.prompt_tokens, record.output_tokens, record.finish_reason) == (15, 3, "length")


def test_both_names_of_reasoning_are_tokens_but_not_visible() -> None:
    record = read(
        ROLE, text("hm", field="reasoning_content"), text("so", field="reasoning"), text("yes", "stop"), "[DONE]"
    )
    assert (record.first_s, record.first_visible_s) == (2.0, 4.0)


def test_a_tool_call_is_a_token() -> None:
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0}]}, "finish_reason": "tool_calls"}]}
    assert read(ROLE, call, "[DONE]").first_s == 2.0


def test_a_last_token_without_text_is_timed_by_the_finishing_chunk() -> None:
    record = read(ROLE, text("a"), text("", "stop"), USAGE, "[DONE]")
    assert (record.first_s, record.last_s, len(record.stamps)) == (2.0, 3.0, 1)


def test_tokens_without_any_text_are_no_empty_stream() -> None:
    record = read(ROLE, text("", "length"), USAGE, "[DONE]")
    assert (record.status, record.first_s, record.first_visible_s) == ("ok", 2.0, None)


def test_cached_tokens_are_kept_where_the_server_tells_them() -> None:
    usage = {"choices": [], "usage": {**USAGE["usage"], "prompt_tokens_details": {"cached_tokens": 8}}}
    assert read(text("a", "stop"), usage, "[DONE]").cached_tokens == 8


def test_an_error_object_fails_the_request_even_when_done_follows() -> None:
    record = read(ROLE, text("a"), {"error": {"message": "EngineCore died", "code": 500}}, "[DONE]")
    assert (record.status, record.error_class) == ("failed", "error_event")
    assert "EngineCore died" in (record.error_sample or "")
    assert record.first_s is None


def test_the_older_form_of_an_error_is_one_too() -> None:
    assert read({"object": "error", "message": "bad", "code": 400}, "[DONE]").error_class == "error_event"


def test_a_stream_without_done_or_without_finish_is_truncated() -> None:
    assert read(text("a"), text("b", "stop"), USAGE).error_class == "truncated"
    assert read(text("a"), text("b"), USAGE, "[DONE]").error_class == "truncated"


def test_a_stream_without_tokens_is_empty() -> None:
    assert read(ROLE, "[DONE]").error_class == "empty"
    assert read("[DONE]").error_class == "empty"


def test_an_event_that_is_not_json_fails_the_request() -> None:
    assert read(text("a"), "{not json", "[DONE]").error_class == "bad_event"
    assert read("[1, 2]", "[DONE]").error_class == "bad_event"


def test_samples_are_short() -> None:
    record = read({"error": {"message": "x" * 10_000}})
    assert len(record.error_sample or "") == 500


@pytest.mark.parametrize("document", ['{"a": [1, "ü"]}', ' {"a": 1}', '{"a": 1} \n', "[1]", '"x"', "null"])
def test_the_quick_decoder_reads_what_json_reads(document: str) -> None:
    assert _loads(document.encode()) == json.loads(document)


@pytest.mark.parametrize("document", [b'{"a": 1}{', b"{", b"", b"\xff", b'{"a": 1} x'])
def test_the_quick_decoder_refuses_what_json_refuses(document: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller treats every one of them alike
        _loads(document)
