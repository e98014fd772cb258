"""MEM-02 and MEM-03: a huge prompt or answer stops nobody, and what is made for an upstream is made once."""

import asyncio
import cProfile
import gc
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import httpx
import pytest
import pytest_asyncio
import trustme

from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, Models, answers, encode
from tests.fakes.wire import Wire, post
from tests.field.streaming import BOTH, Shape, Stage, model, settings, stage
from tests.running import HEADERS, SECRET, Running, running
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())

STREAMS = 20
PROMPT_BYTES = 3_000_000
ANSWER_BYTES = 2_000_000
"""Half a million tokens."""

LONGEST_STALL_S = 0.1
"""Of CPU time, in which nobody else's turn comes."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {"m": model("m"), "other": model("other")}
    async with stage(valkey_server, tmp_path_factory.mktemp("loop"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()
    shared.server.requests.clear()


@asynccontextmanager
async def never_stalls() -> AsyncIterator[None]:
    """Fail where the loop's other tasks had to wait for a turn of theirs, but for what other threads and programs take."""

    async def tick() -> None:
        while True:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            stalls_s.append(time.thread_time() - began_s)

    stalls_s: list[float] = []
    gc.freeze()  # as a worker does at its start: what other tests have made is not gone through again
    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        gc.unfreeze()
    assert len(stalls_s) > 10
    assert max(stalls_s) < LONGEST_STALL_S


@asynccontextmanager
async def neighbours(gate: Stage) -> AsyncIterator[None]:
    """Have streams running that say something all the time, and that are whole in the end."""

    async def talk(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        while not over.is_set():
            call.piece(Shape.CHAT.says("word "))
            await asyncio.sleep(0.01)
        call.piece(Shape.CHAT.ends() + DONE)
        call.end()

    over = asyncio.Event()
    gate.models.acts["other"] = talk
    before = len(gate.server.requests)
    streams = [asyncio.create_task(gate.stream(model="other")) for _ in range(STREAMS)]
    await gate.server.until(lambda: len(gate.server.requests) == before + STREAMS)
    try:
        yield
    finally:
        over.set()
    assert all(seen.is_whole and "word " in seen.text for seen in await asyncio.gather(*streams))


WORDS = "The quick brown fox. "
PROMPTS: dict[str, Callable[[], dict[str, Any]]] = {
    "one message": lambda: {"messages": [{"role": "user", "content": WORDS * (PROMPT_BYTES // len(WORDS))}]},
    "many messages": lambda: {"messages": [{"role": "user", "content": WORDS * 75}] * (PROMPT_BYTES // 75 // len(WORDS))},
    "many parts": lambda: {"messages": [{"role": "user", "content": [{"type": "text", "text": WORDS * 9}] * 15_000}]},
    "other letters": lambda: {"messages": [{"role": "user", "content": "你好🌍" * (PROMPT_BYTES // 10)}]},
    "one prompt": lambda: {"prompt": WORDS * (PROMPT_BYTES // len(WORDS))},
    "many prompts": lambda: {"prompt": [WORDS * 4_500] * 32},
    "token ids": lambda: {"prompt": [100_000] * (PROMPT_BYTES // 7)},
}


@pytest.mark.parametrize("kind", PROMPTS)
async def test_mem_02_a_huge_prompt_stops_nobody(kind: str, gate: Stage) -> None:
    asked = PROMPTS[kind]()
    path = (Shape.CHAT if "messages" in asked else Shape.COMPLETIONS).value
    data = post(encode({"model": "m", **asked}), *HEADERS.items(), path=path)
    assert len(data) > 2_500_000
    async with neighbours(gate), Wire(gate.run.url) as wire, never_stalls():
        await wire.send(data)
        answer = await wire.answer()
    assert answer.status == 200
    assert gate.models.asked.count("m") >= 1


@shaped
async def test_mem_02_a_huge_answer_without_usage_stops_nobody(shape: Shape, gate: Stage) -> None:
    said = WORDS * 100
    pieces = ANSWER_BYTES // len(said) + 1
    message: dict[str, Any] = {"text": said * pieces} if shape is Shape.COMPLETIONS else {"message": {"content": said * pieces}}

    async def streamed(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for _ in range(pieces):
            await call.write_slowly(b"")
            call.piece(shape.says(said))
            await asyncio.sleep(0)
        call.piece(shape.ends() + DONE)
        call.end()

    for stream, act in (
        (True, streamed),
        (False, answers(choices=[{"index": 0, **message, "finish_reason": "stop"}], usage=None)),
    ):
        gate.models.acts["m"] = act
        asked = {"model": "m", "stream": stream, "prompt": "hi", "messages": [{"role": "user", "content": "hi"}]}
        async with neighbours(gate), Wire(gate.run.url) as wire, never_stalls():
            await wire.send(post(encode(asked), *HEADERS.items(), path=shape.value))
            assert len((await wire.answer()).body) > ANSWER_BYTES
        line = next(line for line in await gate.lines(STREAMS + 1) if line["model_served"] == "m")
        assert (line["outcome"], line["estimated"], line["output_tokens"] > ANSWER_BYTES // 10) == ("ok", True, True)


REQUESTS = 50


@pytest_asyncio.fixture(loop_scope="module")
async def secure(valkey: Valkey, tmp_path: Path) -> AsyncIterator[tuple[Running, HttpServer]]:
    """A gateway over an upstream that speaks TLS, by both transports."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    found = settings({"m": model("m"), "x": model("x", "x")})
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(HttpServer(Models(), tls=context))
        for provider in found["providers"].values():
            provider |= {"base_url": f"{server.base_url}/v1", "ca_file": str(tmp_path / "ca.pem")}
        yield await stack.enter_async_context(running(found, valkey, tmp_path)), server


DEAR = {
    "create_default_context": "a TLS context",
    "SSLContext.__new__": "a TLS context",
    "<method 'load_verify_locations' of '_ssl._SSLContext' objects>": "a CA bundle",
    "AsyncClient.__init__": "an HTTP client",
}


def made(profile: cProfile.Profile) -> set[str]:
    """Return which of what is dear to make was made."""
    called = [entry.code for entry in profile.getstats()]
    names = {code.co_qualname if isinstance(code, CodeType) else code for code in called}
    return {what for name, what in DEAR.items() if name in names}


async def ask_in_many_ways(run: Running, number: int) -> None:
    """Ask by both transports, with other headers each time."""
    credential = [{"authorization": f"Bearer {SECRET}"}, {"x-api-key": SECRET}, {"api-key": SECRET}][number % 3]
    body = {"model": ("m", "x")[number % 2], "messages": [{"role": "user", "content": "hi"}], "stream": number % 4 > 1}
    headers = {"content-type": "application/json", **credential, "x-request-id": f"id-{number}", f"x-of-{number}": "theirs"}
    async with Wire(run.url) as wire:
        await wire.send(post(encode(body), *headers.items()))
        assert (await wire.answer()).status == 200


async def test_mem_03_what_is_dear_to_make_is_made_once_for_each_upstream(secure: tuple[Running, HttpServer]) -> None:
    run, server = secure
    for number in range(4):
        await ask_in_many_ways(run, number)
    connections = server.connections
    with cProfile.Profile() as profile:
        for number in range(REQUESTS):
            await ask_in_many_ways(run, number)
    assert (made(profile), len(profile.getstats()) > 100) == (set(), True)
    assert server.connections <= connections + 2
    with cProfile.Profile() as profile:
        await httpx.AsyncClient().aclose()
    assert made(profile) == {*DEAR.values()}, "it would have been seen"
