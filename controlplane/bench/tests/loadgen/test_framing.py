"""Bytes of an HTTP answer, however they are cut."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bench.loadgen.framing import BadAnswer, Framing

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Heard:
    """What a receiver was told."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[tuple[bytes, float]] = field(default_factory=list)

    def sent(self, at: float) -> None:
        """Not of this module."""

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers

    def body(self, data: bytes, at: float) -> None:
        self.parts.append((data, at))

    @property
    def content(self) -> bytes:
        return b"".join(data for data, _ in self.parts)


def read(*pieces: bytes) -> tuple[Heard, Framing]:
    """Feed pieces at 1 s, 2 s, …"""
    heard = Heard()
    framing = Framing(heard)
    for at, piece in enumerate(pieces, start=1):
        framing.feed(piece, float(at))
    return heard, framing


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


@st.composite
def cut_answers(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """(body, the answer's bytes in pieces): by chunks, with and without extensions and trailers, or by length."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    body = b"".join(chunks)
    if draw(st.booleans()):
        extension = draw(st.sampled_from([b"", b";name=value", b" "]))
        trailer = draw(st.sampled_from([b"", b"Digest: abc\r\n"]))
        answer = CHUNKED + b"".join(chunk(data, extension) for data in chunks) + b"0\r\n" + trailer + b"\r\n"
    else:
        answer = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answer = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"])) + answer
    cuts = sorted(draw(st.sets(st.integers(1, len(answer) - 1), max_size=12)))
    return body, [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]


@given(cut_answers())
def test_any_cut_gives_the_same_answer(case: tuple[bytes, list[bytes]]) -> None:
    body, pieces = case
    heard, framing = read(*pieces)
    assert (heard.status, heard.content) == (200, body)
    assert framing.is_complete
    assert framing.is_reusable


def test_each_chunk_has_the_time_of_its_own_read() -> None:
    heard, framing = read(CHUNKED, chunk(b"one"), chunk(b"two") + chunk(b"three"), b"0\r\n\r\n")
    assert heard.parts == [(b"one", 2.0), (b"two", 3.0), (b"three", 3.0)]
    assert framing.is_complete


def test_part_of_a_chunk_does_not_wait_for_the_rest() -> None:
    heard, _ = read(CHUNKED, b"6\r\nabc", b"def\r\n")
    assert heard.parts == [(b"abc", 2.0), (b"def", 3.0)]


def test_a_chunk_that_looks_whole_at_its_ends_is_read_by_its_size() -> None:
    heard, _ = read(CHUNKED, b"3\r\nabc\r\n4\r\nde\r\n\r\n")
    assert heard.content == b"abcde\r\n"


def test_a_size_line_that_is_cut_is_put_together_first() -> None:
    heard, framing = read(CHUNKED, b"3;x=", b"3\r\nabc\r\n", b"0\r\n\r\n")
    assert heard.content == b"abc"
    assert framing.is_complete


def test_headers_by_lower_case_name_and_twice_joined() -> None:
    heard, _ = read(OK + b"X-A: 1\r\nx-a:  2 \r\nContent-Length: 0\r\n\r\n")
    assert heard.headers == {"x-a": "1, 2", "content-length": "0"}


@pytest.mark.parametrize(
    "head",
    [OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"],
)
def test_a_server_that_closes_is_not_asked_again(head: bytes) -> None:
    _, framing = read(head)
    assert framing.is_complete
    assert not framing.is_reusable


def test_without_length_and_chunks_the_end_of_the_connection_is_the_end() -> None:
    heard, framing = read(OK + b"\r\n", b"all ", b"of it")
    assert not framing.is_complete
    assert framing.end()
    assert heard.content == b"all of it"


def test_the_end_of_the_connection_in_the_middle_is_no_end() -> None:
    assert not read(CHUNKED, chunk(b"one"))[1].end()
    assert not read(OK + b"Content-Length: 5\r\n\r\nabc")[1].end()
    assert not read(b"HTTP/1.1 2")[1].end()


def test_an_answer_without_a_body_is_over_with_its_head() -> None:
    assert read(b"HTTP/1.1 204 No Content\r\n\r\n")[1].is_complete


def test_bytes_after_the_answer_end_the_connection() -> None:
    assert not read(OK + b"Content-Length: 2\r\n\r\nabc")[1].is_reusable


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"x" * 70_000,
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"-3\r\nabc\r\n",
        CHUNKED + b"1" * 300,
        CHUNKED + b"3\r\nabcd\r\n",
        CHUNKED + b"0\r\n" + b"t" * 70_000,
    ],
)
def test_what_is_no_http_is_said(answer: bytes) -> None:
    with pytest.raises(BadAnswer):
        read(answer)
