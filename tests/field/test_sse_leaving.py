"""SSE-12, 13, 14 and 23: a client that leaves takes its upstream along, unless it had all that it came for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, JSON, SSE, encode, silence
from tests.fakes.wire import Wire, post
from tests.field.streaming import BOTH, Shape, Stage, apart, model, no_more, stage, turns
from tests.integration.load.rest import comes_to_rest, idle
from tests.running import HEADERS
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
carried = pytest.mark.parametrize("name", ["m", "x"], ids=["http1", "httpx"])
left = pytest.mark.parametrize("leave", [Wire.abort, Wire.end], ids=["close", "half_close"])

WITHIN_S = 1.0
"""Decision 20."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {"m": model("m"), "x": model("x", "x"), "other": model("other"), "one": model("one")}
    models["one"]["deployments"][0]["max_concurrency"] = 1
    async with stage(valkey_server, tmp_path_factory.mktemp("leaving"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


def request(shape: Shape, **fields: Any) -> bytes:
    asked = {"messages": [{"role": "user", "content": "hi"}]} if shape is Shape.CHAT else {"prompt": "hi"}
    return post(encode({"model": "m", **asked, **fields}), *HEADERS.items(), path=shape.value)


async def closed(gate: Stage) -> None:
    """Wait until no upstream is busy with anything; fail where that takes longer than it may."""
    async with asyncio.timeout(WITHIN_S):
        await gate.server.until(lambda: len(gate.server.lines) == idle(gate.run))
    await comes_to_rest(gate.run, within_s=WITHIN_S)


@carried
@shaped
@left
async def test_sse_12_leaving_in_the_middle_ends_the_answer_upstream(
    leave: Callable[[Wire], None], shape: Shape, name: str, gate: Stage
) -> None:
    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        while not call.gone.is_set():
            call.piece(shape.says("word "))
            await asyncio.sleep(0.02)
        gone.set()

    gone = asyncio.Event()
    gate.models.acts[name] = act
    async with Wire(gate.run.url) as wire:
        await wire.send(request(shape, model=name, stream=True))
        await wire.until(b"word ")
        resting = idle(gate.run)
        leave(wire)
        async with asyncio.timeout(WITHIN_S):
            await gone.wait()
        await closed(gate)
    assert idle(gate.run) == resting
    line = await gate.line()
    assert (line["outcome"], line["estimated"], line["output_tokens"] > 0) == ("cancelled", True, True)
    assert line["attempts"][-1]["outcome"] == "ok"


async def headed(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    await call.gone.wait()


async def begun(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    call.piece(Shape.CHAT.begins())
    await call.gone.wait()


async def half(call: Call) -> None:
    call.head(200, JSON, length=100)
    call.piece(b'{"id":')
    await call.gone.wait()


Act = Callable[[Call], Coroutine[Any, Any, None]]


@carried
@shaped
@left
@pytest.mark.parametrize(
    ("stream", "act", "accepted"),
    [(True, silence, False), (True, headed, True), (True, begun, True), (False, silence, False), (False, half, True)],
    ids=["stream_no_head", "stream_head", "stream_begun", "whole_no_head", "whole_half"],
)
async def test_sse_13_and_14_leaving_before_an_answer_ends_the_walk(
    stream: bool, act: Act, accepted: bool, leave: Callable[[Wire], None], shape: Shape, name: str, gate: Stage
) -> None:
    async def noted(call: Call) -> None:
        arrived.set()
        await act(call)

    arrived = asyncio.Event()
    gate.models.acts[name] = noted
    async with Wire(gate.run.url) as wire:
        await wire.send(request(shape, models=[name, "other"], stream=stream))
        await arrived.wait()
        await turns(20)
        leave(wire)
        await closed(gate)
    assert gate.models.asked == [name]
    line = await gate.line()
    assert (line["outcome"], line["status"], line["estimated"]) == ("cancelled", 499, accepted)
    assert await gate.run.leases() == 0


async def test_sse_14_a_storm_of_retries_leaves_one_call_upstream(gate: Stage) -> None:
    gate.models.acts["m"] = silence
    for tries in range(1, 6):
        async with Wire(gate.run.url) as wire:
            await wire.send(request(Shape.CHAT))
            await gate.server.until(lambda tries=tries: len(gate.models.asked) == tries)  # type: ignore[misc]
            assert len(gate.server.lines) - idle(gate.run) == 1
        await closed(gate)
    assert [line["outcome"] for line in await gate.lines(5)] == ["cancelled"] * 5
    assert [row["outcome"] for row in (await gate.run.rows())[:5]] == ["cancelled"] * 5


@pytest.mark.parametrize("stream", [True, False])
async def test_sse_13_leaving_gives_the_slot_to_the_next(stream: bool, gate: Stage) -> None:
    gate.models.acts["one"] = silence
    async with Wire(gate.run.url) as first, Wire(gate.run.url) as second:
        await first.send(request(Shape.CHAT, model="one", stream=stream))
        await gate.server.until(lambda: gate.models.asked == ["one"])
        await second.send(request(Shape.CHAT, model="one"))
        await gate.run.waiting(1)
        del gate.models.acts["one"]
        first.abort()
        assert (await second.answer()).status == 200
    assert gate.models.asked == ["one", "one"]


@shaped
@pytest.mark.parametrize("usage", ["told", "untold"])
async def test_sse_23_leaving_behind_the_last_event_is_no_cancellation(usage: str, shape: Shape, gate: Stage) -> None:
    """The client has seen the finish; the end mark is still to come, for as long as the provider likes."""
    pieces = [shape.begins(), shape.says("a"), *([shape.usage(3, 2)] if usage == "told" else []), shape.ends()]
    gate.models.acts["m"] = apart(*pieces, then=no_more)
    async with Wire(gate.run.url) as wire:
        await wire.send(request(shape, stream=True))
        await wire.until(b'"finish_reason":"stop"')
        wire.abort()
        await closed(gate)
    line = await gate.line()
    told = (3, 2, False) if usage == "told" else (line["input_tokens"], 1, True)
    assert (line["outcome"], line["status"]) == ("ok", 200)
    assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == told
    assert line["attempts"][-1]["outcome"] == "ok"


@shaped
async def test_sse_23_leaving_behind_the_usage_is_no_cancellation(shape: Shape, gate: Stage) -> None:
    """Asked-for usage goes out with the end mark; the provider's body need not have ended by then."""
    gate.models.acts["m"] = apart(shape.begins(), shape.says("a"), shape.ends(), shape.usage(3, 2), DONE, then=no_more)
    async with Wire(gate.run.url) as wire:
        await wire.send(request(shape, stream=True, stream_options={"include_usage": True}))
        await wire.until(b'"choices":[]')
        wire.abort()
        await closed(gate)
    line = await gate.line()
    assert (line["outcome"], line["input_tokens"], line["output_tokens"], line["estimated"]) == ("ok", 3, 2, False)
