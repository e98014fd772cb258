import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.sse import Framer


def frames(*pieces: bytes, most: int = 1000) -> tuple[list[bytes], bool]:
    framer = Framer(most)
    found = [payload for piece in pieces for payload in framer.feed(piece)]
    return found + framer.end(), framer.overflowed


lines = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data: ",
        b"data:",
        b"data",
        b": ping",
        b"retry: 1",
        b"id: 7",
        b"event: error",
        b"data: \xe4\xbd\xa0",
        b"",
        b"\xef\xbb\xbfdata: b",
        b"data: " + b"y" * 40,
    ]
)
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
streams = st.lists(st.tuples(lines, ends).map(b"".join), max_size=12).map(b"".join)


@given(streams, st.lists(st.integers(0, 200), max_size=6), st.sampled_from([20, 45, 46, 47, 1000]))
def test_where_reads_are_cut_does_not_matter(stream: bytes, cuts: list[int], most: int) -> None:
    whole = frames(stream, most=most)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    assert frames(*(stream[a:b] for a, b in itertools.pairwise(places)), most=most) == whole
    assert frames(*(bytes([byte]) for byte in stream), most=most) == whole


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b'data: {"a":1}\n\ndata: [DONE]\n\n', [b'{"a":1}', b"[DONE]"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b": x\ndata: a\n\n: y\n\n", [b"a"]),
        (b"event: error\ndata: a\nid: 3\n\n", [b"a"]),
        (b"retry: 1000\n\ndata:\n\nid: 7\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"\xef\xbb", []),
        (b"data: a\n", [b"a"]),
        (b"data: a", [b"a"]),
        (b"", []),
    ],
)
def test_events_are_found(stream: bytes, expected: list[bytes]) -> None:
    assert frames(stream) == (expected, False)


def test_an_event_comes_out_as_soon_as_its_end_is_read() -> None:
    framer = Framer()
    assert framer.feed(b"data: a\r\n\r") == [b"a"]
    assert framer.feed(b"\ndata: b\r\n") == []
    assert framer.feed(b"\r\n") == [b"b"]


def test_an_event_of_the_cap_passes_and_one_byte_more_does_not() -> None:
    assert frames(b"data: " + b"x" * 94 + b"\n\n", most=100) == ([b"x" * 94], False)
    assert frames(b"data: " + b"x" * 95 + b"\n\n", most=100) == ([], True)


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    event = b"\xef\xbb\xbfdata: " + b"x" * 94 + b"\n\n"
    assert frames(event, most=100) == frames(*(bytes([byte]) for byte in event), most=100) == ([b"x" * 94], False)


def test_everything_in_an_event_counts_and_what_came_before_is_delivered() -> None:
    assert frames(b"data: a\n\n" + b"data:\n" * 30 + b"\n", most=100) == ([b"a"], True)
    assert frames(b": endless " * 20, most=100) == ([], True)


def test_a_large_event_in_small_reads_costs_no_more_than_its_bytes() -> None:
    framer = Framer()
    body = b"data: " + b"x" * 200_000 + b"\n\n"
    found = [payload for start in range(0, len(body), 7) for payload in framer.feed(body[start : start + 7])]
    assert [len(payload) for payload in found] == [200_000]
