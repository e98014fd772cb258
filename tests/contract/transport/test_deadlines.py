"""Deadlines that pass, and deadlines that move."""

import asyncio
import math
import time

import pytest

from gateway.faults import Fault
from gateway.policy.catalogue import Timeouts
from gateway.upstream.pool import SWEEP_S
from gateway.upstream.transport import TransportError
from tests.contract.transport.conftest import Bench, a_post, at_rest
from tests.fakes.http_server import Call

SOON_S = 0.03


async def test_a_head_that_does_not_come_in_time(bench: Bench) -> None:
    async def script(call: Call) -> None:
        if call.request.body == b"connect":
            call.reply()
        await call.gone.wait()

    server, transport = await bench.pair(script)
    await (await transport.open(a_post(b"connect"))).read(0)
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post(), time.monotonic() + SOON_S)
    assert (caught.value.fault, caught.value.sent) == (Fault.TIMEOUT, True)
    await server.until(lambda: not server.lines)
    await at_rest(transport)


@pytest.mark.parametrize("whole", [False, True], ids=["pieces", "whole"])
async def test_a_body_that_stops_is_cut_at_the_deadline_its_reader_sets(bench: Bench, whole: bool) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.piece(b"one")
        await call.gone.wait()

    server, transport = await bench.pair(script)
    reply = await transport.open(a_post())
    assert reply.deadline_s == math.inf
    assert await reply.next() == b"one"
    reply.deadline_s = time.monotonic() + SOON_S
    with pytest.raises(TransportError) as caught:
        await (reply.read(10) if whole else reply.next())
    assert (caught.value.fault, caught.value.sent) == (Fault.TIMEOUT, True)
    await server.until(lambda: not server.lines)
    await at_rest(transport)


async def test_a_deadline_that_was_moved_cuts_nothing(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(length=6)
        call.piece(b"one")
        await more.wait()
        call.piece(b"two")

    more = asyncio.Event()
    _, transport = await bench.pair(script)
    first_s = time.monotonic() + 0.05
    reply = await transport.open(a_post(), first_s)
    reply.deadline_s = first_s + 5.0
    assert await reply.next() == b"one"
    reading = asyncio.create_task(reply.next())
    await asyncio.sleep(first_s + 1.5 * SWEEP_S - time.monotonic())
    assert not reading.done()
    more.set()
    assert await reading == b"two"


async def test_a_deadline_that_passes_in_line(bench: Bench) -> None:
    async def script(call: Call) -> None:
        await call.gone.wait()

    server, transport = await bench.pair(script, max_connections=1)
    holding = asyncio.create_task(transport.open(a_post()))
    await server.until(lambda: len(server.requests) == 1)
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post(), time.monotonic() + SOON_S)
    assert (caught.value.fault, caught.value.sent) == (Fault.TIMEOUT, False)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await at_rest(transport)
    assert len(server.requests) == 1


async def test_a_request_that_is_not_taken_in_time(plain: Bench) -> None:
    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await done.wait()
        writer.close()

    done = asyncio.Event()
    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    timeouts = Timeouts(write_s=SOON_S)
    transport = plain.connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeouts=timeouts)
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post(bytes(20_000_000)))
    assert (caught.value.fault, caught.value.sent) == (Fault.WRITE, True)
    await at_rest(transport)
    done.set()
    server.close()
