"""The commit point: what a stream may begin with before another model can no longer answer in its place, and what settles it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.http_server import Call, Script
from tests.fakes.openai import BUSY, CONTEXT, DONE, JSON, completion, encode
from tests.field.streaming import BOTH, Shape, Stage, apart, error, event, model, no_more, stage, used
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, COMPLETIONS = Shape.CHAT, Shape.COMPLETIONS
shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
carried = pytest.mark.parametrize("name", ["m", "x"], ids=["http1", "httpx"])

TOOL = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": ""}}

SILENT: dict[str, tuple[Shape, bytes]] = {
    "role": (CHAT, CHAT.begins()),
    "role_alone": (CHAT, CHAT.delta({"role": "assistant"})),
    "no_content": (CHAT, CHAT.delta({"role": "assistant", "content": None})),
    "empty_delta": (CHAT, CHAT.delta({})),
    "null_delta": (CHAT, CHAT.delta(None)),
    "empty_content": (CHAT, CHAT.says("")),
    "empty_reasoning": (CHAT, CHAT.delta({"content": "", "reasoning_content": ""})),
    "empty_refusal": (CHAT, CHAT.delta({"content": None, "refusal": ""})),
    "no_tool_calls": (CHAT, CHAT.delta({"content": None, "tool_calls": []})),
    "empty_finish": (CHAT, CHAT.delta({"content": ""}, finish="")),
    "filter_results": (CHAT, CHAT.chunk([], prompt_filter_results=[{"prompt_index": 0}])),
    "usage_of_the_prompt": (CHAT, CHAT.chunk([], usage=used(3, 0))),
    "vendor_fields": (CHAT, event(b'{"x_vendor":{"id":"1"}}')),
    "empty_object": (CHAT, event(b"{}")),
    "null": (CHAT, event(b"null")),
    "no_json": (CHAT, event(b"please wait")),
    "comment": (CHAT, b": PROCESSING\n\n"),
    "empty_data": (CHAT, b"data:\n\n"),
    "nothing": (CHAT, b""),
    "empty_text": (COMPLETIONS, COMPLETIONS.begins()),
    "no_text": (COMPLETIONS, COMPLETIONS.chunk([{"index": 0, "text": None, "finish_reason": None}])),
    "text_usage_of_the_prompt": (COMPLETIONS, COMPLETIONS.chunk([], usage=used(3, 0))),
    "text_nothing": (COMPLETIONS, b""),
}
"""What says nothing."""

SPEAKING: dict[str, tuple[Shape, bytes]] = {
    "text": (CHAT, CHAT.says("a")),
    "space": (CHAT, CHAT.says(" ")),
    "line_end": (CHAT, CHAT.says("\n")),
    "content_parts": (CHAT, CHAT.delta({"content": [{"type": "text", "text": "a"}]})),
    "reasoning_content": (CHAT, CHAT.delta({"content": "", "reasoning_content": "hm"})),
    "reasoning": (CHAT, CHAT.delta({"reasoning": "hm"})),
    "refusal": (CHAT, CHAT.delta({"refusal": "no"})),
    "audio": (CHAT, CHAT.delta({"audio": {"id": "audio_1"}})),
    "tool_call": (CHAT, CHAT.delta({"content": None, "tool_calls": [TOOL]})),
    "function_call": (CHAT, CHAT.delta({"function_call": {"name": "f", "arguments": ""}})),
    "second_choice": (CHAT, CHAT.says("a", index=1)),
    "completion_text": (COMPLETIONS, COMPLETIONS.says("a")),
    "completion_line_end": (COMPLETIONS, COMPLETIONS.says("\n")),
}
"""What says something."""

BREAKS: dict[str, tuple[bytes, Callable[[Call], None]]] = {
    "eof": (b"", Call.end),
    "reset": (b"", Call.reset),
    "error": (event(encode(error(502))), no_more),
    "half_a_chunk": (event(b'{"choices":[{'), no_more),
}
"""How it goes on to fail."""

silent = pytest.mark.parametrize(("shape", "first"), SILENT.values(), ids=SILENT)
speaking = pytest.mark.parametrize(("shape", "first"), SPEAKING.values(), ids=SPEAKING)
broken = pytest.mark.parametrize(("more", "then"), BREAKS.values(), ids=BREAKS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {
        "m": model("m"),
        "x": model("x", "x"),
        "other": model("other"),
        # One for each, so that none is left alone for how the others did.
        **{f"quick-{kind}": model(f"quick-{kind}", timeouts={"first_content": "400ms"}) for kind in SILENT},
    }
    async with stage(valkey_server, tmp_path_factory.mktemp("commit"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


async def walked(gate: Stage) -> list[tuple[str, bool]]:
    """Who was tried, and whether it answered."""
    return [(each["model"], each["outcome"] == "ok") for each in (await gate.line())["attempts"]]


async def other_answers(gate: Stage, shape: Shape, name: str = "m") -> None:
    """Ask for a model that fails and another; nothing of the first may be seen."""
    seen = await gate.stream(shape, models=[name, "other"])
    assert (seen.text, seen.is_whole) == ("Hello", True)
    assert {chunk["model"] for chunk in seen.chunks} == {"other"}
    assert len(seen.chunks) == 3
    assert await walked(gate) == [(name, False), ("other", True)]


@silent
@broken
async def test_fallback_is_free_while_nothing_was_said(
    shape: Shape, first: bytes, more: bytes, then: Callable[[Call], None], gate: Stage
) -> None:
    gate.models.acts["m"] = apart(first, more, then=then)
    await other_answers(gate, shape)


@silent
async def test_what_said_nothing_does_not_stand_in_the_way_of_what_follows(shape: Shape, first: bytes, gate: Stage) -> None:
    pieces = [first, shape.says("a"), shape.ends(), shape.usage(3, 2), DONE]
    for script in (apart(*pieces), apart(b"".join(pieces))):
        gate.models.acts["m"] = script
        seen = await gate.stream(shape, models=["m", "other"])
        assert (seen.text, seen.finishes, seen.is_whole) == ("a", ["stop"], True)
        assert await walked(gate) == [("m", True)]


@speaking
@broken
async def test_fallback_is_over_once_something_was_said(
    shape: Shape, first: bytes, more: bytes, then: Callable[[Call], None], gate: Stage
) -> None:
    gate.models.acts["m"] = apart(shape.begins(), first, more, then=then)
    seen = await gate.stream(shape, models=["m", "other"])
    assert seen.error["code"] == "stream_interrupted"
    assert {chunk["model"] for chunk in seen.chunks[:-1]} == {"m"}
    assert len(seen.chunks) == 3
    assert gate.models.asked == ["m"]


@shaped
@pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "tool_calls"])
async def test_an_end_settles_it_even_of_an_empty_answer(reason: str, shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.begins(), shape.ends(reason), then=Call.reset)
    seen = await gate.stream(shape, models=["m", "other"])
    assert (seen.text, seen.finishes, seen.is_whole, gate.models.asked) == ("", [reason], True, ["m"])


@shaped
async def test_an_end_mark_alone_is_no_answer(shape: Shape, gate: Stage) -> None:
    for pieces in ([DONE], [shape.begins(), DONE], [shape.begins(), shape.usage(3, 0), DONE]):
        gate.models.acts["m"] = apart(*pieces)
        await other_answers(gate, shape)
        gate.models.asked.clear()


async def test_silence_behind_what_said_nothing_is_bounded(gate: Stage) -> None:
    for kind, (_, first) in SILENT.items():
        gate.models.acts[f"quick-{kind}"] = apart(first, then=no_more)
    asked = [gate.stream(shape, models=[f"quick-{kind}", "other"]) for kind, (shape, _) in SILENT.items()]
    for seen in await asyncio.gather(*asked):
        assert (seen.text, seen.is_whole, len(seen.chunks)) == ("Hello", True, 3)
    walked = [[(each["model"], each["outcome"]) for each in line["attempts"]] for line in await gate.lines(len(SILENT))]
    assert sorted(walked) == sorted([(f"quick-{kind}", "timeout"), ("other", "ok")] for kind in SILENT)


def whole_reply(body: bytes, kind: str) -> Script:
    async def act(call: Call) -> None:
        call.reply(200, body, [("content-type", kind)])

    return act


NO_STREAMS: dict[str, tuple[bytes, str]] = {
    "html": (b"<html>blocked</html>", "text/html"),
    "text": (b"blocked", "text/plain; charset=utf-8"),
    "json_error": (encode({"error": {"message": "quota of acct 4711", "type": "insufficient_quota"}}), "application/json"),
    "json_error_as_text": (encode({"error": "blocked"}), "application/json"),
    "json_answer": (completion(), "application/json"),
    "json_of_something_else": (b"[]", "application/json"),
    "empty_json": (b"", "application/json"),
    "html_as_a_stream": (b"<html>blocked</html>", "text/event-stream"),
    "json_error_as_a_stream": (encode(error(502)), "text/event-stream"),
    "json_answer_as_a_stream": (completion(), "text/event-stream"),
    "empty_stream": (b"", "text/event-stream"),
}


@carried
@shaped
@pytest.mark.parametrize(("body", "kind"), NO_STREAMS.values(), ids=NO_STREAMS)
async def test_sse_10_a_200_that_is_no_stream_is_a_failure(body: bytes, kind: str, shape: Shape, name: str, gate: Stage) -> None:
    gate.models.acts[name] = whole_reply(body, kind)
    await other_answers(gate, shape, name)
    alone = await gate.ask(path=shape.value, model=name, stream=True)
    assert (alone.status_code, alone.headers["content-type"]) == (502, "application/json")
    assert alone.json()["error"]["code"] in ("upstream_bad_response", "upstream_unavailable", "upstream_auth_error")
    assert not any(word in alone.text for word in ("blocked", "4711", "quota"))
    line = await gate.line()
    assert (line["status"], line["outcome"], line["attempts"][0]["status"]) == (502, "upstream_error", 200)


@shaped
@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream", "text/event-stream; charset=UTF-8"])
async def test_sse_10_a_stream_is_one_however_its_type_is_written(kind: str, shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.whole("a"), headers=[("content-type", kind)])
    assert (await gate.stream(shape)).text == "a"


@shaped
@pytest.mark.parametrize(
    ("body", "kind"),
    [NO_STREAMS[name] for name in ("html", "json_error", "json_of_something_else", "empty_json")]
    + [(Shape.CHAT.whole("a"), "text/event-stream"), (completion()[:-1], "application/json")],
)
async def test_sse_10_a_200_that_is_no_answer_is_a_failure(body: bytes, kind: str, shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = whole_reply(body, kind)
    answer = await gate.ask(path=shape.value, model=..., models=["m", "other"])
    assert (answer.status_code, answer.json()["model"], gate.models.asked) == (200, "other", ["m", "other"])


def reply(status: int, body: bytes, **headers: str) -> Script:
    async def act(call: Call) -> None:
        call.reply(status, body, [*JSON, *((name.replace("_", "-"), value) for name, value in headers.items())])

    return act


@shaped
@pytest.mark.parametrize(
    ("script", "status", "expected"),
    [
        (reply(429, BUSY, retry_after="7"), 429, {"code": "engine_overloaded"}),
        (reply(400, CONTEXT), 400, {"code": "context_length_exceeded", "param": "messages"}),
        (reply(500, b"<html>"), 502, {"code": "upstream_unavailable"}),
        (apart(event(CONTEXT)), 400, {"code": "context_length_exceeded"}),
        (apart(event(BUSY)), 429, {"code": "engine_overloaded"}),
        (apart(event(encode(error(500)))), 502, {"code": "upstream_unavailable"}),
    ],
    ids=["429", "400", "500", "400_in_the_stream", "429_in_the_stream", "500_in_the_stream"],
)
async def test_sse_11_what_fails_before_the_first_content_has_its_own_status(
    script: Script, status: int, expected: dict[str, Any], shape: Shape, gate: Stage
) -> None:
    gate.models.acts["m"] = script
    answer = await gate.ask(path=shape.value, model="m", stream=True, fail_fast=True)
    found = answer.json()["error"]
    assert (answer.status_code, {name: found[name] for name in expected}) == (status, expected)
    assert answer.headers["content-type"] == "application/json"
    assert ("retry-after" in answer.headers) == (status == 429)
