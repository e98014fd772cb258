"""Every way to frame a reply, whole and split, and the request as it goes out."""

import asyncio

import pytest

from gateway.faults import Fault
from gateway.upstream.transport import Outgoing, TransportError
from tests.contract.transport.conftest import Bench, a_post, at_rest, pieces_of
from tests.fakes.http_server import Call

LENGTH = b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one:  b\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: no\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: no\r\n\r\n" + LENGTH
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello"
OLD = b"HTTP/1.0 200 OK\r\n\r\nhello"
FRAMINGS = {"length": LENGTH, "chunked": CHUNKED, "interim": INTERIM, "until close": UNTIL_CLOSE, "old": OLD}


def closes(reply: bytes) -> bool:
    return reply in (UNTIL_CLOSE, OLD)


@pytest.mark.parametrize("reply", FRAMINGS.values(), ids=FRAMINGS)
async def test_reads_a_body_in_any_framing(bench: Bench, reply: bytes) -> None:
    async def script(call: Call) -> None:
        call.write(reply)
        if closes(reply):
            call.close()

    server, transport = await bench.pair(script)
    for _ in range(2):
        got = await transport.open(a_post())
        assert (got.status, await got.read(5)) == (200, b"hello")
    await at_rest(transport)
    assert server.connections == (2 if closes(reply) else 1)


@pytest.mark.parametrize("reply", FRAMINGS.values(), ids=FRAMINGS)
async def test_reads_a_reply_that_is_split_at_any_point(plain: Bench, reply: bytes) -> None:
    async def script(call: Call) -> None:
        cut = int(call.request.body)
        await call.write_apart(reply[:cut], reply[cut:])
        if closes(reply):
            call.close()

    _, transport = await plain.pair(script)
    for cut in range(1, len(reply)):
        got = await transport.open(a_post(b"%d" % cut))
        assert b"".join(await pieces_of(got)) == b"hello"


async def test_reads_a_reply_that_comes_byte_by_byte(bench: Bench) -> None:
    async def script(call: Call) -> None:
        await call.write_apart(*(bytes([byte]) for byte in CHUNKED))

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert b"".join(await pieces_of(got)) == b"hello"


async def test_headers_are_in_order_in_lower_case_with_doubles(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.write(LENGTH)

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert got.headers == [(b"x-one", b"a"), (b"x-one", b"b"), (b"content-length", b"5")]


async def test_an_interim_reply_and_trailers_leave_no_header(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.write(INTERIM if len(call.request.body) == 1 else CHUNKED)

    _, transport = await bench.pair(script)
    for body in (b"1", b"22"):
        got = await transport.open(a_post(body))
        await got.read(5)
        assert {name for name, _ in got.headers} <= {b"x-one", b"content-length", b"transfer-encoding"}


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_a_body_needs_no_framing(bench: Bench, status: int) -> None:
    async def script(call: Call) -> None:
        call.head(status)

    server, transport = await bench.pair(script)
    for _ in range(2):
        got = await transport.open(a_post())
        assert (got.status, await got.next()) == (status, b"")
    assert server.connections == 1


@pytest.mark.parametrize("status", [301, 307, 400, 401, 429, 500, 503])
async def test_a_status_is_a_reply_and_never_followed(bench: Bench, status: int) -> None:
    async def script(call: Call) -> None:
        call.reply(status, b'{"error":1}', [("location", "/elsewhere"), ("retry-after", "7")])

    server, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert (got.status, await got.read(100)) == (status, b'{"error":1}')
    assert (b"retry-after", b"7") in got.headers
    assert [request.path for request in server.requests] == ["/v1/chat/completions"]


async def test_pieces_arrive_when_they_are_sent(bench: Bench) -> None:
    more = asyncio.Event()

    async def script(call: Call) -> None:
        call.head(chunked=True)
        for number in range(5):
            call.piece(b"data: %d\n\n" % number)
            await more.wait()
            more.clear()
        call.end()

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    for number in range(5):
        assert await got.next() == b"data: %d\n\n" % number
        more.set()
    assert await got.next() == b""
    assert await got.next() == b""


async def test_the_rest_can_be_read_after_pieces(bench: Bench) -> None:
    more = asyncio.Event()

    async def script(call: Call) -> None:
        call.head(length=4)
        call.piece(b"ab")
        await more.wait()
        call.piece(b"cd")

    _, transport = await bench.pair(script)
    got = await transport.open(a_post())
    assert await got.next() == b"ab"
    more.set()
    assert await got.read(2) == b"cd"


async def test_the_request_has_its_host_its_length_and_our_headers(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server = await bench.serve(script)
    transport = bench.connect(server.base_url + "/base/v1")
    await transport.open(a_post(b'{"a":1}', "/chat?x=1", authorization="Bearer k", content_type="application/json"))
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/base/v1/chat?x=1", b'{"a":1}')
    assert sorted(request.headers) == [
        ("accept-encoding", "identity"),
        ("authorization", "Bearer k"),
        ("content-length", "7"),
        ("content-type", "application/json"),
        ("host", server.base_url.partition("//")[2]),
    ]


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, 5_000_000])
async def test_a_body_of_any_size_goes_both_ways(bench: Bench, size: int) -> None:
    async def script(call: Call) -> None:
        call.reply(body=call.request.body)

    _, transport = await bench.pair(script)
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    for _ in range(2):
        got = await transport.open(a_post(body))
        assert await got.read(size) == body


async def test_a_body_may_be_as_large_as_the_limit_and_no_larger(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.piece(b"x" * 600_000)
        call.piece(b"x" * 400_000)
        if call.request.body == b"ends":
            call.end()

    _, transport = await bench.pair(script)
    got = await transport.open(a_post(b"ends"))
    assert len(await got.read(1_000_000)) == 1_000_000
    for body in (b"ends", b"goes on"):
        got = await transport.open(a_post(body))
        with pytest.raises(TransportError) as caught:
            await got.read(999_999)
        assert caught.value.fault is Fault.PROTOCOL
    await at_rest(transport)


@pytest.mark.parametrize(
    "evil", [Outgoing(path="/a\r\nx: y", headers=(), body=b""), a_post(x="a\r\nevil: b"), a_post(x="a\nevil: b")]
)
async def test_a_line_break_cannot_be_smuggled_into_a_request(plain: Bench, evil: Outgoing) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server, transport = await plain.pair(script)
    with pytest.raises(ValueError, match="request"):
        await transport.open(evil)
    assert server.requests == []
    await at_rest(transport)
