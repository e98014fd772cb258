"""What holds for every stream of bytes, however it is cut: laws that examples are drawn for, and that a fuzzer tries to break.

`check` makes a stream of any bytes: how it is cut, what was asked for, and the stream as it is or its events by number.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gateway.providers.protocol import Edits
from gateway.wire.request import Endpoint
from gateway.wire.sse import MOST_EVENT_BYTES, Framer
from tests.unit.providers.streams import DONE, Run, chunk, edits, event, run, usage

LINE_ENDS = (b"\n", b"\r\n", b"\r")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

LONGEST_STEP, MOST_PIECES, MOST_PARTS = 16, 100, 12
"""A fuzzer gets further with many short streams than with few long ones."""

SMALL_EVENT_BYTES = 300
"""A bound on events that streams of a few events reach."""


def small(*choices: dict[str, object], **members: object) -> bytes:
    """Return a chunk with no more in it than it takes: a fuzzer's streams are read by the byte."""
    return chunk([{"index": 0, **choice} for choice in choices], object=..., created=..., **members)


def word(text: str, index: int = 0, **members: object) -> bytes:
    return small({"index": index, "delta": {"content": text}}, **members)


def last(reason: str = "stop", index: int = 0) -> bytes:
    return small({"index": index, "finish_reason": reason})


def call(**members: object) -> bytes:
    return small({"delta": {"tool_calls": [members]}})


PARTS = (
    word("", model="up-internal"),
    word("Hello"),
    word("\u4f60\u597d\U0001f30d"),
    word("two", 1),
    word("line\n\nends"),
    word("", usage=usage(1, 2)),
    last(),
    last("length", 1),
    small(usage=usage(3, 4, cost=0.5)),
    DONE,
    small({"text": "word"}),
    small({"text": "", "finish_reason": "stop"}),
    call(index=0, id="a", function={"name": "f", "arguments": ""}),
    call(function={"arguments": "{}"}),
    call(index=0, id="b", function={"name": "g", "arguments": "1"}),
    word("tier", service_tier="flex"),
    word("no id", id=...),
    word("other id", id="c2"),
    word("gaps").replace(b":", b" : "),
    event(b'{"error":{"code":502,"message":"up-internal is lost"}}'),
    event(b"null"),
    event(b"{"),
    event(b"[1]"),
    b"data: {\ndata: }\n\n",
    b": ping\n\n",
    b": ping\n",
    b"event: error\n",
    b"retry: 1\n\n",
    b"data:\n\n",
    b"data\n\n",
    b"\n",
    BYTE_ORDER_MARK,
)


def composed(numbers: bytes) -> bytes:
    """Return the stream that these numbers choose, part by part; behind a number too large for any, the rest stands as it is."""
    found: list[bytes] = []
    for place, number in enumerate(numbers[:MOST_PARTS]):
        part, end = number % (len(PARTS) + 1), LINE_ENDS[number // (len(PARTS) + 1) % len(LINE_ENDS)]
        if part == len(PARTS):
            return b"".join(found) + numbers[place + 1 :]
        found.append(PARTS[part].replace(b"\n", end))
    return b"".join(found)


def check(data: bytes) -> None:
    """Hold the stream that these bytes say to the laws."""
    head, places, rest = data[:3], data[3:11], data[11:]
    if not rest:
        return
    flag, count, step = head
    stream = composed(rest) if flag & 1 else rest
    cuts = [place * (len(stream) + 1) // 256 for place in places[: count % (len(places) + 1)]]
    wanted = edits(
        show_usage=bool(flag & 2),
        endpoint=Endpoint.COMPLETIONS if flag & 4 else Endpoint.CHAT,
        choices=2 if flag & 8 else 1,
        running_usage=bool(flag & 16),
        usage_on_finish=bool(flag & 128) and not flag & 2,
        usage_with_finish=bool(count & 128),
    )
    most = SMALL_EVENT_BYTES if flag & 32 else MOST_EVENT_BYTES
    step = max(step % LONGEST_STEP + 1, len(stream) // MOST_PIECES)
    assert_events(stream, step=step)
    if not flag & 64:
        cut_anywhere(stream, cuts, wanted, most, step=step)


def cut_anywhere(stream: bytes, cuts: Sequence[int], wanted: Edits, most: int = MOST_EVENT_BYTES, *, step: int = 1) -> Run:
    """Read a stream whole, cut at these places, and in steps: the client gets the same. Return what it gets."""
    whole = run(stream, edits=wanted, most=most)
    for pieces in (pieces_of(stream, cuts), pieces_of(stream, range(0, len(stream), step))):
        found = run(*pieces, edits=wanted, most=most)
        assert (found.out, found.failed, found.committed) == (whole.out, whole.failed, whole.committed)
        assert told(found) == told(whole)
    assert_answer(whole, wanted)
    return whole


def pieces_of(stream: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    return (stream[start:end] for start, end in pairwise(places))


def told(found: Run) -> tuple[object, ...]:
    """Return what the gateway itself goes by."""
    reader = found.reader
    return reader.usage, reader.tier, reader.output_bytes, reader.finished, reader.done


def assert_answer(found: Run, wanted: Edits) -> None:
    """What went out are events of JSON under the names that are shown, and one end mark, where it ended well, at the end."""
    payloads = found.payloads
    assert found.committed or not payloads
    ended = found.failed is None and found.committed
    assert payloads.count(b"[DONE]") == ended
    assert not ended or payloads[-1] == b"[DONE]"
    for sent in found.chunks:
        assert (sent["model"], sent["service_tier"]) == (wanted.model, wanted.tier)
        assert wanted.show_usage or wanted.running_usage or wanted.usage_on_finish or sent.get("usage") is None


def assert_events(stream: bytes, *, step: int = 1) -> None:
    """The framer finds the events that the format's own rules find, in one read and in steps."""
    expected = [*events_of(stream)]
    for pieces in ([stream], pieces_of(stream, range(0, len(stream), step))):
        framer = Framer()
        found = [payload for piece in pieces for payload in framer.feed(piece)]
        assert found + framer.end() == expected


def events_of(stream: bytes) -> Iterator[bytes]:
    """Yield the payloads of a whole stream line by line, as WHATWG's page has it, but for two things of ours.

    An event that the end of the stream cuts off counts, and one whose data is all white space does not.
    """
    said: list[bytes] = []
    for line in [*re.split(rb"\r\n|\n|\r", stream.removeprefix(BYTE_ORDER_MARK)), b""]:
        if line.startswith(b"data:"):
            said.append(line[5:].removeprefix(b" "))
        elif not line:
            if (payload := b"\n".join(said)) and not payload.isspace():
                yield payload
            said.clear()
