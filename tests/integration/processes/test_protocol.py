"""The listener's patience: a request that does not come to its end is dropped, one that waits behind an answer is not."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.processes.protocol import Http1
from gateway.processes.server import Server
from tests.fakes.wire import Wire, post, request


class Hasty(Http1):
    receipt_s = 0.1


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body; `/wait` first waits for the client to leave or for the test."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        body, more = body + message["body"], message["more_body"]
    if scope["path"] == "/wait":
        await asyncio.sleep(3 * Hasty.receipt_s)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    server = Server(echo)
    server.config.http = Hasty
    listener = socket.create_server(("127.0.0.1", 0))
    await server.open(listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.close()


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
