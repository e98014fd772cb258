"""MEM-01 and MEM-04: a large event costs what its bytes cost and holds nobody up, and streams leave nothing behind."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, Models, encode
from tests.fakes.wire import Wire, post
from tests.field.streaming import BOTH, Shape, Stage, apart, model, no_more, stage
from tests.integration.load.rest import comes_to_rest, idle
from tests.running import HEADERS
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
carried = pytest.mark.parametrize("name", ["m", "x"], ids=["http1", "httpx"])

WRITE_BYTES = 1024
WARM_UP, ROUNDS, STREAMS, AT_ONCE = 100, 12, 200, 10
OPEN_FILES = "/dev/fd"
LONGEST_GAP_S = 0.5
"""Of CPU time, while others wait: a hundred times what it takes, and far less than going over the event at each read."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    stall = {"client_stall": "200ms"}
    models = {"m": model("m", timeouts=stall), "x": model("x", "x", timeouts=stall), "other": model("other")}
    async with stage(valkey_server, tmp_path_factory.mktemp("mem"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


async def nothing() -> None:
    """Do nothing in between."""


async def large(gate: Stage, shape: Shape, name: str, length: int, between: Callable[[], Awaitable[None]] = nothing) -> float:
    """Have one event of this length come in small writes, and this done between them now and then.

    Return the CPU seconds that all of it took, everybody's together.
    """
    said = shape.says("y" * length)

    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(shape.says("a"))
        for number, start in enumerate(range(0, len(said), WRITE_BYTES)):
            call.piece(said[start : start + WRITE_BYTES])
            await call.write_slowly(b"")
            await (between() if number % 100 == 99 else asyncio.sleep(0))
        call.piece(shape.ends() + DONE)
        call.end()

    gate.models.acts[name] = act
    began_s = time.process_time()
    seen = await gate.stream(shape, name)
    spent_s = time.process_time() - began_s
    assert (len(seen.text), seen.is_whole) == (length + 1, True)
    return spent_s


@carried
async def test_mem_01_the_cost_of_a_large_event_is_linear_in_its_bytes(name: str, gate: Stage) -> None:
    await large(gate, Shape.CHAT, name, 500_000)
    small_s = min([await large(gate, Shape.CHAT, name, 500_000) for _ in range(2)])
    large_s = await large(gate, Shape.CHAT, name, 4_000_000)
    assert large_s < 3 * 8 * small_s


@shaped
async def test_mem_01_a_large_event_holds_nobody_up(shape: Shape, gate: Stage) -> None:
    """While it comes in, a neighbour's words arrive one by one, each within the CPU time of a hundred reads."""

    async def neighbour(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        while await words.get():
            call.piece(Shape.CHAT.says("word "))
        call.piece(Shape.CHAT.ends() + DONE)
        call.end()

    async def say_and_hear() -> None:
        began_s = time.process_time()
        words.put_nowait(True)
        assert b"word " in await anext(pieces)
        spent_s.append(time.process_time() - began_s)

    words: asyncio.Queue[bool] = asyncio.Queue()
    words.put_nowait(True)
    spent_s: list[float] = []
    gate.models.acts["other"] = neighbour
    async with gate.reading(model="other") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        await large(gate, shape, "m", 4_000_000, say_and_hear)
        words.put_nowait(False)
        assert [b"[DONE]" in piece async for piece in pieces][-1]
    assert len(spent_s) > 35
    assert max(spent_s) < LONGEST_GAP_S


@carried
async def test_mem_04_a_client_that_does_not_read_fills_no_memory(name: str, gate: Stage) -> None:
    """What it has no room for stays with the provider, and it does not stay for ever itself."""

    async def torrent(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        while not call.gone.is_set():
            call.piece(word)
            await call.write_slowly(b"")
            sent.append(len(word))

    word, sent = Shape.CHAT.says("word " * 20_000), [0]
    gate.models.acts[name] = torrent
    asked = {"model": name, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    async with Wire(gate.run.url) as wire:
        await wire.send(post(encode(asked), *HEADERS.items()))
        await gate.server.until(lambda: gate.models.asked == [name])
        line = await gate.line()
    assert (line["outcome"], line["estimated"], line["bytes_sent"] > 0) == ("cancelled", True, True)
    # The buffers of four sockets, the transport's and the server's; the rest of a torrent without an end is never sent.
    assert sum(sent) < 64_000_000


class Visits:
    """Streams of every end: whole, broken, refused; read to the end or left in the middle."""

    def __init__(self, gate: Stage) -> None:
        self._gate = gate

    async def some(self, count: int) -> None:
        """Have so many streams, ten at a time; each fifth is left in the middle."""
        acts: Models = self._gate.models
        acts.acts["x"] = apart(Shape.CHAT.says("a"), then=Call.reset)
        acts.acts["other"] = apart(Shape.CHAT.says("a" * 5_000), then=no_more)
        for start in range(0, count, AT_ONCE):
            await asyncio.gather(*(self._visit(number) for number in range(start, start + AT_ONCE)))
        await comes_to_rest(self._gate.run)

    async def _visit(self, number: int) -> None:
        match number % 5:
            case 0:
                async with self._gate.reading(BOTH[number % 2], model="other") as answer:
                    await anext(answer.aiter_raw())
            case 1:
                assert (await self._gate.stream(BOTH[number % 2], "x")).error
            case _:
                assert (await self._gate.stream(BOTH[number % 2], "m")).is_whole


def held(gate: Stage) -> dict[str, int]:
    """What a gateway at rest and its surroundings hold, but for its idle connections and what the test's own server remembers."""
    gate.server.requests.clear()
    gate.server.tasks.clear()
    gate.models.asked.clear()
    gate.forget_lines()
    gc.collect()
    return {
        "tasks": len([task for task in asyncio.all_tasks() if not task.done()]),
        "running": len(gate.run.gateway._observer._cells.running),
        "upstream": len(gate.server.lines) - idle(gate.run),
    }


async def test_mem_04_streams_leave_nothing_behind(gate: Stage) -> None:
    visits = Visits(gate)
    await visits.some(WARM_UP)
    before, open_files = held(gate), len(os.listdir(OPEN_FILES))
    grown: list[int] = []
    while not grown or (grown[-1] >= STREAMS and len(grown) < ROUNDS):
        blocks = sys.getallocatedblocks()
        await visits.some(STREAMS)
        async with asyncio.timeout(20.0):
            while any(count > before[name] for name, count in held(gate).items()):
                await asyncio.sleep(0.02)
        grown.append(sys.getallocatedblocks() - blocks)
    # What is learned, a table that grew, the ends of the last seconds come to an end; what each stream leaves behind never does.
    assert grown[-1] < STREAMS, grown
    # Connections that rest for their next request, at either side of the gateway and of both transports.
    assert len(os.listdir(OPEN_FILES)) <= open_files + 4 * AT_ONCE
