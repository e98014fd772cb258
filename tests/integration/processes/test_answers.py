"""An answer by calls and one by ASGI's messages are the same bytes on the wire; what is no answer gets nowhere by either."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.web.client import SERVER, Messages, Server
from tests.fakes.wire import Wire, post, request
from tests.integration.processes.test_protocol import opened

Way = Messages | Server
Steps = Callable[[Way], Awaitable[None]]

LENGTH = b"content-length"
POST, HEAD = post(b"", path="/"), request("HEAD", "/")
LAST_POST, LAST_HEAD = post(b"", ("connection", "close"), path="/"), request("HEAD", "/", ("connection", "close"))


def by_calls(scope: Any, _send: Any) -> Way:
    offered: Server = scope["extensions"][SERVER]
    return offered


def by_messages(_scope: Any, send: Any) -> Way:
    return Messages(send)


both_ways = pytest.mark.parametrize("way", [by_calls, by_messages], ids=["calls", "messages"])


async def heard(way: Callable[[Any, Any], Way], steps: Steps, asked: bytes) -> tuple[bytes, list[Exception]]:
    """Return all that a client reads until the connection ends, and what the server's side raised."""
    raised: list[Exception] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await steps(way(scope, send))
        except RuntimeError as error:
            raised.append(error)

    async with opened(app) as (_, url), Wire(url) as wire, asyncio.timeout(5):
        await wire.send(asked)
        return await wire.rest(), raised


async def counted(way: Way) -> None:
    await way.start(200, [(b"x-one", b"1"), (LENGTH, b"5")])
    await way.write(b"ab")
    await way.finish(b"cde")


async def in_chunks(way: Way) -> None:
    await way.start(429, [(b"x-one", b"1")])
    for piece in (b"ab", b"", b"c" * 21):
        await way.write(piece)
    await way.finish(b"")


async def in_one_chunk(way: Way) -> None:
    await way.start(200, [])
    await way.finish(b"last")


@both_ways
@pytest.mark.parametrize(
    ("steps", "asked", "expected"),
    [
        (
            counted,
            POST + LAST_POST,
            [b"200 OK|x-one: 1|content-length: 5||abcde", b"200 OK|x-one: 1|content-length: 5|close||abcde"],
        ),
        (counted, HEAD + LAST_HEAD, [b"200 OK|x-one: 1|content-length: 5||", b"200 OK|x-one: 1|content-length: 5|close||"]),
        (in_chunks, LAST_POST, [b"429 Too Many Requests|x-one: 1|close|chunked||2|ab|15|ccccccccccccccccccccc|0||"]),
        (in_chunks, LAST_HEAD, [b"429 Too Many Requests|x-one: 1|close||"]),
        (in_one_chunk, LAST_POST, [b"200 OK|close|chunked||4|last|0||"]),
    ],
)
async def test_both_ways_write_the_same(
    way: Callable[[Any, Any], Way], steps: Steps, asked: bytes, expected: list[bytes]
) -> None:
    whole = b"".join(b"HTTP/1.1 " + each for each in expected)
    whole = whole.replace(b"|close|", b"|connection: close|").replace(b"|chunked|", b"|transfer-encoding: chunked|")
    assert await heard(way, steps, asked) == (whole.replace(b"|", b"\r\n"), [])


async def too_short(way: Way) -> None:
    await way.start(200, [(LENGTH, b"5")])
    await way.finish(b"abc")


async def too_long(way: Way) -> None:
    await way.start(200, [(LENGTH, b"2")])
    await way.write(b"ab")
    await way.finish(b"c")


@both_ways
@pytest.mark.parametrize(("steps", "body"), [(too_short, b"abc"), (too_long, b"ab")])
async def test_a_body_that_is_not_as_long_as_announced_is_cut_off(
    way: Callable[[Any, Any], Way], steps: Steps, body: bytes
) -> None:
    said, raised = await heard(way, steps, POST)
    assert said.partition(b"\r\n\r\n")[2] in {body, b""}
    assert len(raised) == 1


async def with_a_line_break(way: Way) -> None:
    await way.start(200, [(b"x-one", b"1\r\nx-two: 2"), (LENGTH, b"0")])


async def without_a_head(way: Way) -> None:
    await way.finish(b"{}")


@both_ways
@pytest.mark.parametrize("steps", [with_a_line_break, without_a_head])
async def test_nothing_is_written_that_is_no_answer(way: Callable[[Any, Any], Way], steps: Steps) -> None:
    said, raised = await heard(way, steps, LAST_POST)
    assert b"x-two" not in said
    assert b"{}" not in said
    assert len(raised) == 1


@both_ways
async def test_a_client_that_does_not_read_is_waited_for(way: Callable[[Any, Any], Way]) -> None:
    written = 0
    full = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal written
        answer = way(scope, send)
        await answer.start(200, [])
        for _ in range(100):
            asyncio.get_running_loop().call_later(0.1, full.set)
            await answer.write(bytes(1_000_000))
            written += 1
        await answer.finish(b"")

    async with opened(app) as (_, url), Wire(url) as wire, asyncio.timeout(10):
        await wire.send(LAST_POST)
        await full.wait()
        assert written < 100
        assert (await wire.rest()).endswith(b"\r\n0\r\n\r\n")
        assert written == 100
