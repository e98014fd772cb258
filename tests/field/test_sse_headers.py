"""SSE-15 to SSE-18: what is said about a body is true of the body that is sent, and nothing of ours holds small events back."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call
from tests.fakes.openai import CONTEXT, DONE, JSON, SSE, completion
from tests.field.streaming import BOTH, Seen, Shape, Stage, apart, model, stage
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
carried = pytest.mark.parametrize("name", ["m", "x"], ids=["http1", "httpx"])
packed = pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])

GZIP = zlib.MAX_WBITS + 16
LONG_NAME = "up-very-long-name-of-a-model-that-is-rewritten"

THEIRS = [
    ("set-cookie", "session=4711"),
    ("server", "upstream/1"),
    ("keep-alive", "timeout=5"),
    ("x-powered-by", "x"),
    ("x-request-id", "theirs"),
    ("openai-organization", "acct-4711"),
    ("access-control-allow-origin", "*"),
]
"""What a provider says of itself, its connection and its account."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {"m": model("m"), "x": model("x", "x"), "other": model("other")}
    async with stage(valkey_server, tmp_path_factory.mktemp("headers"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


def gzipped(body: bytes) -> bytes:
    return zlib.compress(body, wbits=GZIP)


async def read_one_by_one(
    gate: Stage, shape: Shape, name: str, pack: Callable[[bytes], bytes], kind: list[tuple[str, str]]
) -> Seen:
    """Have the provider send no event before its client has read the one before; `pack` makes bytes of events."""
    read: asyncio.Queue[bytes] = asyncio.Queue()
    texts = ("a", "b", "c", "d", "e")

    async def act(call: Call) -> None:
        call.head(200, kind, chunked=True)
        for text in texts:
            call.piece(pack(shape.says(text)))
            assert f'"{text}"'.encode() in await read.get()
        call.piece(pack(shape.ends() + DONE))
        call.end()

    gate.models.acts[name] = act
    body = b""
    async with gate.reading(shape, headers={"accept-encoding": "gzip, br"}, model=name) as answer:
        assert "content-encoding" not in answer.headers
        async for piece in answer.aiter_raw():
            body += piece
            read.put_nowait(piece)
    assert Seen(body).text == "".join(texts)
    return Seen(body)


@carried
@shaped
@packed
async def test_sse_15_a_packed_stream_arrives_unpacked_event_by_event(coding: str, shape: Shape, name: str, gate: Stage) -> None:
    packer = zlib.compressobj(wbits=GZIP)
    kind = [*SSE, ("content-encoding", coding)]
    seen = await read_one_by_one(gate, shape, name, lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH), kind)
    assert seen.is_whole
    assert gate.server.requests[-1].header("accept-encoding") == "identity"


@shaped
async def test_sse_15_a_packed_stream_is_read_wherever_it_was_cut(shape: Shape, gate: Stage) -> None:
    stream = gzipped(shape.whole("你好🌍"))
    headers = [*SSE, ("content-encoding", "gzip")]
    for place in range(1, len(stream), 3):
        gate.models.acts["m"] = apart(stream[:place], stream[place:], headers=headers)
        seen = await gate.stream(shape)
        assert (seen.text, seen.is_whole) == ("你好🌍", True)


@shaped
async def test_sse_15_half_a_packed_stream_never_looks_whole(shape: Shape, gate: Stage) -> None:
    packer = zlib.compressobj(wbits=GZIP)
    half = packer.compress(shape.says("a")) + packer.flush(zlib.Z_SYNC_FLUSH)
    gate.models.acts["m"] = apart(half, headers=[*SSE, ("content-encoding", "gzip")])
    seen = await gate.stream(shape)
    assert (seen.text, seen.error["code"]) == ("a", "stream_interrupted")


@carried
@shaped
@pytest.mark.parametrize("stream", [True, False])
async def test_sse_15_packed_bodies_are_unpacked_whatever_their_status(
    stream: bool, shape: Shape, name: str, gate: Stage
) -> None:
    async def refuse(call: Call) -> None:
        call.reply(400, gzipped(CONTEXT), [*JSON, ("content-encoding", "gzip")])

    async def reply(call: Call) -> None:
        body, kind = (shape.whole("Hello"), SSE) if stream else (completion(), JSON)
        call.reply(200, gzipped(body), [*kind, ("content-encoding", "gzip")])

    gate.models.acts[name] = refuse
    refused = await gate.ask(path=shape.value, model=name, stream=stream)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    gate.models.acts[name] = reply
    answer = await gate.ask(path=shape.value, model=name, stream=stream)
    assert (answer.status_code, "Hello" in answer.text) == (200, True)
    for each in (refused, answer):
        assert "content-encoding" not in each.headers


@shaped
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip"])
async def test_sse_15_a_coding_that_nobody_asked_for_is_a_failure(coding: str, stream: bool, shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(b"\x1b\x00", headers=[*(SSE if stream else JSON), ("content-encoding", coding)])
    answer = await gate.ask(path=shape.value, models=["m", "other"], stream=stream)
    assert (answer.status_code, gate.models.asked) == (200, ["m", "other"])


@carried
@shaped
@pytest.mark.parametrize("stream", [True, False])
async def test_sse_16_an_answer_has_the_headers_of_its_own_bytes(stream: bool, shape: Shape, name: str, gate: Stage) -> None:
    body = shape.whole("a").replace(b'"up"', f'"{LONG_NAME}"'.encode()) if stream else completion(model=LONG_NAME)

    async def reply(call: Call) -> None:
        call.reply(200, body, [*(SSE if stream else JSON), *THEIRS])

    gate.models.acts[name] = reply
    answer = await gate.ask(path=shape.value, model=name, stream=stream)
    assert (answer.status_code, LONG_NAME in answer.text, f'"model":"{name}"' in answer.text) == (200, False, True)
    headers = answer.headers
    if stream:
        assert ("content-length" in headers, headers["transfer-encoding"]) == (False, "chunked")
    else:
        assert (int(headers["content-length"]), "transfer-encoding" in headers) == (len(answer.content), False)
    assert not [name for name, value in THEIRS if headers.get(name) == value]
    assert len(headers.get_list("content-type")) == 1


@carried
@shaped
@pytest.mark.parametrize("stream", [True, False])
async def test_sse_16_a_refusal_has_the_headers_of_its_own_bytes(stream: bool, shape: Shape, name: str, gate: Stage) -> None:
    async def refuse(call: Call) -> None:
        call.reply(
            400,
            b'{"error":{"message":"bad thing","param":"x","code":"invalid_value"},"padding":"' + b"x" * 500 + b'"}',
            [*JSON, *THEIRS],
        )

    gate.models.acts[name] = refuse
    answer = await gate.ask(path=shape.value, model=name, stream=stream)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "bad thing")
    assert int(answer.headers["content-length"]) == len(answer.content) < 200
    assert not [name for name, value in THEIRS if answer.headers.get(name) == value]


@shaped
async def test_sse_17_a_stream_tells_proxies_to_pass_it_on(shape: Shape, gate: Stage) -> None:
    for script in (apart(shape.whole("a")), apart(shape.says("a"), then=Call.reset)):
        gate.models.acts["m"] = script
        async with gate.reading(shape) as answer:
            headers = answer.headers
            await answer.aread()
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-cache", "no")


@carried
@shaped
async def test_sse_18_small_events_arrive_one_by_one_and_unpacked(shape: Shape, name: str, gate: Stage) -> None:
    seen = await read_one_by_one(gate, shape, name, lambda data: data, SSE)
    assert seen.is_whole
    line = await gate.line()
    assert (line["outcome"], line["bytes_sent"]) == ("ok", len(seen.body))
