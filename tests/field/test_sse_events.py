"""SSE-05, SSE-06 and the odd events of the field: what says nothing is neither passed on as data nor taken for progress."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, encode
from tests.field.streaming import BOTH, Seen, Shape, Stage, apart, error, event, model, stage, turns
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
framed = pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])

PING = b": PROCESSING\n\n"
NOTHINGS = {
    "a comment": PING,
    "a bare colon": b":\n\n",
    "a comment with data in it": b": data: {}\n\n",
    "empty data": b"data:\n\n",
    "empty data with a space": b"data: \n\n",
    "empty data of three lines": b"data:\ndata:\ndata:\n\n",
    "a field without a colon": b"data\n\n",
    "retry": b"retry: 1000\n\n",
    "an id": b"id: 7\n\n",
    "a name": b"event: ping\n\n",
    "a name with empty data": b"event: ping\ndata:\n\n",
    "an unknown field": b"x-field: 1\n\n",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {
        "m": model("m"),
        "quick": model("quick", timeouts={"first_content": "400ms", "idle": "400ms"}),
        "other": model("other"),
    }
    async with stage(valkey_server, tmp_path_factory.mktemp("events"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


@shaped
@framed
@pytest.mark.parametrize("nothing", NOTHINGS.values(), ids=NOTHINGS)
async def test_sse_06_what_has_no_payload_never_reaches_the_client(
    nothing: bytes, line_end: bytes, shape: Shape, gate: Stage
) -> None:
    pieces = [shape.begins(), shape.says("a"), shape.says("b"), shape.ends(), shape.usage(3, 2), DONE]
    gate.models.acts["m"] = apart(*pieces)
    expected = await gate.stream(shape)
    mixed = [nothing, *(part for piece in pieces[:-1] for part in (piece, nothing)), DONE, nothing]
    gate.models.acts["m"] = apart(*(part.replace(b"\n", line_end) for part in mixed))
    assert await gate.stream(shape) == expected
    line = await gate.line()
    assert (line["outcome"], line["input_tokens"], line["output_tokens"]) == ("ok", 3, 2)


@shaped
@framed
async def test_sse_05_a_comment_inside_an_event_is_no_part_of_it(line_end: bytes, shape: Shape, gate: Stage) -> None:
    stream = shape.whole("a", "b").replace(b"data: {", b": x\ndata: {").replace(b"}\n\n", b"}\n: y\n\n").replace(b"\n", line_end)
    gate.models.acts["m"] = apart(*(stream[place : place + 1] for place in range(len(stream))))
    seen = await gate.stream(shape)
    assert (seen.text, seen.is_whole, b": x" in seen.body) == ("ab", True, False)


async def comments_for_ever(call: Call) -> None:
    call.head(200, SSE, chunked=True)
    while not call.gone.is_set():
        call.piece(PING)
        await asyncio.sleep(0.02)


@shaped
async def test_sse_05_a_comment_is_no_first_content(shape: Shape, gate: Stage) -> None:
    gate.models.acts["quick"] = comments_for_ever
    seen = await gate.stream(shape, models=["quick", "other"])
    assert (seen.text, seen.is_whole, gate.models.asked) == ("Hello", True, ["quick", "other"])
    attempts = (await gate.line())["attempts"]
    assert [(each["model"], each["outcome"]) for each in attempts] == [("quick", "timeout"), ("other", "ok")]


@shaped
async def test_sse_05_a_comment_is_no_progress(shape: Shape, gate: Stage) -> None:
    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(shape.says("a"))
        while not call.gone.is_set():
            call.piece(PING)
            await asyncio.sleep(0.02)

    gate.models.acts["quick"] = act
    seen = await gate.stream(shape, "quick")
    assert (seen.text, seen.error["code"]) == ("a", "upstream_timeout")
    line = await gate.line()
    assert (line["outcome"], line["attempts"][0]["outcome"]) == ("interrupted", "timeout")


@shaped
async def test_events_behind_the_end_mark_are_nobodys(shape: Shape, gate: Stage) -> None:
    behind = [shape.says("late"), event(encode(error(500))), DONE, event(b"{"), shape.usage(900, 900)]
    for pieces in ([shape.whole("a"), *behind], [shape.whole("a") + b"".join(behind)]):
        gate.models.acts["m"] = apart(*pieces)
        seen = await gate.stream(shape)
        assert (seen.text, seen.is_whole) == ("a", True)
        line = await gate.line()
        assert (line["outcome"], line["input_tokens"], line["output_tokens"]) == ("ok", 3, 2)


@shaped
async def test_sse_19_a_large_event_passes_unchanged(shape: Shape, gate: Stage) -> None:
    texts = ("x" * 70_000, "y" * 3_000_000)
    gate.models.acts["m"] = apart(shape.begins(), *map(shape.says, texts), shape.ends(), shape.usage(3, 2), DONE)
    seen = await gate.stream(shape)
    assert (seen.text == "".join(texts), seen.is_whole) == (True, True)
    line = await gate.line()
    assert (line["outcome"], line["input_tokens"], line["output_tokens"]) == ("ok", 3, 2)


ENDLESS = {"data": b"data: ", "comment": b": ", "field": b"x", "empty_data": b"data:\n"}


@shaped
@pytest.mark.parametrize("start", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("committed", [True, False], ids=["after_content", "before_content"])
async def test_sse_19_a_line_without_an_end_is_cut_at_the_limit(committed: bool, start: bytes, shape: Shape, gate: Stage) -> None:
    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        if committed:
            call.piece(shape.says("a"))
        more = (start if start.endswith(b"\n") else b"x") * 50_000
        call.piece(start)
        while not call.gone.is_set():
            call.piece(more)
            await call.write_slowly(b"")
            await turns(1)
            sent.append(len(more))

    sent: list[int] = []
    gate.models.acts["m"] = act
    answer = await gate.ask(model="m", path=shape.value, stream=True)
    if committed:
        assert (Seen(answer.content).text, Seen(answer.content).error["code"]) == ("a", "stream_interrupted")
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_bad_response")
    line = await gate.line()
    assert line["attempts"][0]["outcome"] == "protocol"
    # The limit, what may be on its way in sockets and buffers beyond it, and no more.
    assert sum(sent) < 4 * 1024 * 1024 + 12_000_000
