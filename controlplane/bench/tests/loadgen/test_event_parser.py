"""How the bytes of a stream are split must make no difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bench.loadgen import sse
from controlplane.bench.loadgen.sse import EventParser, EventTooLong

ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20).map(str.encode)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A well-formed stream in one kind of line end, and the data it carries (one or several lines an event)."""
    end, stream, expected = draw(ends), b"", []
    events = st.tuples(st.lists(texts, min_size=1, max_size=3), st.one_of(st.none(), texts))
    for lines, comment in draw(st.lists(events, max_size=6)):
        if comment is not None:
            stream += b":" + comment + end
        stream += b"".join(b"data: " + line + end for line in lines) + end
        expected.append(b"\n".join(lines))
    return stream, expected


@given(streams(), st.data())
def test_any_split_of_the_bytes_gives_the_same_events(stream: tuple[bytes, list[bytes]], data: st.DataObject) -> None:
    raw, expected = stream
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    parser = EventParser()
    assert [event for piece in pieces for event in parser.feed(piece)] == expected


@given(streams())
def test_byte_by_byte_gives_the_same_events(stream: tuple[bytes, list[bytes]]) -> None:
    parser = EventParser()
    assert [event for byte in stream[0] for event in parser.feed(bytes([byte]))] == stream[1]


def test_several_events_in_one_packet_and_a_character_over_two() -> None:
    parser = EventParser()
    assert parser.feed(b"data: a\n\ndata: b\n\ndata: \xe2\x82") == [b"a", b"b"]
    assert parser.feed(b"\xac\n\n") == ["€".encode()]


def test_several_data_lines_are_joined_and_other_fields_are_skipped() -> None:
    assert EventParser().feed(b"event: message\nid: 7\ndata: {\ndata:}\nretry: 5\n\n") == [b"{\n}"]


def test_an_event_that_is_cut_off_is_no_event() -> None:
    assert EventParser().feed(b"data: half") == []


def test_an_event_of_a_mebibyte_arrives_whole() -> None:
    payload = b"x" * (1 << 20)
    parser = EventParser()
    pieces = [b"data: ", *(payload[at : at + 65536] for at in range(0, len(payload), 65536)), b"\n\n"]
    assert [event for piece in pieces for event in parser.feed(piece)] == [payload]


def test_a_stream_without_ends_is_refused_before_it_fills_the_memory() -> None:
    parser = EventParser()
    with pytest.raises(EventTooLong):
        parser.feed(b"data: " + b"x" * sse.MAX_EVENT_BYTES)
