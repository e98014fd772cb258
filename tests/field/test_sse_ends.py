"""SSE-07 to SSE-09: what is whole ends in one end mark, what is broken in one error event, and each is counted as what it is."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, encode
from tests.field.streaming import BOTH, Shape, Stage, apart, error, event, model, no_more, stage, turns
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
framed = pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
carried = pytest.mark.parametrize(
    ("name", "line_end"),
    [("m", b"\n"), ("m", b"\r\n"), ("m", b"\r"), ("x", b"\n")],
    ids=["http1-lf", "http1-crlf", "http1-cr", "httpx-lf"],
)


def bad_chunk(call: Call) -> None:
    """Break the framing of the body."""
    call.write(b"zz\r\n")


def endless(call: Call) -> None:
    """Send other things in place of the end, and no end."""
    call.piece(b": and more\n\n")


EARLY = {"eof": Call.end, "reset": Call.reset, "close": Call.close, "bad_chunk": bad_chunk}
"""How a provider leaves in the middle of an answer."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    quick = {"idle": "400ms"}
    models = {"m": model("m"), "x": model("x", "x"), "quick": model("quick", timeouts=quick)}
    async with stage(valkey_server, tmp_path_factory.mktemp("ends"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


async def ended(gate: Stage) -> tuple[str, str, int, int]:
    """How the newest request ended: outcome, its attempt's outcome, input and output tokens."""
    line = await gate.line()
    return line["outcome"], line["attempts"][-1]["outcome"], line["input_tokens"], line["output_tokens"]


def failures(gate: Stage) -> float:
    """How many streams of this gateway its providers have broken so far, as its metrics have it."""
    return gate.run.gateway._observer._cells.interruptions["upstream",]


@carried
@shaped
@pytest.mark.parametrize("then", EARLY.values(), ids=EARLY)
async def test_sse_07_an_answer_without_an_end_mark_gets_one(
    then: Callable[[Call], None], line_end: bytes, shape: Shape, name: str, gate: Stage
) -> None:
    """All was said: however the provider leaves after that, nothing of the answer is missing."""
    pieces = [shape.begins(), shape.says("a"), shape.ends(), shape.usage(3, 1)]
    gate.models.acts[name] = apart(*(piece.replace(b"\n", line_end) for piece in pieces), then=then)
    seen = await gate.stream(shape, name)
    assert (seen.text, seen.finishes, seen.is_whole) == ("a", ["stop"], True)
    assert await ended(gate) == ("ok", "ok", 3, 1)


@shaped
@pytest.mark.parametrize(
    "last",
    [lambda shape: shape.ends(), lambda shape: shape.ends()[:-1], lambda shape: shape.ends()[:-2]],
    ids=["whole", "without_the_empty_line", "without_a_line_end"],
)
async def test_sse_07_a_finish_alone_is_an_end(last: Callable[[Shape], bytes], shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.says("a"), last(shape))
    seen = await gate.stream(shape)
    assert (seen.text, seen.is_whole) == ("a", True)
    line = await gate.line()
    assert (line["outcome"], line["output_tokens"], line["estimated"]) == ("ok", 1, True)


@shaped
@pytest.mark.parametrize("then", [Call.end, Call.reset], ids=["eof", "reset"])
async def test_sse_07_an_answer_is_whole_wherever_behind_its_finish_the_provider_leaves(
    then: Callable[[Call], None], shape: Shape, gate: Stage
) -> None:
    behind = shape.usage(3, 1) + DONE
    for place in range(0, len(behind), 3):
        gate.models.acts["m"] = apart(shape.says("a") + shape.ends(), behind[:place], then=then)
        seen = await gate.stream(shape)
        assert (seen.text, seen.is_whole) == ("a", True)


@shaped
async def test_sse_07_an_end_mark_that_never_comes_is_not_waited_for_in_vain(shape: Shape, gate: Stage) -> None:
    gate.models.acts["quick"] = apart(shape.says("a"), shape.ends(), shape.usage(3, 1), then=no_more)
    seen = await gate.stream(shape, "quick")
    assert (seen.text, seen.is_whole) == ("a", True)
    assert await ended(gate) == ("ok", "ok", 3, 1)


@shaped
@pytest.mark.parametrize("marks", [(DONE,), (DONE, DONE), (DONE + DONE,), (b"data:[DONE]\n\n",), (b"data: [DONE]",)])
async def test_sse_07_there_is_one_end_mark_however_many_came(marks: tuple[bytes, ...], shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.says("a"), shape.ends(), *marks)
    seen = await gate.stream(shape)
    assert (seen.text, seen.payloads.count(b"[DONE]"), seen.is_whole) == ("a", 1, True)


@carried
@shaped
@pytest.mark.parametrize("then", EARLY.values(), ids=EARLY)
async def test_sse_08_half_an_answer_never_looks_whole(
    then: Callable[[Call], None], line_end: bytes, shape: Shape, name: str, gate: Stage
) -> None:
    before = failures(gate)
    pieces = [shape.begins(), shape.says("one"), shape.says("two")]
    gate.models.acts[name] = apart(*(piece.replace(b"\n", line_end) for piece in pieces), then=then)
    seen = await gate.stream(shape, name)
    assert (seen.text, seen.finishes) == ("onetwo", [])
    assert (seen.error["code"], seen.error["type"]) == ("stream_interrupted", "upstream_error")
    line = await gate.line()
    assert (line["outcome"], line["error_code"], line["estimated"]) == ("interrupted", "stream_interrupted", True)
    assert line["attempts"][-1]["outcome"] == ("protocol" if then is bad_chunk else "reset")
    assert (line["output_tokens"], failures(gate)) == (2, before + 1)


@shaped
async def test_sse_08_a_stream_is_broken_wherever_in_it_the_provider_leaves(shape: Shape, gate: Stage) -> None:
    """Cut at every place in its second half, which ends with the last thing that it says."""
    said, last = shape.begins() + shape.says("one"), shape.says("two")
    for place in range(len(last) - 2):
        gate.models.acts["m"] = apart(said + last[:place])
        seen = await gate.stream(shape)
        assert (seen.text, seen.error["code"]) == ("one", "stream_interrupted")


@shaped
async def test_sse_08_every_choice_has_to_end(shape: Shape, gate: Stage) -> None:
    said = [shape.says("a"), shape.says("b", 1), shape.ends()]
    gate.models.acts["m"] = apart(*said)
    assert (await gate.stream(shape, n=2)).error["code"] == "stream_interrupted"
    gate.models.acts["m"] = apart(*said, shape.ends("length", 1))
    seen = await gate.stream(shape, n=2)
    assert (seen.finishes, seen.is_whole) == (["stop", "length"], True)


def error_alone(shape: Shape) -> bytes:
    return event(encode(error(502)))


def error_in_a_chunk(shape: Shape) -> bytes:
    return shape.chunk([], **error(502))


def error_beside_a_choice(shape: Shape) -> bytes:
    said = {"delta": {"content": ""}} if shape is Shape.CHAT else {"text": ""}
    return shape.chunk([{"index": 0, **said, "finish_reason": "error"}], **error(502))


def error_as_text(shape: Shape) -> bytes:
    return event(encode({"error": "worker limit at 10.0.0.7"}))


def error_as_a_reason(shape: Shape) -> bytes:
    return shape.ends("error")


def error_as_an_object(shape: Shape) -> bytes:
    return event(encode({"object": "error", "message": "worker limit", "code": 502}))


def error_by_name(shape: Shape) -> bytes:
    return b"event: error\n" + event(encode(error(502)))


def half_a_chunk(shape: Shape) -> bytes:
    return shape.says("lost")[:-20] + b"\n\n"


ERRORS = [
    *(error_alone, error_in_a_chunk, error_beside_a_choice, error_as_text, error_as_a_reason, error_as_an_object),
    *(error_by_name, half_a_chunk),
]


@shaped
@framed
@pytest.mark.parametrize("told", ERRORS, ids=lambda told: told.__name__)
@pytest.mark.parametrize("joined", [False, True], ids=["apart", "in_one_read"])
async def test_sse_09_an_error_after_content_ends_the_stream_in_one(
    joined: bool, told: Callable[[Shape], bytes], line_end: bytes, shape: Shape, gate: Stage
) -> None:
    pieces = [shape.begins(), shape.says("one"), told(shape), shape.says("two"), shape.ends(), DONE]
    framing = [piece.replace(b"\n", line_end) for piece in pieces]
    before = failures(gate)
    gate.models.acts["m"] = apart(b"".join(framing)) if joined else apart(*framing)
    seen = await gate.stream(shape)
    assert (seen.text, seen.finishes, seen.error["code"]) == ("one", [], "stream_interrupted")
    assert b"worker limit" not in seen.body
    line = await gate.line()
    assert (line["outcome"], failures(gate)) == ("interrupted", before + 1)
    assert line["attempts"][-1]["outcome"] in ("server", "bad_answer", "protocol")


async def test_a_connection_is_used_again_after_a_whole_stream(gate: Stage) -> None:
    """The end of the body mostly comes a packet behind the end mark."""
    for name in ("m", "x"):
        gate.models.acts[name] = apart(Shape.CHAT.whole("a"))
        await gate.stream(model=name)
        await gate.run.settled()
        before = gate.server.connections
        for _ in range(5):
            await gate.stream(model=name)
            await gate.run.settled()
        assert gate.server.connections == before


@pytest.mark.parametrize("then", [no_more, endless, Call.reset], ids=["silence", "more", "reset"])
async def test_a_body_that_does_not_end_behind_its_end_mark_keeps_nobody(then: Callable[[Call], None], gate: Stage) -> None:
    async def act(call: Call) -> None:
        gone.append(call.gone)
        call.head(200, SSE, chunked=True)
        call.piece(Shape.CHAT.whole("a"))
        await turns()
        then(call)

    gone: list[asyncio.Event] = []
    gate.models.acts["m"] = act
    seen = await gate.stream()
    assert (seen.text, seen.is_whole) == ("a", True)
    async with asyncio.timeout(2):
        await gone[0].wait()
    assert await ended(gate) == ("ok", "ok", 3, 2)
