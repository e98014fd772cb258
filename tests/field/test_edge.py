"""What stands between provider and client adds nothing and hides nothing: redirects, headers, buffers, codings, slow senders."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import BUSY, CONTEXT, DONE, JSON, SSE, USAGE, USUAL_STREAM, Models, completion, event, refuses, silence
from tests.fakes.wire import Wire, chunked, post, request
from tests.integration.edge.bad import AUTH, CHUNKED, GOOD, TYPE, chat
from tests.integration.fallback.chain import FORGIVING
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = ("/v1/chat/completions", "/v1/completions")
MODELS = {"m": "http1", "h": "httpx"}
"""A model by each of the two transports."""

TIMEOUTS = {"first_content": "400ms", "idle": "400ms"}
RECEIPT = "150ms"

GOSSIP = {
    "set-cookie": "session=1",
    "server": "provider/1.0",
    "via": "1.1 elsewhere",
    "alt-svc": 'h3=":443"',
    "location": "https://elsewhere.test/",
    "openai-organization": "org-of-the-operator",
    "x-request-id": "req-of-the-provider",
    "x-ratelimit-remaining-requests": "77",
    "x-gateway-provider": "somebody-else",
    "x-should-retry": "true",
    "retry-after": "77",
    "access-control-allow-origin": "*",
    "strict-transport-security": "max-age=1",
    "connection": "x-hop",
    "x-hop": "1",
    "keep-alive": "timeout=77",
    "trailer": "x-late",
    "www-authenticate": "Basic",
}
"""What providers say in headers that is nobody's business."""

FRAMING = {"content-type", "content-length", "transfer-encoding"}
KNOWN = {*FRAMING, "cache-control", "x-accel-buffering", "retry-after", "retry-after-ms"}
OURS = ("x-gateway-", "x-ratelimit-")


def settings() -> dict[str, Any]:
    models = {
        name: {"deployments": [{"provider": transport, "model": f"up-{name}"}], "timeouts": TIMEOUTS}
        for name, transport in MODELS.items()
    }
    own: dict[str, Any] = {"api": {"receipt": RECEIPT}, "breaker": FORGIVING, "plan": {"keepalive": "50ms"}}
    found = config(dict.fromkeys(MODELS.values(), "{upstream}"), models, **own)
    found["providers"]["httpx"]["transport"] = "httpx"
    found["providers"]["http1"]["headers"] = {"x-static": "1"}
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("edge")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def edge(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", MODELS)
async def test_a_redirect_is_a_fault_and_nobody_goes_there(name: str, stream: bool, status: int, edge: Scene) -> None:
    before = len(edge.server.requests)
    edge.models.acts[name] = refuses(status, b"", location=f"{edge.server.base_url}/v1/elsewhere")
    answer = await edge.ask(model=name, stream=stream)
    assert answer.status_code == 502
    assert "location" not in answer.headers
    assert [each.path for each in edge.server.requests[before:]] == ["/v1/chat/completions"]


def gossips(status: int, body: bytes, kind: list[tuple[str, str]]) -> Any:
    """Make a script that answers with all of these headers."""

    async def act(call: Call) -> None:
        call.reply(status, body, [*kind, *GOSSIP.items()])

    return act


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("status", "body", "kind", "stream"),
    [
        (200, completion(), JSON, False),
        (200, b"".join((*USUAL_STREAM, DONE)), SSE, True),
        (400, CONTEXT, JSON, False),
        (429, BUSY, JSON, False),
        (500, b"oops", JSON, True),
    ],
    ids=["whole", "stream", "refused", "busy", "failed"],
)
async def test_of_a_providers_headers_only_its_answers_type_is_kept(
    status: int, body: bytes, kind: list[tuple[str, str]], stream: bool, path: str, name: str, edge: Scene
) -> None:
    edge.models.acts[name] = gossips(status, body, kind)
    answer = await edge.ask(path=path, model=name, stream=stream, fail_fast=True)
    assert not {field for field in answer.headers if not field.startswith(OURS)} - KNOWN - {"x-request-id", "x-should-retry"}
    told = [value for field, value in answer.headers.items() if field not in ("content-length", "retry-after", "retry-after-ms")]
    assert not {value for value in GOSSIP.values() if len(value) > 4} & {*told}
    assert len(answer.headers["x-request-id"]) == 36
    assert answer.headers.get("x-ratelimit-remaining-requests") != "77"


HOPS = (
    ("cookie", "a=b"),
    ("x-forwarded-for", "192.0.2.1"),
    ("forwarded", "for=192.0.2.1"),
    ("proxy-authorization", "x"),
    ("te", "trailers"),
    ("x-custom", "1"),
)


async def test_of_a_clients_headers_a_provider_gets_none(edge: Scene) -> None:
    for name in MODELS:
        async with Wire(edge.run.url) as wire:
            await wire.send(post(chat(model=name), AUTH, TYPE, *HOPS, ("accept-encoding", "br")))
            assert (await wire.answer()).status == 200
        got = dict(edge.server.requests[-1].headers)
        assert not {field for field, _ in HOPS} & {*got}
        assert got["authorization"] == f"Bearer sk-up-{MODELS[name]}"
        assert got["host"] == edge.server.base_url.removeprefix("http://")
        assert "br" not in got.get("accept-encoding", "")
        assert got.get("x-static") == ("1" if name == "m" else None)


ENDS: dict[str, tuple[bytes, ...]] = {
    "whole": (*USUAL_STREAM, DONE),
    "error inside": (USUAL_STREAM[1], b'data: {"error": {"message": "x"}}\n\n'),
    "broken": (USUAL_STREAM[1],),
}


@pytest.mark.parametrize("end", [*ENDS, "silent", "late head, then an error"])
@pytest.mark.parametrize("path", PATHS)
async def test_nobody_is_told_that_a_stream_may_be_kept_or_held_back(path: str, end: str, edge: Scene) -> None:
    async def act(call: Call) -> None:
        if end == "late head, then an error":
            await silence(call)
        call.head(200, SSE, chunked=True)
        for piece in ENDS.get(end, (USUAL_STREAM[1],)):
            call.piece(piece)
        if end == "silent":
            await silence(call)
        elif end == "broken":
            call.reset()
        else:
            call.end()

    edge.models.acts["m"] = act
    answer = await edge.run.client.post(
        path, json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}], "prompt": "x"},
        headers={"accept-encoding": "gzip, br, zstd"},
    )  # fmt: skip
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-cache"
    assert "content-encoding" not in answer.headers
    assert "content-length" not in answer.headers
    assert answer.text.count('"error"') == (end != "whole")
    assert answer.text.endswith("data: [DONE]\n\n") == (end == "whole")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
@pytest.mark.parametrize("shape", ["whole", "refused", "failed"])
async def test_a_packed_answer_is_unpacked(shape: str, coding: str, name: str, edge: Scene) -> None:
    status, body = {"whole": (200, completion()), "refused": (400, CONTEXT), "failed": (500, b"{}")}[shape]

    async def act(call: Call) -> None:
        call.reply(status, gzip.compress(body), [*JSON, ("content-encoding", coding)])

    edge.models.acts[name] = act
    async with Wire(edge.run.url) as wire:
        await wire.send(post(chat(model=name), AUTH, TYPE, ("accept-encoding", "gzip, br")))
        answer = await wire.answer()
    assert "content-encoding" not in answer.headers
    if shape == "whole":
        assert answer.json()["choices"][0]["message"]["content"] == "Hello"
    else:
        error = answer.json()["error"]
        assert (answer.status, error["code"]) == {
            "refused": (400, "context_length_exceeded"),
            "failed": (502, error["code"]),
        }[shape]


@pytest.mark.parametrize("name", MODELS)
async def test_a_packed_stream_is_unpacked_event_by_event(name: str, edge: Scene) -> None:
    words, more = ["One", " two", " three"], asyncio.Event()

    async def act(call: Call) -> None:
        coder = zlib.compressobj(wbits=31)
        call.head(200, [*SSE, ("content-encoding", "gzip")], chunked=True)
        for word in words:
            call.piece(coder.compress(event({"content": word})) + coder.flush(zlib.Z_SYNC_FLUSH))
            await more.wait()
            more.clear()
        call.piece(coder.compress(event({}, "stop") + event({}, choices=[], usage=USAGE) + DONE) + coder.flush())
        call.end()

    edge.models.acts[name] = act
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with edge.run.client.stream("POST", PATHS[0], json=body, headers={"accept-encoding": "gzip"}) as answer:
        assert "content-encoding" not in answer.headers
        text, pieces = "", answer.aiter_text()
        for word in words:
            while f'"{word}"' not in text:
                text += await anext(pieces)
            assert not any(f'"{later}"' in text for later in words[words.index(word) + 1 :])
            more.set()
        text += "".join([piece async for piece in pieces])
    assert text.endswith("data: [DONE]\n\n")
    assert "usage" not in text or '"usage":null' in text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", MODELS)
async def test_an_answer_that_only_says_that_it_is_packed_is_none(name: str, stream: bool, edge: Scene) -> None:
    body = b"".join((*USUAL_STREAM, DONE)) if stream else completion()
    edge.models.acts[name] = refuses(200, body, content_encoding="gzip")
    answer = await edge.ask(model=name, stream=stream)
    assert answer.status_code == 502
    assert "Hello" not in answer.text


HEADS = (request("POST", "/v1/chat/completions", AUTH)[:-2], GOOD[:20], b"GET /he")
BODIES = (
    GOOD[:-5],
    post(chunked(chat())[:-5], AUTH, TYPE, CHUNKED, framed=False),
    post(b"", AUTH, ("content-length", "9"), framed=False),
)


@pytest.mark.parametrize("start", [*HEADS, *BODIES], ids=["head", "first_line", "url", "body", "chunk", "no_body"])
async def test_who_sends_too_slowly_is_not_waited_for(start: bytes, edge: Scene) -> None:
    async with Wire(edge.run.url) as wire, asyncio.timeout(5):
        for place in range(len(start)):
            await wire.send(start[place : place + 1])
        assert await wire.ended()
    await edge.run.settled()
    assert edge.models.asked == []
    assert await edge.run.leases() == 0


async def trickle(wire: Wire) -> None:
    while True:
        await wire.send(b"a")
        await asyncio.sleep(0.01)


async def test_who_trickles_without_end_is_not_waited_for_either(edge: Scene) -> None:
    async with Wire(edge.run.url) as wire, asyncio.timeout(5):
        await wire.send(GOOD.partition(b"\r\n")[0] + b"\r\nx-slow: ")
        with pytest.raises(ConnectionError):
            await trickle(wire)
    assert edge.models.asked == []


async def test_a_connection_that_was_cut_for_its_slowness_costs_the_others_nothing(edge: Scene) -> None:
    async with Wire(edge.run.url) as slow, Wire(edge.run.url) as quick:
        await slow.send(GOOD[:-1])
        for _ in range(20):
            await quick.send(GOOD)
            assert (await quick.answer()).status == 200
        async with asyncio.timeout(5):
            assert await slow.ended()
