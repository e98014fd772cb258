"""The listener's patience: what does not come to its end is dropped, what waits behind an answer is not, leaving is noticed."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gateway.processes.protocol import Http1
from gateway.processes.server import Server, Times
from tests.fakes.wire import Wire, post, request

RECEIPT_S = 0.1


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body; `/wait` first waits for the client to leave or for the test."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        body, more = body + message["body"], message["more_body"]
    if scope["path"] == "/wait":
        await asyncio.sleep(3 * RECEIPT_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def opened(app: Any) -> AsyncIterator[tuple[Server, str]]:
    server = Server(app, Times(receipt_s=RECEIPT_S))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.open(listener)
    try:
        yield server, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.close()


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    async with opened(echo) as (_, url):
        yield url


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


async def test_half_a_request_is_not_waited_for() -> None:
    async with serving() as url:
        for half in (request("GET", "/")[:-2], post(b"body", path="/")[:-1]):
            async with Wire(url) as wire, asyncio.timeout(5):
                await wire.send(half)
                assert await wire.ended()


async def test_half_a_request_behind_an_answer_waits_for_it() -> None:
    async with serving() as url, Wire(url) as wire, asyncio.timeout(5):
        whole = post(b"second", path="/")
        await wire.send(post(b"first", path="/wait") + whole[:10])
        assert (await wire.answer()).body == b"first"
        await wire.send(whole[10:])
        assert (await wire.answer()).body == b"second"


async def test_half_a_request_behind_an_answer_is_not_waited_for_after_it() -> None:
    async with serving() as url, Wire(url) as wire, asyncio.timeout(5):
        await wire.send(post(b"first", path="/wait") + post(b"second", path="/")[:10])
        assert (await wire.answer()).body == b"first"
        assert await wire.ended()


async def test_who_leaves_is_noticed_with_a_request_in_line_behind_the_answer() -> None:
    noticed, calls = asyncio.Event(), 0

    async def hold(scope: Any, receive: Any, send: Any) -> None:
        nonlocal calls
        calls += 1
        while (await receive())["type"] == "http.request":
            pass
        noticed.set()

    async with opened(hold) as (server, url), asyncio.timeout(5):
        async with Wire(url) as wire:
            await wire.send(post(b"first", path="/"))
            await until(lambda: calls == 1)
            await wire.send(post(b"second", path="/"))
            [connection] = server.server_state.connections
            assert isinstance(connection, Http1)
            await until(lambda: bool(connection.pipeline))
        await noticed.wait()
    assert calls == 1


async def test_an_answer_that_is_given_up_does_not_wait_for_its_client() -> None:
    async def give_up(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2):
            await send({"type": "http.response.body", "body": bytes(16_000_000), "more_body": True})

    async def give_up_in_time(scope: Any, receive: Any, send: Any) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await give_up(scope, receive, send)

    async with opened(give_up_in_time) as (server, url), Wire(url) as wire, asyncio.timeout(5):
        await wire.send(request("GET", "/"))
        await until(lambda: bool(server.server_state.connections))
        await until(lambda: not server.server_state.connections)


async def test_an_offer_of_another_protocol_is_passed_over() -> None:
    offer = (("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQBAAAAAAIAAAAA"))
    async with serving() as url, Wire(url) as wire, asyncio.timeout(5):
        for body in (b"the body", b"upgrade: not\r\nupgrade: a header\r\n\r\n"):
            await wire.send(post(body, *offer, path="/"))
            assert (await wire.answer()).body == body
