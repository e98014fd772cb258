"""What happens on the wire below a request: framing that lies, clients that leave, requests that come in a row."""

import asyncio
from asyncio import IncompleteReadError

import pytest

from tests.fakes.http_server import Call
from tests.fakes.openai import answers, event, silence, streams
from tests.fakes.wire import Wire, chunked, post, request
from tests.integration.edge.bad import AUTH, BIG, CHUNKED, GOOD, TYPE, chat
from tests.integration.scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_requests_in_a_row_are_answered_in_their_order(gate: Scene) -> None:
    bad = post(b"{", AUTH, TYPE)
    async with Wire(gate.run.url) as wire:
        await wire.send(GOOD + bad + request("GET", "/nowhere") + GOOD + request("GET", "/health"))
        assert [(await wire.answer()).status for _ in range(5)] == [200, 400, 404, 200, 200]
    assert gate.models.asked == ["m", "m"]


async def test_a_request_byte_by_byte_is_a_request(gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        for place in range(len(GOOD)):
            await wire.send(GOOD[place : place + 1])
        assert (await wire.answer()).status == 200


async def test_chunks_are_a_body(gate: Scene) -> None:
    body = chat()
    async with Wire(gate.run.url) as wire:
        await wire.send(post(chunked(body[:7], body[7:8], body[8:]), AUTH, TYPE, CHUNKED, framed=False))
        assert (await wire.answer()).status == 200
        await wire.send(GOOD)
        assert (await wire.answer()).status == 200


async def test_a_large_body_is_refused_before_it_is_sent(gate: Scene) -> None:
    head = post(b"", AUTH, TYPE, ("content-length", str(1 << 40)), framed=False)
    async with Wire(gate.run.url) as wire:
        await wire.send(head)
        answer = await wire.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")


async def test_a_large_body_is_refused_before_it_has_ended(gate: Scene) -> None:
    half = chunked(BIG).removesuffix(b"0\r\n\r\n")
    async with Wire(gate.run.url) as wire:
        await wire.send(post(half, AUTH, TYPE, CHUNKED, framed=False))
        assert (await wire.answer()).status == 413
        await wire.send(b"0\r\n\r\n" + GOOD)
        assert (await wire.answer()).status == 200


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked_or_refused(gate: Scene) -> None:
    expects = ("expect", "100-continue")
    async with Wire(gate.run.url) as wire:
        await wire.send(post(b"", AUTH, TYPE, expects, ("content-length", str(len(chat()))), framed=False))
        assert await wire.interim() == 100
        await wire.send(chat())
        assert (await wire.answer()).status == 200
    async with Wire(gate.run.url) as wire:
        await wire.send(post(b"", AUTH, TYPE, expects, ("content-length", str(1 << 30)), framed=False))
        assert (await wire.answer()).status == 413


CUT_SHORT = [
    post(chat(), AUTH, TYPE)[:-5],
    post(b"", AUTH, TYPE, ("content-length", str(len(chat()) + 1)), framed=False) + chat(),
    post(chunked(chat()).removesuffix(b"0\r\n\r\n"), AUTH, TYPE, CHUNKED, framed=False),
    post(chunked(chat())[:-3], AUTH, TYPE, CHUNKED, framed=False),
    post(b"", AUTH, TYPE, ("content-length", "9"), framed=False),
    request("POST", "/v1/chat/completions", AUTH)[:-2],
]


@pytest.mark.parametrize("data", CUT_SHORT, ids=["cut", "short", "no_last_chunk", "half_a_last_chunk", "no_body", "no_head"])
@pytest.mark.parametrize("way", ["half_close", "close"])
async def test_a_request_cut_short_is_no_request(data: bytes, way: str, gate: Scene) -> None:
    before = len(await gate.run.rows())
    async with Wire(gate.run.url) as wire:
        await wire.send(data)
        if way == "half_close":
            wire.end()
            with pytest.raises(IncompleteReadError):
                await wire.answer()
    await gate.run.settled()
    assert gate.models.asked == []
    assert len(await gate.run.rows()) == before
    assert await gate.run.leases() == 0
    assert gate.run.gateway._floor.buffered.held_bytes == 0


async def test_a_body_longer_than_it_said_ends_its_connection(gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        await wire.send(post(b"", AUTH, TYPE, ("content-length", str(len(chat()))), framed=False) + chat() + b"more")
        assert await wire.ended()
    await gate.run.settled()
    assert await gate.run.leases() == 0


@pytest.mark.parametrize("start", [b"GET /", GOOD.partition(b"\r\n")[0] + b"\r\nx-flood: "], ids=["url", "header"])
async def test_a_head_without_an_end_is_cut_off(start: bytes, gate: Scene) -> None:
    async with Wire(gate.run.url) as wire:
        await wire.send(start)
        with pytest.raises(ConnectionError):
            await wire.send_for_ever(b"a" * 65_536)
    assert gate.models.asked == []


@pytest.mark.parametrize("behind", [0, 1], ids=["alone", "with_another_behind_it"])
async def test_a_client_that_leaves_takes_its_upstream_along(behind: int, gate: Scene) -> None:
    gate.models.acts["m"] = silence
    before = len(gate.server.requests)
    async with Wire(gate.run.url) as wire:
        await wire.send(GOOD * (1 + behind))
        await gate.server.until(lambda: len(gate.server.requests) > before)
    async with asyncio.timeout(1):
        await gate.server.until(lambda: not gate.server.lines)
        await gate.run.settled()
    assert gate.models.asked == ["m"]
    assert (await gate.run.rows())[0]["outcome"] == "cancelled"


async def test_an_answer_that_nobody_hears_is_settled(gate: Scene) -> None:
    async def once_gone(call: Call) -> None:
        left.set()
        await go_on.wait()
        await answers()(call)

    left, go_on = asyncio.Event(), asyncio.Event()
    gate.models.acts["m"] = once_gone
    async with Wire(gate.run.url) as wire:
        await wire.send(GOOD)
        await left.wait()
    go_on.set()
    await gate.run.settled()
    assert await gate.run.leases() == 0
    assert (await gate.run.rows())[0]["outcome"] in ("cancelled", "ok")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_who_speaks_http_1_0_gets_no_chunks_and_a_connection_for_each_answer(path: str, stream: bool, gate: Scene) -> None:
    body = chat(stream=stream, **({} if "chat" in path else {"messages": ..., "prompt": "hi"}))
    async with Wire(gate.run.url) as wire:
        await wire.send(
            post(body, AUTH, TYPE, path=path).replace(b"HTTP/1.1", b"HTTP/1.0", 1).replace(b"host: gateway.test\r\n", b"")
        )
        head, _, rest = (await wire.rest()).partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"transfer-encoding" not in head
    assert (b"content-length" in head) == (not stream)
    assert rest.endswith(b"data: [DONE]\n\n" if stream else b"}")
    assert rest.startswith(b"data: " if stream else b"{")


async def test_a_stream_that_breaks_is_told_in_http_1_0_too(gate: Scene) -> None:
    gate.models.acts["m"] = streams(event({"content": "Hello"}), then=Call.reset)
    async with Wire(gate.run.url) as wire:
        await wire.send(post(chat(stream=True), AUTH, TYPE).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        answer = await wire.rest()
    assert answer.count(b'"error"') == 1
    assert b"[DONE]" not in answer
