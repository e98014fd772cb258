"""Several replies as one: what the reader is told between them, and what ends the whole."""

import asyncio
import math

import pytest

from gateway.faults import Failed, Fault
from gateway.providers.protocol import Step
from gateway.upstream.exchange import Exchange
from gateway.upstream.successive import Calls, Successive
from gateway.upstream.transport import Reply, TransportError
from gateway.wire.usage import Usage


class Line:
    """A connection that does nothing of its own."""

    def resume(self) -> None: ...

    def close(self) -> None: ...


def arrived(*pieces: bytes, whole: bool = True) -> Exchange:
    reply = Exchange(Line(), math.inf)
    reply.status = 200
    for piece in pieces:
        reply.arrive(piece)
    if whole:
        reply.finish()
    return reply


class Ends:
    """A reader that takes `.` for the end mark of a part, and `?` for a part that is missing something."""

    usage: Usage | None = None
    tier: str | None = None
    finished = done = False
    strange_events = output_bytes = 0

    def __init__(self) -> None:
        self.part_done = False
        self.turns = 0
        self._missing: Failed | None = None

    def feed(self, piece: bytes) -> Step:
        self.part_done = b"." in piece
        self._missing = Failed(fault=Fault.RESET) if b"?" in piece else None
        return Step(out=piece)

    def end(self) -> Step:
        return Step()

    def turn(self) -> Failed | None:
        self.turns += 1
        self.part_done = False
        return self._missing


def several(first: Exchange, *following: Reply | Failed) -> tuple[Successive, Ends, list[bytes]]:
    """Return the replies as one, its reader, and the bodies that were sent for the later ones."""
    reader, sent, left = Ends(), list[bytes](), iter(following)

    async def make(body: bytes) -> Reply | Failed:
        sent.append(body)
        return next(left)

    bodies = tuple(b"%d" % place for place in range(len(following)))
    return Successive(first, reader, Calls(bodies, make, asyncio.get_running_loop().time)), reader, sent


async def pieces(reply: Successive, reader: Ends) -> list[bytes]:
    found: list[bytes] = []
    while piece := await reply.next():
        found.append(piece)
        reader.feed(piece)
    return found


async def test_each_is_read_to_its_end_and_the_next_is_called_then() -> None:
    reply, reader, sent = several(arrived(b"a"), arrived(b"b"), arrived(b"c"))
    assert await reply.next() == b"a"
    assert sent == []
    assert await pieces(reply, reader) == [b"b", b"c"]
    assert (sent, reader.turns, await reply.next()) == ([b"0", b"1"], 2, b"")


async def test_behind_an_end_mark_nothing_more_is_told() -> None:
    first = arrived(b"a.", whole=False)
    reply, reader, _ = several(first, arrived(b"b"))
    reader.feed(await reply.next())
    first.arrive(b"late")
    first.finish()
    assert await pieces(reply, reader) == [b"b"]


async def test_a_body_that_fails_behind_its_end_mark_is_given_up() -> None:
    first = arrived(b"a.", whole=False)
    reply, reader, sent = several(first, arrived(b"b"))
    reader.feed(await reply.next())
    first.fail(TransportError(Fault.TIMEOUT, "too late", sent=True))
    assert await pieces(reply, reader) == [b"b"]
    assert sent == [b"0"]


async def test_what_a_part_is_missing_ends_the_whole() -> None:
    reply, reader, sent = several(arrived(b"a?"), arrived(b"b"))
    with pytest.raises(TransportError) as broken:
        await pieces(reply, reader)
    assert (broken.value.fault, broken.value.sent, sent) == (Fault.RESET, True, [])


async def test_a_call_that_is_refused_ends_the_whole() -> None:
    reply, reader, _ = several(arrived(b"a"), Failed(fault=Fault.BUSY))
    with pytest.raises(TransportError) as broken:
        await pieces(reply, reader)
    assert broken.value.fault is Fault.BUSY


async def test_it_is_a_reply_like_any_other() -> None:
    first, second = arrived(b"a"), arrived(b"b", whole=False)
    reply, _, _ = several(first, second)
    reply.deadline_s = 5.0
    assert (reply.status, reply.headers, reply.deadline_s, first.deadline_s) == (200, [], 5.0, 5.0)
    assert (await reply.next(), await reply.next()) == (b"a", b"b")
    reply.close()
    with pytest.raises(TransportError):
        await reply.next()
    whole, _, _ = several(arrived(b"a"), arrived(b"b"))
    assert await whole.read(10) == b"ab"
