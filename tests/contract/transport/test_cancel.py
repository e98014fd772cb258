"""A caller that leaves, at every point where it may wait: nothing is kept, nothing is lost, nothing crosses over."""

import asyncio
import functools
import random
import time

import pytest

from gateway.policy.catalogue import Timeouts
from gateway.upstream.pool import Pool
from gateway.upstream.transport import Outgoing, Reply, Transport, TransportError
from tests.contract.transport.conftest import Bench, a_post, at_rest
from tests.fakes.http_server import BlackHole, Call, HttpServer, Script

SIZE = 4


def with_muster(script: Script) -> Script:
    """Return a script that answers `/muster` only when `SIZE` such requests are there at the same time."""
    present: list[Call] = []

    async def mustering(call: Call) -> None:
        if call.request.path != "/muster":
            await script(call)
            return
        present.append(call)
        if len(present) == SIZE:
            for each in present:
                each.reply(body=each.request.body)
            present.clear()

    return mustering


async def assert_full_strength(transport: Transport) -> None:
    """Show that every slot of the pool can be used, all at once, and that nothing is held afterwards."""
    await at_rest(transport)
    replies = await asyncio.gather(*(transport.open(a_post(b"%d" % number, "/muster")) for number in range(SIZE)))
    assert [await reply.read(1) for reply in replies] == [b"%d" % number for number in range(SIZE)]
    await at_rest(transport)


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def all_leave(tasks: list[asyncio.Task[Reply]]) -> None:
    """Cancel what is not over by itself."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def silent(call: Call) -> None:
    await call.gone.wait()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_while_the_peer_does_not_accept(plain: Bench) -> None:
    async with BlackHole() as hole:
        transport = plain.connect(hole.base_url, timeouts=Timeouts(connect_s=0.1, pool_s=1.0), max_connections=SIZE)
        openings = [asyncio.create_task(transport.open(a_post())) for _ in range(3 * SIZE)]
        await turns(20)
        await all_leave(openings)
        await at_rest(transport)


async def test_a_caller_that_leaves_knows_whether_anything_was_sent(bench: Bench) -> None:
    sent: list[bytes] = []
    server, transport = await bench.pair(silent, max_connections=1)
    openings = [
        asyncio.create_task(transport.open(a_post(body), on_sent=functools.partial(sent.append, body))) for body in (b"a", b"b")
    ]
    await server.until(lambda: bool(server.requests))
    assert sent == [b"a"]
    await all_leave(openings)
    await at_rest(transport)
    assert sent == [b"a"]


async def test_while_the_peer_does_not_shake_hands(secure: Bench) -> None:
    async with HttpServer(silent) as deaf:
        timeouts = Timeouts(connect_s=0.1, pool_s=1.0)
        transport = secure.connect(f"https://localhost:{deaf.port}", timeouts=timeouts, max_connections=SIZE)
        openings = [asyncio.create_task(transport.open(a_post())) for _ in range(SIZE)]
        await deaf.until(lambda: deaf.connections == SIZE)
        await all_leave(openings)
        await deaf.until(lambda: not deaf.lines)
        await at_rest(transport)


@pytest.mark.parametrize("after_turns", range(8))
async def test_at_every_turn_of_connecting(bench: Bench, after_turns: int) -> None:
    server, transport = await bench.pair(with_muster(silent), max_connections=SIZE)
    for _ in range(SIZE + 1):
        opening = asyncio.create_task(transport.open(a_post()))
        await turns(after_turns)
        await cancelled(opening)
    await assert_full_strength(transport)
    assert len(server.lines) <= SIZE


async def test_a_connection_that_is_made_for_nobody_is_kept_for_the_next(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply(body=b"hi")

    server, transport = await bench.pair(script)
    if not isinstance(transport, Pool):
        pytest.skip("stock httpx gives it up")
    opening = asyncio.create_task(transport.open(a_post()))
    await turns(1)
    await cancelled(opening)
    await at_rest(transport)
    assert transport.occupancy().idle == 1
    assert await (await transport.open(a_post())).read(2) == b"hi"
    assert (server.connections, len(server.requests)) == (1, 1)


async def test_while_the_head_is_awaited(bench: Bench) -> None:
    server, transport = await bench.pair(with_muster(silent), max_connections=SIZE)
    for _ in range(2 * SIZE):
        opening = asyncio.create_task(transport.open(a_post()))
        await server.until(lambda: bool(server.requests))
        server.requests.clear()
        await cancelled(opening)
        await server.until(lambda: not server.lines)
    await assert_full_strength(transport)


async def test_while_the_body_is_awaited(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.piece(b"one")
        await call.gone.wait()

    server, transport = await bench.pair(with_muster(script), max_connections=SIZE)
    for whole in [False, True] * SIZE:
        reply = await transport.open(a_post())
        assert await reply.next() == b"one"
        reading = asyncio.create_task(reply.read(100) if whole else reply.next())
        await turns(2)
        await cancelled(reading)
        reply.close()
        await server.until(lambda: not server.lines)
    await assert_full_strength(transport)


@pytest.mark.parametrize("after_turns", range(12))
async def test_at_every_turn_of_the_end_of_a_body(bench: Bench, after_turns: int) -> None:
    async def script(call: Call) -> None:
        call.reply(body=b"hi")

    _, transport = await bench.pair(with_muster(script), max_connections=SIZE)
    for _ in range(SIZE):
        reply = await transport.open(a_post())
        reading = asyncio.create_task(reply.read(100))
        await turns(after_turns)
        reading.cancel()
        reply.close()
        await asyncio.gather(reading, return_exceptions=True)
    await assert_full_strength(transport)


async def test_a_reply_can_be_read_on_after_a_cancelled_read(bench: Bench) -> None:
    more = asyncio.Event()

    async def script(call: Call) -> None:
        call.head(length=6)
        call.piece(b"one")
        await more.wait()
        call.piece(b"two")

    _, transport = await bench.pair(script)
    reply = await transport.open(a_post())
    assert await reply.next() == b"one"
    reading = asyncio.create_task(reply.next())
    await turns(3)
    await cancelled(reading)
    more.set()
    assert await reply.next() == b"two"
    assert await reply.next() == b""


async def test_while_the_request_is_not_taken(plain: Bench) -> None:
    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await done.wait()
        writer.close()

    connected, done = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    transport = plain.connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    opening = asyncio.create_task(transport.open(a_post(bytes(20_000_000))))
    await connected.wait()
    await turns(10)
    await cancelled(opening)
    await at_rest(transport)
    done.set()
    server.close()


async def test_while_standing_in_line(bench: Bench) -> None:
    server, transport = await bench.pair(with_muster(silent), max_connections=1)
    holding = asyncio.create_task(transport.open(a_post()))
    await server.until(lambda: len(server.requests) == 1)
    for _ in range(5):
        waiting = asyncio.create_task(transport.open(a_post()))
        await turns(3)
        await cancelled(waiting)
    await cancelled(holding)
    await at_rest(transport)
    assert len(server.requests) == 1


@pytest.mark.parametrize("after_turns", range(8))
async def test_at_every_turn_of_being_given_a_connection(bench: Bench, after_turns: int) -> None:
    async def script(call: Call) -> None:
        if call.request.body == b"hold":
            call.head(length=1)
            await release.wait()
            call.piece(b"x")
        else:
            call.reply(body=b"hi")

    release = asyncio.Event()
    _, transport = await bench.pair(script, max_connections=1)
    for closes in (True, False):
        holding = await transport.open(a_post(b"hold"))
        waiting = asyncio.create_task(transport.open(a_post()))
        await turns(1)
        if closes:
            holding.close()
        else:
            release.set()
            await holding.read(1)
        await turns(after_turns)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if waiting.done() and not waiting.cancelled():
            waiting.result().close()
        await at_rest(transport)
        assert await (await transport.open(a_post())).read(2) == b"hi"
        await at_rest(transport)


async def test_hundreds_at_random_leave_the_pool_at_full_strength_and_no_answer_crosses(bench: Bench) -> None:
    dice = random.Random(20)
    crossed: list[tuple[bytes, bytes]] = []
    served = 0

    async def script(call: Call) -> None:
        await turns(int(call.request.header("pause") or 0))
        call.head(chunked=True)
        for byte in call.request.body:
            call.piece(bytes([byte]))
            await turns(int(call.request.header("gap") or 0))
        call.end()

    _, transport = await bench.pair(with_muster(script), max_connections=SIZE)

    async def one(outgoing: Outgoing) -> None:
        nonlocal served
        reply = await transport.open(outgoing)
        try:
            got = await reply.read(100)
        finally:
            reply.close()
        served += 1
        if got != outgoing.body:
            crossed.append((got, outgoing.body))

    for round_number in range(50):
        batch = [
            asyncio.create_task(
                one(a_post(b"nonce %d %d" % (round_number, number), pause=str(dice.randrange(4)), gap=str(dice.randrange(2))))
            )
            for number in range(2 * SIZE)
        ]
        for task in batch:
            await turns(dice.randrange(12))
            if dice.randrange(8):
                task.cancel()
        await asyncio.gather(*batch, return_exceptions=True)
    assert crossed == []
    assert served > 0
    await assert_full_strength(transport)


async def test_who_comes_after_a_caller_that_left_has_its_own_time_to_connect(plain: Bench) -> None:
    timeouts = Timeouts(connect_s=0.2, pool_s=0.1)
    async with BlackHole() as hole:
        transport = plain.connect(hole.base_url, timeouts=timeouts)
        first = asyncio.create_task(transport.open(a_post()))
        await asyncio.sleep(timeouts.connect_s / 2)
        await cancelled(first)
        began_s = time.monotonic()
        with pytest.raises(TransportError):
            await transport.open(a_post())
        assert time.monotonic() - began_s >= timeouts.connect_s
        await at_rest(transport)
