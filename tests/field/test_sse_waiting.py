"""SSE-20 and SSE-21: what is sent while a provider says nothing, and how long each of its silences may last."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.fakes.http_server import BlackHole, Call, Script
from tests.fakes.openai import DONE, JSON, SSE, encode, silence
from tests.field.streaming import BOTH, PATIENT, Seen, Shape, Stage, apart, error, event, model, no_more, stage
from tests.integration.scene import bearer
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())

COMMENT = b": keep-alive\n\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    timers = {
        "first": {"first_content": "200ms"},
        "idle": {"first_content": "200ms", "idle": "200ms"},
        "steady": {"first_content": "400ms", "idle": "400ms"},
        "total": {"total": "200ms"},
        "connect": {"connect": "100ms", "pool": "100ms"},
    }
    models = {name: model(name, "nowhere" if name == "connect" else "p", timeouts=each) for name, each in timers.items()}
    one = model("one")
    one["deployments"][0]["max_concurrency"] = 1
    async with BlackHole() as hole:
        whole = {"m": model("m"), "other": model("other"), "one": one, **models}
        directory = tmp_path_factory.mktemp("waiting")
        async with stage(valkey_server, directory, whole, elsewhere={"nowhere": hole.base_url}) as found:
            yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


class Waiting:
    """A script that says nothing until its client has been told so, then goes on as `after` has it."""

    def __init__(self, after: Script, *, head: bool = True) -> None:
        self.told = asyncio.Event()
        self._after = after
        self._head = head

    async def __call__(self, call: Call) -> None:
        if self._head:
            call.head(200, SSE, chunked=True)
        await self.told.wait()
        await self._after(call)


def pieces(*events: bytes) -> Script:
    """Make a script that goes on with a body that has begun."""

    async def act(call: Call) -> None:
        for each in events:
            call.piece(each)
        call.end()

    return act


async def patient(gate: Stage, waiting: Waiting, shape: Shape, **fields: Any) -> tuple[httpx.Headers, bytes]:
    """Ask with the patient key, and let the provider go on once two comments have come; return head and body."""
    body = b""
    async with gate.reading(shape, headers=bearer(PATIENT["secret"]), **fields) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_raw():
            body += piece
            if body.count(COMMENT) == 2:
                waiting.told.set()
    return answer.headers, body


@shaped
@pytest.mark.parametrize("head", [True, False], ids=["behind_the_head", "before_the_head"])
async def test_sse_20_a_long_silence_is_filled_with_comments(head: bool, shape: Shape, gate: Stage) -> None:
    events = (shape.begins(), shape.says("a"), shape.ends(), shape.usage(3, 2), DONE)
    waiting = Waiting(pieces(*events) if head else apart(*events), head=head)
    gate.models.acts["m"] = waiting
    headers, body = await patient(gate, waiting, shape)
    assert body.startswith(COMMENT * 2)
    assert (Seen(body).text, Seen(body).is_whole) == ("a", True)
    assert (headers["content-type"], headers["x-accel-buffering"]) == ("text/event-stream; charset=utf-8", "no")
    line = await gate.line()
    assert (line["outcome"], line["early_head"], line["output_tokens"]) == ("ok", True, 2)


@shaped
async def test_sse_20_comments_do_not_stand_in_the_way_of_fallback(shape: Shape, gate: Stage) -> None:
    waiting = Waiting(pieces(shape.begins(), event(encode(error(502)))))
    gate.models.acts["m"] = waiting
    _, body = await patient(gate, waiting, shape, models=["m", "other"])
    assert body.startswith(COMMENT * 2)
    assert (Seen(body).text, Seen(body).is_whole) == ("Hello", True)
    assert {chunk["model"] for chunk in Seen(body).chunks} == {"other"}
    assert gate.models.asked == ["m", "other"]


@shaped
async def test_sse_20_a_failure_behind_comments_is_an_error_event(shape: Shape, gate: Stage) -> None:
    waiting = Waiting(pieces(shape.begins(), event(encode(error(502)))))
    gate.models.acts["m"] = waiting
    _, body = await patient(gate, waiting, shape)
    assert Seen(body).error["code"] == "upstream_unavailable"
    line = await gate.line()
    assert (line["status"], line["early_head"], line["outcome"]) == (502, True, "upstream_error")


@shaped
async def test_sse_20_comments_fill_the_silences_in_the_middle_too(shape: Shape, gate: Stage) -> None:
    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(shape.says("a"))
        await waiting.told.wait()
        call.piece(shape.says("b") + shape.ends() + DONE)
        call.end()

    waiting = Waiting(silence)
    gate.models.acts["m"] = act
    _, body = await patient(gate, waiting, shape)
    assert body.count(COMMENT) >= 2
    assert (Seen(body).text, Seen(body).is_whole) == ("ab", True)


@shaped
async def test_sse_20_comments_are_for_those_alone_who_asked_for_them(shape: Shape, gate: Stage) -> None:
    """Without them a head is held back until its status is certain."""
    gate.models.acts["first"] = apart(shape.begins(), then=no_more)
    answer = await gate.ask(path=shape.value, model="first", stream=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")


async def half(call: Call) -> None:
    call.head(200, JSON, length=100)
    call.piece(b"{")
    await call.gone.wait()


def begins(shape: Shape) -> Script:
    return apart(shape.begins(), then=no_more)


def says(shape: Shape) -> Script:
    return apart(shape.begins(), shape.says("a"), then=no_more)


def of_each(script: Callable[[Shape], Script]) -> Script:
    """Make a script that acts as this one has it for the endpoint that is asked."""

    async def act(call: Call) -> None:
        await script(Shape("/v1" + call.request.path.partition("/v1")[2]))(call)

    return act


@pytest.mark.parametrize(
    ("name", "script", "stream", "status", "code", "label"),
    [
        ("connect", None, True, 502, "upstream_unavailable", "connect"),
        ("connect", None, False, 502, "upstream_unavailable", "connect"),
        ("first", silence, True, 504, "upstream_timeout", "timeout"),
        ("first", of_each(begins), True, 504, "upstream_timeout", "timeout"),
        ("total", silence, False, 504, "upstream_timeout", "timeout"),
        ("total", half, False, 504, "upstream_timeout", "timeout"),
        ("total", of_each(begins), True, 504, "upstream_timeout", "timeout"),
    ],
    ids=["connect", "connect_whole", "head", "first_content", "head_whole", "body_whole", "total_first"],
)
async def test_sse_21_silence_before_the_first_content_has_limits_and_names(
    name: str, script: Script | None, stream: bool, status: int, code: str, label: str, gate: Stage
) -> None:
    if script is not None:
        gate.models.acts[name] = script
    for answer in await asyncio.gather(*(gate.ask(path=shape.value, model=name, stream=stream) for shape in BOTH)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    for line in await gate.lines(2):
        assert (line["attempts"][0]["outcome"], line["ttft_ms"]) == (label, None)


@pytest.mark.parametrize(("name", "outcome"), [("idle", "interrupted"), ("total", "timeout")])
async def test_sse_21_silence_in_the_middle_has_limits_and_names(name: str, outcome: str, gate: Stage) -> None:
    gate.models.acts[name] = of_each(says)
    for seen in await asyncio.gather(*(gate.stream(shape, name) for shape in BOTH)):
        assert (seen.text, seen.error["code"], seen.error["type"]) == ("a", "upstream_timeout", "server_error")
    for line in await gate.lines(2):
        assert (line["outcome"], line["attempts"][0]["outcome"], line["status"]) == (outcome, "timeout", 200)


async def test_sse_21_a_steady_slow_stream_is_never_cut(gate: Stage) -> None:
    """It takes half as long again as either limit on silence."""

    def steady(shape: Shape) -> Script:
        async def act(call: Call) -> None:
            call.head(200, SSE, chunked=True)
            for _ in range(12):
                call.piece(shape.says("a"))
                await asyncio.sleep(0.05)
            call.piece(shape.ends() + DONE)
            call.end()

        return act

    gate.models.acts["steady"] = of_each(steady)
    for seen in await asyncio.gather(*(gate.stream(shape, "steady") for shape in BOTH)):
        assert (seen.text, seen.is_whole) == ("a" * 12, True)


@shaped
async def test_sse_17_a_stream_that_waits_for_its_turn_has_its_headers_too(shape: Shape, gate: Stage) -> None:
    async with gate.filled("one"), gate.reading(shape, headers=bearer(PATIENT["secret"]), model="one") as answer:
        assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-cache", "no")
        gate.models.release()
        body = b"".join([piece async for piece in answer.aiter_raw()])
    assert (body.startswith(COMMENT), Seen(body).text, Seen(body).is_whole) == (True, "Hello", True)
