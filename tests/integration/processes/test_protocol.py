"""The listener's patience: what does not come to its end is dropped, what waits behind an answer is not, leaving is noticed."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.processes.protocol import Http1
from gateway.processes.server import Server, Times
from tests.fakes.wire import Wire, chunked, post, request

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
async def opened(app: Any, *, keep_alive_s: float = 75.0) -> AsyncIterator[tuple[Server, str]]:
    server = Server(app, Times(receipt_s=RECEIPT_S, keep_alive_s=keep_alive_s))
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


async def test_what_follows_a_request_for_a_tunnel_is_not_looked_at() -> None:
    async with serving() as url, Wire(url) as wire, asyncio.timeout(5):
        await wire.send(request("CONNECT", "/") + post(b"hidden", path="/"))
        said = await wire.rest()
        assert said.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in said
        assert b"hidden" not in said


async def test_a_connection_is_kept_for_a_while_after_each_answer_and_no_longer() -> None:
    async with opened(echo, keep_alive_s=0.2) as (_, url), Wire(url) as wire, asyncio.timeout(5):
        loop = asyncio.get_running_loop()
        for path in ("/", "/wait", "/wait"):  # an answer that takes longer than that is no rest
            await wire.send(post(b"body", path=path))
            assert (await wire.answer()).body == b"body"
        began_s = loop.time()
        assert await wire.ended()
        assert loop.time() - began_s >= 0.15


async def test_a_connection_on_which_nobody_asks_anything_is_closed() -> None:
    async with opened(echo, keep_alive_s=0.05) as (_, url), Wire(url) as wire, asyncio.timeout(5):
        assert await wire.ended()


async def test_who_waits_to_be_asked_for_the_body_is() -> None:
    async with serving() as url, Wire(url) as wire, asyncio.timeout(5):
        await wire.send(post(b"body", ("expect", "100-continue"), path="/")[:-4])
        assert await wire.interim() == 100
        await wire.send(b"body")
        assert (await wire.answer()).body == b"body"


async def test_a_body_comes_in_order_however_it_arrives() -> None:
    pieces = [bytes([each]) * (each * 7) for each in range(1, 40)]
    async with serving() as url, Wire(url) as wire, asyncio.timeout(5):
        await wire.send(post(b"", ("transfer-encoding", "chunked"), path="/", framed=False))
        for piece in pieces:
            await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)
        await wire.send(b"0\r\n\r\n")
        assert (await wire.answer()).body == b"".join(pieces)


@pytest.mark.parametrize("fails", [True, False])
async def test_an_application_without_an_answer_is_answered_for(fails: bool) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        if fails:
            raise LookupError("the secret")

    async with opened(broken) as (_, url), Wire(url) as wire, asyncio.timeout(5):
        await wire.send(post(b"body", path="/"))
        answer = await wire.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (500, "internal_error")
        assert "secret" not in answer.body.decode()
        assert await wire.ended()


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_framing(status: int) -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"x-one", b"1")]})
        await send({"type": "http.response.body"})

    async with opened(nothing) as (_, url), Wire(url) as wire, asyncio.timeout(5):
        await wire.send(post(b"", path="/") + post(b"", ("connection", "close"), path="/"))
        said = await wire.rest()
        assert said.count(b"HTTP/1.1 %d " % status) == 2
        assert b"chunked" not in said


async def test_the_end_of_a_body_is_told_once() -> None:
    told: list[str] = []

    async def listen(scope: Any, receive: Any, send: Any) -> None:
        while not told or told[-1] == "http.request":
            told.append((await receive())["type"])

    async with opened(listen) as (_, url), asyncio.timeout(5):
        async with Wire(url) as wire:
            await wire.send(post(b"body", path="/"))
            await until(lambda: bool(told))
        await until(lambda: told[-1] != "http.request")
        assert told == ["http.request", "http.disconnect"]


async def test_an_application_that_is_cut_short_ends_its_connection() -> None:
    async def hang(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    async with opened(hang) as (server, url), Wire(url) as wire, asyncio.timeout(5):
        await wire.send(post(b"body", path="/"))
        await until(lambda: bool(server.server_state.tasks))
        for task in [*server.server_state.tasks]:
            task.cancel()
        with contextlib.suppress(ConnectionError):
            assert await wire.ended()


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_who_writes_all_before_reading_hears_an_answer_that_did_not_wait_for_it(framing: str) -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    piece = bytes(1_000_000)
    whole = post(8 * piece, path="/")
    if framing == "chunks":
        whole = post(chunked(*8 * [piece]), ("transfer-encoding", "chunked"), path="/", framed=False)
    async with opened(refuse) as (_, url), Wire(url) as wire, asyncio.timeout(10):
        for _ in range(2):
            await wire.send(whole)
            assert (await wire.answer()).status == 413
