"""Cases USE-01 to USE-04: usage that upstreams report, late, early, not at all, or only when asked in the right way."""

import asyncio
from collections.abc import AsyncIterator
from math import ceil
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import DONE, JSON, SSE, answers, completion, error, event, refuses, streams
from tests.field.metering import INPUT_NANO_USD, OUTPUT_NANO_USD, SLOW, Metered, key, metered, model, secret, settings
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
TEXT = "你好, how can I help?"
ROLE = event({"role": "assistant", "content": ""})
STOP = event({}, "stop")

UNMEASURED = [key(f"unmeasured{number}", limits=SLOW) for number in range(20)]
"""Keys that are used once: what is in their buckets is what one request posted."""

MODELS = {
    "refusing": model("refusing"),
    "told": model("told", "told"),
    "two": model("two", "p", "q"),
}


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def told(*figures: int) -> bytes:
    """The chunk that tells nothing but usage."""
    return event({}, choices=[], usage=usage(*figures))


def said(path: str, text: str) -> list[dict[str, Any]]:
    """What a chunk of the endpoint at this path says."""
    if path == "completions":
        return [{"index": 0, "text": text, "logprobs": None, "finish_reason": None}]
    return [{"index": 0, "delta": {"content": text}, "finish_reason": None}]


def whole(path: str, text: str) -> list[dict[str, Any]]:
    if path == "completions":
        return [{"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}]
    return [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]


def chunks(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the chunks of a stream that ended well."""
    events = answer.text.removesuffix("\n\n").split("\n\n")
    assert events.pop() == "data: [DONE]", answer.text
    return [msgspec.json.decode(each.removeprefix("data: ")) for each in events if each.startswith("data: ")]


def text_of(found: list[dict[str, Any]]) -> str:
    choices = [choice for chunk in found for choice in chunk["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    found = settings(*UNMEASURED, models=MODELS)
    silent = {**found["providers"]["p"], "quirks": {"stream_options": False}}
    found["providers"]["told"] = silent
    async with metered(found, valkey_server, tmp_path_factory.mktemp("reported")) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


def only_if_asked(call: Call) -> Script:
    """What a provider streams that tells its usage to who asks for it, and to nobody else."""
    asked = (msgspec.json.decode(call.request.body).get("stream_options") or {}).get("include_usage")
    return streams(ROLE, event({"content": TEXT}), STOP, *([told(26, 9)] if asked else []), DONE)


async def honest(call: Call) -> None:
    await only_if_asked(call)(call)


@pytest.mark.parametrize("asks", [{}, {"stream_options": {}}, {"stream_options": {"include_usage": False}}])
async def test_use_01_usage_is_asked_for_whatever_the_client_asks(asks: dict[str, Any], gate: Metered) -> None:
    gate.models.acts["m"] = honest
    answer = await gate.ask(model="m", stream=True, **asks)
    assert text_of(chunks(answer)) == TEXT
    assert not [chunk for chunk in chunks(answer) if "usage" in chunk]
    line = await gate.line()
    assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == (26, 9, False)


NONE: list[Any] = [..., None, {}, {"cost": 1}, [], "none", usage(0, 0), {"prompt_tokens": None, "completion_tokens": None}]
"""What stands for no usage; an answer to nothing, that says nothing, is none that was given here."""


def silent(path: str, stated: Any) -> Script:
    """An answer without usage, whole or streamed as it is asked for."""
    members = {} if stated is ... else {"usage": stated}

    async def act(call: Call) -> None:
        if not msgspec.json.decode(call.request.body).get("stream"):
            call.reply(200, msgspec.json.encode({**msgspec.json.decode(bare(path)), **members}), JSON)
            return
        call.head(200, SSE, chunked=True)
        call.piece(event({}, choices=said(path, TEXT)))
        call.piece(event({}, choices=[{**said(path, "")[0], "finish_reason": "stop"}], **members))
        call.piece(DONE)
        call.end()

    return act


def bare(path: str) -> bytes:
    found = msgspec.json.decode(completion(choices=whole(path, TEXT)))
    del found["usage"]
    return msgspec.json.encode(found)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_use_01_without_any_usage_an_estimate_is_noted_and_charged(stream: bool, path: str, gate: Metered) -> None:
    keys = UNMEASURED[8 * stream :][:8] if path == "chat" else []
    for number, stated in enumerate(NONE):
        gate.models.acts["m"] = silent(path, stated)
        name = keys[number]["name"] if keys else None
        answer = await gate.ask(model="m", path=PATHS[path], stream=stream, key=secret(name) if name else None)
        assert answer.status_code == 200
        line = (await gate.notes.lines())[-1]
        assert line["estimated"], stated
        assert line["output_tokens"] == ceil(len(TEXT.encode()) / 4)
        assert line["input_tokens"] > 0
        assert line["cost_nano_usd"] == INPUT_NANO_USD * line["input_tokens"] + OUTPUT_NANO_USD * line["output_tokens"]
        assert "cost" not in answer.text, "a provider's own is nobody's business"
        if name:
            assert await gate.posted(name) == line["input_tokens"] + line["output_tokens"]


async def test_use_01_the_ledger_marks_the_estimate(gate: Metered) -> None:
    gate.models.acts["m"] = silent("chat", ...)
    answer = await gate.ask(model="m", stream=True, user="marked")
    [row] = [row for row in await gate.run.rows() if row["request_id"] == answer.headers["x-request-id"]]
    line = await gate.line()
    assert row["estimated"]
    assert row["output_tokens"] == line["output_tokens"] > 0


REFUSALS = [
    error("unknown field stream_options"),
    error("Unknown field: 'stream_options'"),
    error("Unrecognized request argument supplied: stream_options"),
    error("Extra inputs are not permitted", param="stream_options"),
    error('json: unknown field "stream_options"'),
    error("property 'stream_options' is unsupported"),
    error("stream_options is not supported by this model"),
    error("stream_options: Extra inputs are not permitted"),
    error("'stream_options' : extra fields not permitted"),
    error("The parameter `stream_options` is not supported"),
    error("Invalid parameter: stream_options"),
    b'{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted","type":"extra_forbidden"}]}',
    b'{"detail":"stream_options is not allowed"}',
    b'{"object":"error","message":"unexpected keyword argument \'stream_options\'","type":"BadRequestError","code":400}',
]


@pytest.mark.parametrize("status", [400, 422])
async def test_use_02_a_refusal_of_what_the_gateway_put_in_is_not_the_clients(status: int, gate: Metered) -> None:
    for body in REFUSALS:
        gate.models.acts["refusing"] = refuses(status, body)
        answer = await gate.ask(model="refusing", stream=True)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unavailable"), body
        assert "stream_options" not in answer.text
    assert len(gate.models.asked) == len(REFUSALS), "no deployment is sent the same request twice"


async def test_use_02_another_provider_serves_what_one_refuses(gate: Metered) -> None:
    async def by_turns(call: Call) -> None:
        first = len(gate.models.asked) == 1
        await (refuses(400, REFUSALS[0]) if first else only_if_asked(call))(call)

    gate.models.acts["two"] = by_turns
    answer = await gate.ask(model="two", stream=True)
    assert text_of(chunks(answer)) == TEXT
    assert answer.headers["x-gateway-attempts"] == "two;400, two;200"
    line = await gate.line()
    assert (line["provider"], line["outcome"], line["output_tokens"]) == ("q", "ok", 9)


async def test_use_02_a_client_that_names_the_field_wrongly_hears_so(gate: Metered) -> None:
    gate.models.acts["refusing"] = refuses(
        400, error("Invalid value: 'stream_options' is a word of the prompt", param="messages")
    )
    answer = await gate.ask(model="refusing", messages=[{"role": "user", "content": "what are stream_options?"}])
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")


async def test_use_02_the_field_is_never_sent_where_it_has_no_place(gate: Metered) -> None:
    for path in PATHS.values():
        for fields in ({}, {"stream": False}, {"stream_options": None}, {"stream": False, "stream_options": None}):
            assert (await gate.ask(model="m", path=path, **fields)).status_code == 200
        assert (await gate.ask(model="told", path=path, stream=True)).status_code == 200
    assert [b"stream_options" in request.body for request in gate.server.requests] == [False] * 10


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_use_03_usage_that_comes_late_is_noted_and_relayed(line_end: bytes, gate: Metered) -> None:
    async def act(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        for each in (ROLE, event({"content": "a"}), STOP):
            call.piece(each.replace(b"\n", line_end))
        # What follows is read by itself: the client has the finish by then.
        await finished.wait()
        call.piece(told(26, 9).replace(b"\n", line_end))
        call.piece(DONE.replace(b"\n", line_end))
        call.end()

    finished = asyncio.Event()
    gate.models.acts["m"] = act
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with gate.run.client.stream("POST", PATHS["chat"], json=body) as answer:
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            if '"finish_reason":"stop"' in text:
                finished.set()
    *_, last = [msgspec.json.decode(each.removeprefix("data: ")) for each in text.split("\n\n")[:-2]]
    assert text.endswith("data: [DONE]\n\n")
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (26, 9)
    line = await gate.line()
    assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == (26, 9, False)


A, Z = event({"content": "a"}), event({"content": "z"})
ELSEWHERE = {
    "with the finish, then an empty chunk": ("a", [ROLE, A, event({}, "stop", usage=usage(26, 9)), event({}, choices=[]), DONE]),
    "with the finish, then null": (
        "a",
        [ROLE, A, event({}, "stop", usage=usage(26, 9)), event({}, choices=[], usage=None), DONE],
    ),
    "with the last content": ("az", [ROLE, A, event({"content": "z"}, "stop", usage=usage(26, 9)), DONE]),
    "with content, finish after it": ("az", [ROLE, A, event({"content": "z"}, usage=usage(26, 9)), STOP, DONE]),
    "before the finish": ("a", [ROLE, A, told(26, 9), STOP, DONE]),
    "running": (
        "az",
        [ROLE, event({"content": "a"}, usage=usage(26, 3)), event({"content": "z"}, "stop", usage=usage(26, 9)), DONE],
    ),
    "choices null": ("a", [ROLE, A, STOP, event({}, choices=None, usage=usage(26, 9)), DONE]),
    "after an empty one": ("a", [ROLE, A, STOP, event({}, choices=[], usage={}), told(26, 9), DONE]),
    "no end mark": ("a", [ROLE, A, STOP, told(26, 9)]),
    "half of it at either end": (
        "a",
        [event({"role": "assistant"}, usage={"prompt_tokens": 26}), A, event({}, "stop", usage={"completion_tokens": 9}), DONE],
    ),
}


@pytest.mark.parametrize("place", ELSEWHERE)
@pytest.mark.parametrize("asked", [True, False], ids=["shown", "hidden"])
async def test_use_04_usage_may_stand_anywhere(place: str, asked: bool, gate: Metered) -> None:
    text, events = ELSEWHERE[place]
    gate.models.acts["m"] = streams(*events)
    answer = await gate.ask(model="m", stream=True, stream_options={"include_usage": True} if asked else ...)
    found = chunks(answer)
    assert text_of(found) == text
    shown = [chunk for chunk in found if chunk.get("usage")]
    assert [chunk["choices"] for chunk in shown] == [[]] * asked
    line = await gate.line()
    assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == (26, 9, False)


async def test_use_04_a_total_tells_the_part_that_is_missing(gate: Metered) -> None:
    for stated in ({"prompt_tokens": 26, "total_tokens": 35}, {"completion_tokens": 9, "total_tokens": 35}):
        gate.models.acts["m"] = answers(usage=stated)
        assert (await gate.ask(model="m")).status_code == 200
    for line in await gate.notes.lines():
        assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == (26, 9, False)
