"""How an exchange breaks, and what is said about it."""

import asyncio
import socket

import msgspec
import pytest

from gateway.faults import Fault
from gateway.policy.catalogue import Provider, Secret, Timeouts
from gateway.upstream import connect
from gateway.upstream.origin import parse_origin
from gateway.upstream.pool import Pool
from gateway.upstream.stock import Stock
from gateway.upstream.transport import Reply, Transport, TransportError
from tests.contract.transport.conftest import PATIENT, Bench, Certificates, a_post, at_rest
from tests.fakes.http_server import BlackHole, Call, HttpServer


async def fault_of(reply: Reply) -> tuple[bytes, Fault]:
    """Return what came before the loss, and the loss."""
    got: list[bytes] = []
    with pytest.raises(TransportError) as caught:
        await read_into(got, reply)
    with pytest.raises(TransportError) as again:
        await reply.next()
    assert caught.value.sent
    assert again.value.fault is caught.value.fault
    return b"".join(got), caught.value.fault


async def read_into(got: list[bytes], reply: Reply) -> None:
    while piece := await reply.next():
        got.append(piece)


async def test_a_closed_port_is_a_connect_fault(plain: Bench) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        transport = plain.connect(f"http://127.0.0.1:{bound.getsockname()[1]}")
        for _ in range(6):
            with pytest.raises(TransportError) as caught:
                await transport.open(a_post())
            assert (caught.value.fault, caught.value.sent) == (Fault.CONNECT, False)
    await at_rest(transport)


async def test_a_name_that_does_not_exist_is_a_connect_fault(plain: Bench) -> None:
    transport = plain.connect("http://tiergate.invalid")
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.CONNECT, False)


async def test_a_peer_that_never_accepts_is_a_connect_fault_in_time(plain: Bench) -> None:
    async with BlackHole() as hole:
        transport = plain.connect(hole.base_url, timeouts=Timeouts(connect_s=0.05))
        with pytest.raises(TransportError) as caught:
            await transport.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.CONNECT, False)
    await at_rest(transport)


async def test_a_peer_that_never_shakes_hands_is_a_connect_fault_in_time(secure: Bench) -> None:
    async def script(call: Call) -> None:
        pass

    async with HttpServer(script) as deaf:
        transport = secure.connect(f"https://localhost:{deaf.port}", timeouts=Timeouts(connect_s=0.05))
        with pytest.raises(TransportError) as caught:
            await transport.open(a_post())
        assert (caught.value.fault, caught.value.sent) == (Fault.CONNECT, False)
        await deaf.until(lambda: not deaf.lines)
    await at_rest(transport)


async def test_a_certificate_that_is_not_trusted_is_a_tls_fault(secure: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server = await secure.serve(script)
    provider = Provider(name="p", dialect="openai", base_url=server.base_url, api_key=Secret(""), transport=secure.kind)
    stranger = connect(provider, PATIENT, max_connections=1)
    with pytest.raises(TransportError) as caught:
        await stranger.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.TLS, False)
    await stranger.aclose()


async def test_a_certificate_for_another_name_is_a_tls_fault(secure: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server = await secure.serve(script)
    transport = secure.connect(f"https://127.0.0.1:{server.port}")
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.TLS, False)
    assert server.requests == []


async def test_a_forbidden_address_is_never_spoken_to(plain: Bench, certificates: Certificates) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server = await plain.serve(script)
    origin = msgspec.structs.replace(parse_origin(server.base_url), forbids=lambda address: address == "127.0.0.1")
    transport: Transport = (
        Pool(origin, PATIENT, max_connections=1, tls=None)
        if plain.kind == "http1"
        else Stock(origin, PATIENT, max_connections=1, tls=certificates.client)
    )
    for _ in range(2):
        with pytest.raises(TransportError, match="metadata") as caught:
            await transport.open(a_post())
        assert (caught.value.fault, caught.value.sent) == (Fault.CONNECT, False)
    await at_rest(transport)
    await transport.aclose()
    assert server.requests == []


@pytest.mark.parametrize("cut", ["reset", "close"])
async def test_a_cut_before_the_head_is_a_reset_and_is_not_repeated(bench: Bench, cut: str) -> None:
    async def script(call: Call) -> None:
        call.reset() if cut == "reset" else call.close()

    server, transport = await bench.pair(script)
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.RESET, True)
    assert len(server.requests) == 1
    await at_rest(transport)


async def test_a_cut_on_a_used_connection_is_a_reset_and_is_not_repeated(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply() if len(server.requests) == 1 else call.close()

    server, transport = await bench.pair(script)
    await (await transport.open(a_post())).read(0)
    with pytest.raises(TransportError) as caught:
        await transport.open(a_post())
    assert (caught.value.fault, caught.value.sent) == (Fault.RESET, True)
    assert len(server.requests) == 2


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("cut", ["reset", "close"])
async def test_a_cut_within_the_body_is_told_after_what_had_arrived(bench: Bench, framing: str, cut: str) -> None:
    read = asyncio.Event()

    async def script(call: Call) -> None:
        call.head(length=10) if framing == "length" else call.head(chunked=True)
        call.piece(b"hello")
        await read.wait()
        call.reset() if cut == "reset" else call.close()

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert await got.next() == b"hello"
    read.set()
    assert await fault_of(got) == (b"", Fault.RESET)
    await at_rest(transport)


async def test_content_that_comes_with_the_cut_is_read_first(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.piece(b"last words")
        call.close()

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert await fault_of(got) == (b"last words", Fault.RESET)


async def test_a_cut_body_is_never_read_as_a_whole_one(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(length=10)
        call.piece(b"hello")
        call.close()

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    with pytest.raises(TransportError) as caught:
        await got.read(100)
    assert caught.value.fault is Fault.RESET


async def test_a_reset_is_no_end_of_a_body_that_lasts_until_the_end(plain: Bench) -> None:
    read = asyncio.Event()

    async def script(call: Call) -> None:
        call.head()
        call.write(b"hello")
        await read.wait()
        call.reset()

    _, transport = await plain.pair(script)
    got = await transport.open(a_post())
    assert await got.next() == b"hello"
    read.set()
    assert await fault_of(got) == (b"", Fault.RESET)


NONSENSE = {
    "no http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "length and chunked": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "no length": b"HTTP/1.1 200 OK\r\ncontent-length: three\r\n\r\nabc",
    "another coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "huge head": b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70_000 + b"\r\ncontent-length: 0\r\n\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40_000,
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE)
async def test_what_is_not_http_is_a_protocol_fault(bench: Bench, reply: bytes) -> None:
    async def script(call: Call) -> None:
        call.write(reply)
        await call.gone.wait()

    server, transport = await bench.pair(script)
    with pytest.raises(TransportError) as caught:
        await (await transport.open(a_post())).read(10)
    assert (caught.value.fault, caught.value.sent) == (Fault.PROTOCOL, True)
    await server.until(lambda: not server.lines)
    await at_rest(transport)


@pytest.mark.parametrize("size", [b"zz\r\n", b"-1\r\n"])
async def test_a_broken_chunk_is_a_protocol_fault_after_what_was_good(bench: Bench, size: bytes) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.piece(b"good")
        call.write(size)

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert await fault_of(got) == (b"good", Fault.PROTOCOL)


async def test_endless_trailers_are_a_protocol_fault(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.write(b"0\r\nx: ")
        while not call.gone.is_set():
            await call.write_slowly(b"x" * 10_000)
            await asyncio.sleep(0)

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert await fault_of(got) == (b"", Fault.PROTOCOL)


@pytest.mark.parametrize("farewell", [b"connection: close\r\n", b""], ids=["close", "keep"])
async def test_an_error_that_comes_before_the_request_is_taken_is_a_reply(plain: Bench, farewell: bytes) -> None:
    """A peer that refuses a large body answers at its head and stops reading."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n%b\r\nno" % farewell)
        await done.wait()
        writer.close()

    done = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    transport = plain.connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    opening = asyncio.create_task(transport.open(a_post(b"x" * 20_000_000)))
    if plain.kind == "httpx":
        done.set()  # httpx reads nothing until all is written, or the write fails
        with pytest.raises(TransportError) as caught:
            await (await opening).read(2)
        assert caught.value.fault is Fault.RESET
    else:
        got = await opening
        assert (got.status, await got.read(2)) == (413, b"no")
        assert transport.occupancy().idle == 0
        done.set()
    await at_rest(transport)
    server.close()
