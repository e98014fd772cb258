"""Our transports as a transport of httpx: the client sees what stock httpx would show it."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.upstream.adapter import HttpxAdapter
from gateway.upstream.origin import parse_origin
from gateway.upstream.transport import Transport
from tests.contract.transport.conftest import PATIENT, Bench, at_rest
from tests.fakes.http_server import Call, HttpServer, Script


@pytest.fixture
def kind() -> str:
    return "http1"


async def client_of(bench: Bench, script: Script, timeout_s: float = 5.0) -> tuple[HttpServer, Transport, httpx.AsyncClient]:
    server = await bench.serve(script)
    base_url = server.base_url + "/v1"
    transport = bench.connect(base_url, timeouts=PATIENT)
    adapter = HttpxAdapter(transport, parse_origin(base_url))
    return server, transport, httpx.AsyncClient(transport=adapter, base_url=base_url, timeout=timeout_s)


async def test_a_request_goes_out_as_httpx_wrote_it(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply(201, b'{"ok": true}', [("x-a", "1")])

    server, _, client = await client_of(bench, script)
    async with client:
        response = await client.post("/chat", params={"q": "1"}, json={"a": 1}, headers={"authorization": "Bearer k"})
    assert (response.status_code, response.json(), response.headers["x-a"]) == (201, {"ok": True}, "1")
    (request,) = server.requests
    assert (request.path, request.body) == ("/v1/chat?q=1", b'{"a":1}')
    assert request.header("authorization") == "Bearer k"
    assert [name for name, _ in request.headers if name in ("host", "content-length", "accept-encoding")] == [
        "host",
        "accept-encoding",
        "content-length",
    ]


async def test_a_body_that_is_made_piece_by_piece_is_read_before_it_leaves(bench: Bench) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async def script(call: Call) -> None:
        call.reply(body=call.request.body)

    _, _, client = await client_of(bench, script)
    async with client:
        assert (await client.post("/chat", content=pieces())).content == b"one two"


async def test_a_reply_is_streamed_and_may_be_left(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(chunked=True)
        call.piece(b"one")
        await more.wait()
        call.piece(b"two")
        await call.gone.wait()

    more = asyncio.Event()
    server, transport, client = await client_of(bench, script)
    async with client:
        async with client.stream("POST", "/chat") as response:
            pieces = response.aiter_raw()
            assert await anext(pieces) == b"one"
            more.set()
            assert await anext(pieces) == b"two"
        await server.until(lambda: not server.lines)
        await at_rest(transport)


async def test_connections_are_shared_and_used_again(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply(body=call.request.body)

    server, _, client = await client_of(bench, script)
    async with client:
        for number in range(5):
            assert (await client.post("/chat", content=b"%d" % number)).content == b"%d" % number
    assert server.connections == 1


async def test_a_reset_is_a_read_error_a_nonsense_a_protocol_error(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reset() if call.request.body == b"reset" else call.write(b"nonsense\r\n\r\n")

    _, _, client = await client_of(bench, script)
    async with client:
        with pytest.raises(httpx.ReadError):
            await client.post("/chat", content=b"reset")
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/chat", content=b"nonsense")


async def test_a_cut_body_is_a_read_error(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.head(length=10)
        call.write(b"one")
        call.close()

    _, _, client = await client_of(bench, script)
    async with client:
        with pytest.raises(httpx.ReadError):
            await client.post("/chat")


@pytest.mark.parametrize("stage", ["head", "body"])
async def test_the_read_timeout_of_httpx_holds_for_every_wait(bench: Bench, stage: str) -> None:
    async def script(call: Call) -> None:
        if stage == "body":
            call.head(length=10)
        await call.gone.wait()

    _, transport, client = await client_of(bench, script, timeout_s=0.03)
    async with client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/chat")
        await at_rest(transport)


async def test_nobody_there_is_a_connect_error(plain: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server, _, client = await client_of(plain, script)
    server.stop_listening()
    async with client:
        with pytest.raises(httpx.ConnectError):
            await client.post("/chat")


async def test_another_origin_another_path_and_another_method_are_refused(bench: Bench) -> None:
    async def script(call: Call) -> None:
        call.reply()

    server, _, client = await client_of(bench, script)
    async with client:
        for method, url in [("GET", "/chat"), ("POST", "http://127.0.0.1:1/v1/chat"), ("POST", server.base_url + "/v2/chat")]:
            with pytest.raises(httpx.UnsupportedProtocol):
                await client.request(method, url)
    assert server.requests == []
