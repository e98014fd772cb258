"""Content codings that nobody asked for."""

import asyncio
import gzip
import zlib

import pytest

from gateway.faults import Fault
from gateway.upstream.transport import TransportError
from tests.contract.transport.conftest import Bench, a_post, at_rest, pieces_of
from tests.fakes.http_server import Call

CODED = [("content-encoding", "gzip"), ("x-other", "kept")]
BOMB = gzip.compress(bytes(10_000_000))


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
async def test_gzip_is_undone_and_leaves_no_trace(bench: Bench, status: int, coding: str) -> None:
    async def script(call: Call) -> None:
        call.reply(status, gzip.compress(b"hello" * 100), [("Content-Encoding", coding), ("x-other", "kept")])

    server, transport = await bench.pair(script)
    for _ in range(2):
        reply = await transport.open(a_post())
        assert (reply.status, reply.headers) == (status, [(b"x-other", b"kept")])
        assert await reply.read(500) == b"hello" * 100
    assert server.connections == 1


async def test_identity_is_no_coding(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply(body=b"hello", headers=[("content-encoding", "identity")])

    _, transport = await bench.pair(script)
    assert await (await transport.open(a_post())).read(5) == b"hello"


async def test_events_of_a_coded_stream_still_come_one_by_one(bench: Bench) -> None:
    async def script(call: Call) -> None:
        coder = zlib.compressobj(wbits=31)
        call.head(200, CODED, chunked=True)
        for number in range(5):
            call.piece(coder.compress(b"data: %d\n\n" % number) + coder.flush(zlib.Z_SYNC_FLUSH))
            await more.wait()
            more.clear()
        call.piece(coder.flush())
        call.end()

    more = asyncio.Event()
    _, transport = await bench.pair(script)
    reply = await transport.open(a_post())
    for number in range(5):
        assert await reply.next() == b"data: %d\n\n" % number
        more.set()
    assert await reply.next() == b""


async def test_a_bomb_is_stopped_at_the_limit(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply(body=BOMB, headers=CODED)

    _, transport = await bench.pair(script)
    reply = await transport.open(a_post())
    with pytest.raises(TransportError) as caught:
        await reply.read(1_000_000)
    assert caught.value.fault is Fault.PROTOCOL
    reply = await transport.open(a_post())
    assert max(len(piece) for piece in await pieces_of(reply)) <= 256 * 1024
    await at_rest(transport)


@pytest.mark.parametrize("body", [b'{"plain": true}', gzip.compress(b"hello")[:-4]], ids=["plain", "cut"])
async def test_what_is_not_the_gzip_that_it_says_is_a_protocol_fault(bench: Bench, body: bytes) -> None:
    async def script(call: Call) -> None:
        call.reply(body=body, headers=CODED)

    _, transport = await bench.pair(script)
    with pytest.raises(TransportError) as caught:
        await (await transport.open(a_post())).read(100)
    assert caught.value.fault is Fault.PROTOCOL
    await at_rest(transport)


async def test_nothing_at_all_is_an_empty_body(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply(429, headers=CODED)

    _, transport = await bench.pair(script)
    reply = await transport.open(a_post())
    assert (reply.status, await reply.read(0)) == (429, b"")


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "gzip, br"])
async def test_any_other_coding_is_a_protocol_fault(bench: Bench, coding: str) -> None:
    async def script(call: Call) -> None:
        call.reply(body=b"?", headers=[("content-encoding", coding)])

    _, transport = await bench.pair(script)
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.PROTOCOL, True)
    await at_rest(transport)
