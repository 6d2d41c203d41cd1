from __future__ import annotations

import pytest

from controlplane.protocol.launches import ExitRecord, Launch, Leftover, RunRecord, StartRequest
from controlplane.protocol.redaction import redact
from controlplane.protocol.shapes import ShapeError, from_wire, to_wire
from controlplane.protocol.wire import (
    Request,
    VerbError,
    answer_line,
    read_reply,
    read_request,
    refusal_line,
    request_line,
)

RUN = RunRecord("a", "engine", "nonce-12", "boot", 1, 2, 3, 3, 4, 5.0, ["vllm", "serve"], ports=[8000])


def test_nested_shapes_come_back_as_they_went() -> None:
    ended = ExitRecord(at=1.5, rc=1, leftovers=[Leftover(7, ["VLLM::EngineCore"], "SIGTERM")], is_complete=True)
    launch = Launch("a", "exited", run=RUN, exit=ended)

    assert from_wire(Launch, to_wire(launch)) == launch


def test_unknown_fields_of_a_newer_side_are_skipped_and_absent_ones_take_their_default() -> None:
    assert from_wire(ExitRecord, {"at": 3, "invented_later": [1]}) == ExitRecord(at=3.0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"argv": "vllm serve"}, r"StartRequest\.argv must be a list, got str"),
        ({"argv": ["vllm", 3]}, r"StartRequest\.argv\[1\] must be str, got int"),
        ({"env": ["A=1"]}, r"StartRequest\.env must be an object, got list"),
        ({"ports": [True]}, r"StartRequest\.ports\[0\] must be int, got bool"),
        ({"leftover_grace_s": "5"}, r"StartRequest\.leftover_grace_s must be float, got str"),
        ({"nonce": None}, r"StartRequest\.nonce must be str, got NoneType"),
    ],
)
def test_a_wrong_type_is_refused_naming_the_place(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ShapeError, match=complaint):
        from_wire(StartRequest, {"launch_id": "a", "nonce": "n", "argv": ["x"], **change})


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ShapeError, match=r"StartRequest\.argv is missing"):
        from_wire(StartRequest, {"launch_id": "a", "nonce": "n"})


def test_a_misplaced_secret_is_not_repeated_in_the_complaint() -> None:
    with pytest.raises(ShapeError) as refused:
        from_wire(StartRequest, {"launch_id": "a", "nonce": "n", "argv": ["x"], "secret_env": "s3cr3t"})

    assert "s3cr3t" not in str(refused.value)
    assert "s3cr3t" not in repr(StartRequest("a", "n", ["x"], secret_env={"K": "s3cr3t"}))
    assert "s3cr3t" not in repr(Request(1, "start", {"secret_env": {"K": "s3cr3t"}}))


def test_requests_and_answers_are_one_line_each_whatever_they_contain() -> None:
    request = Request(7, "http", {"body": "line\nbreak é \u2028 \ud800"})
    line = request_line(request)

    assert line.count(b"\n") == 1
    assert read_request(line).params["body"].startswith("line\nbreak é \u2028 ")
    assert read_reply(answer_line(7, {"a": 1})).result == {"a": 1}
    refused = read_reply(refusal_line(7, VerbError("port_taken", "Port 1 is held.", "Choose another.")))
    assert refused.error
    assert (refused.ok, refused.error.code, refused.error.remedy) == (False, "port_taken", "Choose another.")


@pytest.mark.parametrize("line", [b"Welcome to gpu01\n", b"\xff\xfe\n", b"[]\n", b'{"verb": "x"}\n', b"3\n"])
def test_what_is_no_answer_is_told_apart(line: bytes) -> None:
    with pytest.raises(ShapeError):
        read_reply(line)
    with pytest.raises(ShapeError):
        read_request(line)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ("vllm serve m --api-key k1 k2 --port 1", "vllm serve m --api-key [redacted] [redacted] --port 1"),
        ("vllm serve m --api-key=k1 --port 1", "vllm serve m --api-key=[redacted] --port 1"),
        ("env HF_TOKEN=x OPENAI_API_KEY=y vllm", "env HF_TOKEN=[redacted] OPENAI_API_KEY=[redacted] vllm"),
        ("p --hf-token x --hf_token x", "p --hf-token [redacted] --hf_token [redacted]"),
        ("p --client-secret x --db-password=y", "p --client-secret [redacted] --db-password=[redacted]"),
        ("p redis://user:pw@h:1/0", "p redis://[redacted]@h:1/0"),
        ("p --tokenizer t --max-num-batched-tokens 8 --ssl-keyfile f", None),
        ("vllm serve m --served-model-name key --enable-prefix-caching", None),
        ("p - -- x", None),
    ],
)
def test_secret_values_on_command_lines_are_hidden_and_nothing_else(argv: str, shown: str | None) -> None:
    assert redact(argv.split()) == (shown or argv).split()
