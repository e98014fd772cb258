"""SSE-01 to SSE-04: how a provider's bytes are cut and framed changes nothing of what the client reads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE
from tests.field.streaming import BOTH, Seen, Shape, Stage, apart, model, stage, turns
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

HELLO = "你好🌍"
FRAMINGS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
framed = pytest.mark.parametrize("line_end", FRAMINGS.values(), ids=FRAMINGS)
shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
carried = pytest.mark.parametrize("name", ["m", "x"], ids=["http1", "httpx"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {"m": model("m"), "x": model("x", "x")}
    async with stage(valkey_server, tmp_path_factory.mktemp("framing"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


def splits(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every way to cut a stream in two."""
    return ((stream[:place], stream[place:]) for place in range(1, len(stream)))


def bytewise(stream: bytes) -> list[bytes]:
    return [stream[place : place + 1] for place in range(len(stream))]


async def counted(gate: Stage) -> tuple[str, int, int]:
    line = await gate.line()
    return line["outcome"], line["input_tokens"], line["output_tokens"]


@shaped
@framed
async def test_sse_01_a_character_is_whole_wherever_it_was_cut(line_end: bytes, shape: Shape, gate: Stage) -> None:
    """One stream of as many events as one has bytes, each cut at another place, and ends that are cut at every place too."""
    said = shape.says(HELLO).replace(b"\n", line_end)
    assert HELLO.encode() in said
    ends = (shape.ends() + shape.usage(3, 2) + DONE).replace(b"\n", line_end)
    pieces = [piece for cut in splits(said) for piece in cut]
    gate.models.acts["m"] = apart(*pieces, *bytewise(ends))
    seen = await gate.stream(shape)
    assert (seen.text, seen.is_whole) == (HELLO * (len(said) - 1), True)
    assert await counted(gate) == ("ok", 3, 2)


@carried
@shaped
@framed
async def test_sse_02_a_stream_byte_by_byte_is_the_stream(line_end: bytes, shape: Shape, name: str, gate: Stage) -> None:
    stream = shape.whole("ab", HELLO, "cd").replace(b"\n", line_end)
    gate.models.acts[name] = apart(stream)
    at_once = await gate.stream(shape, name)
    gate.models.acts[name] = apart(*bytewise(stream))
    bit_by_bit = await gate.stream(shape, name)
    assert bit_by_bit == at_once
    assert (bit_by_bit.text, bit_by_bit.finishes, bit_by_bit.is_whole) == (f"ab{HELLO}cd", ["stop"], True)
    assert len(bit_by_bit.chunks) == 5
    assert await counted(gate) == ("ok", 3, 2)


@shaped
@framed
async def test_sse_02_an_event_is_whole_wherever_it_was_cut(line_end: bytes, shape: Shape, gate: Stage) -> None:
    """One stream of as many events as one has bytes, each cut at another place, line ends and all."""
    said = shape.says("a").replace(b"\n", line_end)
    pieces = [shape.begins()]
    for before, after in splits(said):
        pieces += [before, after]
    gate.models.acts["m"] = apart(*pieces, shape.ends(), shape.usage(3, 2), DONE)
    seen = await gate.stream(shape)
    assert (seen.text, seen.is_whole) == ("a" * (len(said) - 1), True)
    assert len(seen.chunks) == len(said) + 1
    assert await counted(gate) == ("ok", 3, 2)


@carried
@framed
async def test_sse_03_an_event_leaves_before_the_next_one_comes(line_end: bytes, name: str, gate: Stage) -> None:
    """The provider says nothing more until the client has read what was said: an end of line alone may be to come."""
    read: asyncio.Queue[bytes] = asyncio.Queue()

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for text in ("a", "b", "c"):
            call.piece(Shape.CHAT.says(text).replace(b"\n", line_end))
            assert text.encode() in await read.get()
        call.piece((Shape.CHAT.ends() + DONE).replace(b"\n", line_end))
        call.end()

    gate.models.acts[name] = act
    async with gate.reading(model=name) as answer:
        body = b""
        async for piece in answer.aiter_bytes():
            body += piece
            read.put_nowait(piece)
    assert (Seen(body).text, Seen(body).is_whole) == ("abc", True)


@shaped
async def test_sse_03_a_line_end_cut_in_two_is_one(shape: Shape, gate: Stage) -> None:
    stream = shape.whole("a", "b").replace(b"\n", b"\r\n")
    pieces = [each for part in stream.split(b"\n") for each in (part, b"\n")][:-1]
    gate.models.acts["m"] = apart(*pieces)
    seen = await gate.stream(shape)
    assert (seen.text, len(seen.chunks), seen.is_whole) == ("ab", 4, True)


def no_space(shape: Shape) -> bytes:
    return shape.whole("a", "b").replace(b"data: ", b"data:")


def more_space(shape: Shape) -> bytes:
    return shape.whole("a", "b").replace(b"data: ", b"data:  ")


def two_lines(shape: Shape) -> bytes:
    return shape.whole("a", "b").replace(b',"created"', b'\ndata: ,"created"')


def many_lines(shape: Shape) -> bytes:
    return shape.whole("a", "b").replace(b",", b"\ndata:,").replace(b":[", b":\ndata: [")


def other_fields(shape: Shape) -> bytes:
    return shape.whole("a", "b").replace(b"data: {", b"event: message\nid: 7\nx: y\nretry: 5\ndata: {")


def fields_behind(shape: Shape) -> bytes:
    return shape.whole("a", "b").replace(b"}\n\n", b"}\nid: 7\n: x\n\n")


def begins_with_a_mark(shape: Shape) -> bytes:
    return b"\xef\xbb\xbf" + shape.whole("a", "b")


def spare_line_ends(shape: Shape) -> bytes:
    return b"\n\n" + shape.whole("a", "b").replace(b"\n\n", b"\n\n\n\n\n")


def no_line_end_at_the_end(shape: Shape) -> bytes:
    return shape.whole("a", "b").rstrip(b"\n")


WRITINGS = [
    *(no_space, more_space, two_lines, many_lines, other_fields, fields_behind),
    *(begins_with_a_mark, spare_line_ends, no_line_end_at_the_end),
]


@shaped
@framed
@pytest.mark.parametrize("written", WRITINGS, ids=lambda written: written.__name__)
async def test_sse_04_an_event_is_read_however_it_is_written(
    written: Callable[[Shape], bytes], line_end: bytes, shape: Shape, gate: Stage
) -> None:
    stream = written(shape).replace(b"\n", line_end)
    for pieces in ([stream], bytewise(stream)):
        gate.models.acts["m"] = apart(*pieces)
        seen = await gate.stream(shape)
        assert (seen.text, seen.finishes, seen.is_whole) == ("ab", ["stop"], True)
        assert {(chunk["id"], chunk["created"], chunk["model"]) for chunk in seen.chunks} == {("up-1", 1, "m")}
        assert await counted(gate) == ("ok", 3, 2)


@shaped
async def test_sse_04_what_is_written_over_two_lines_commits_and_fails_like_any_other(shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(
        shape.says("a").replace(b',"created"', b'\ndata: ,"created"'), b'data: {"error":\ndata: "lost"}\n\n'
    )
    seen = await gate.stream(shape)
    assert (seen.text, seen.error["code"]) == ("a", "stream_interrupted")


async def test_what_is_written_apart_is_read_apart(gate: Stage) -> None:
    """What the cases above stand on: each piece is a read of its own, so that what it completes leaves by itself."""

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for _ in range(20):
            call.piece(Shape.CHAT.says("a"))
            await turns()
        call.piece(Shape.CHAT.ends() + DONE)
        call.end()

    gate.models.acts["m"] = act
    async with gate.reading() as answer:
        pieces = [piece async for piece in answer.aiter_raw()]
    assert len(pieces) == 21
