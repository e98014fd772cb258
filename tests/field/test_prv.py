"""PRV-01 to PRV-05: what providers do to the dialect, and what the client gets of it."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fakes.openai import DONE, answers, encode
from tests.field.streaming import BOTH, Seen, Shape, Stage, apart, event, model, stage, used
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = Shape.CHAT
shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())
framed = pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = {"m": model("m"), "x": model("x", "x"), "other": model("other")}
    async with stage(valkey_server, tmp_path_factory.mktemp("prv"), models) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


def call(arguments: str, **members: Any) -> dict[str, Any]:
    """A fragment of a tool call; `id` and `name` begin one."""
    name = members.pop("name", None)
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {**members, "function": function}


def fragments(*calls: dict[str, Any]) -> list[bytes]:
    """A stream of tool calls, a fragment an event."""
    said = [CHAT.delta({"tool_calls": [each]}) for each in calls]
    return [CHAT.begins(), *said, CHAT.ends("tool_calls"), CHAT.usage(3, 2), DONE]


def joined(seen: Seen) -> dict[int, tuple[str, str, str]]:
    """The calls as clients join them, by index: id, name, arguments."""
    calls: dict[int, tuple[str, str, str]] = {}
    for chunk in seen.chunks:
        for choice in chunk["choices"]:
            for each in choice["delta"].get("tool_calls") or ():
                known = calls.get(each["index"], ("", "", ""))
                function = each["function"]
                new = (each.get("id") or "", function.get("name") or "", function["arguments"])
                calls[each["index"]] = (known[0] or new[0], known[1] or new[1], known[2] + new[2])
    return calls


TWO = {0: ("call_a", "f", '{"x":1}'), 1: ("call_b", "g", '{"y":2}')}
A, B = {"id": "call_a", "name": "f"}, {"id": "call_b", "name": "g"}

CALLS = {
    "no_index": [call("", **A), call('{"x":1}', id="call_a"), call("", **B), call('{"y":2}', id="call_b")],
    "no_index_whole": [call('{"x":1}', **A), call('{"y":2}', **B)],
    "null_index": [call('{"x":1}', **A, index=None), call('{"y":2}', **B, index=None)],
    "all_zero": [call("", **A, index=0), call('{"x":1}', index=0), call("", **B, index=0), call('{"y":2}', index=0)],
    "all_zero_whole": [call('{"x":1}', **A, index=0), call('{"y":2}', **B, index=0)],
    "in_order": [call('{"x"', **A, index=0), call(":1}", index=0), call('{"y"', **B, index=1), call(":2}", index=1)],
    "interleaved": [call('{"x"', **A, index=0), call('{"y"', **B, index=1), call(":1}", index=0), call(":2}", index=1)],
    "ids_again": [call('{"x"', **A, index=0), call(":1}", id="call_a", index=0), call('{"y":2}', **B, index=1)],
    "empty_ids_behind": [call('{"x"', **A, index=0), call(":1}", id="", index=0), call('{"y":2}', **B, index=1)],
}


@framed
@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
async def test_prv_01_two_tool_calls_stay_two(calls: list[dict[str, Any]], line_end: bytes, gate: Stage) -> None:
    pieces = [piece.replace(b"\n", line_end) for piece in fragments(*calls)]
    whole = b"".join(pieces)
    for each in (pieces, [whole], [whole[place : place + 1] for place in range(len(whole))]):
        gate.models.acts["m"] = apart(*each)
        seen = await gate.stream()
        assert (joined(seen), seen.finishes, seen.is_whole) == (TWO, ["tool_calls"], True)


@pytest.mark.parametrize("name", ["in_order", "interleaved", "ids_again"])
async def test_prv_01_right_indexes_are_left_alone(name: str, gate: Stage) -> None:
    gate.models.acts["m"] = apart(*fragments(*CALLS[name]))
    seen = await gate.stream()
    sent = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in seen.chunks[1:-1]]
    assert sent == CALLS[name]


async def test_prv_01_what_nothing_tells_apart_is_passed_on(gate: Stage) -> None:
    """Fragments without index or id while two calls are open: a guess would merge them."""
    calls = [call("", **A, index=0), call("", **B, index=1), call('{"x":1}')]
    gate.models.acts["m"] = apart(*fragments(*calls))
    seen = await gate.stream()
    assert [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in seen.chunks[1:-1]] == calls


@shaped
@framed
@pytest.mark.parametrize("proof", ["usage_and_end_mark", "usage", "end_mark"])
async def test_prv_02_a_finish_that_was_forgotten_is_added(proof: str, line_end: bytes, shape: Shape, gate: Stage) -> None:
    told = [shape.usage(3, 1)] if "usage" in proof else []
    mark = [DONE] if "mark" in proof else []
    pieces = [shape.begins(), shape.says("a"), *told, *mark]
    gate.models.acts["m"] = apart(*(piece.replace(b"\n", line_end) for piece in pieces))
    seen = await gate.stream(shape, stream_options={"include_usage": True})
    assert (seen.text, seen.finishes, seen.is_whole) == ("a", ["stop"], True)
    assert [bool(chunk["choices"]) for chunk in seen.chunks] == [True] * 3 + [False] * len(told)
    assert len({(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in seen.chunks}) == 1


@shaped
async def test_prv_02_without_any_proof_it_is_half_an_answer(shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.begins(), shape.says("a", usage=used(3, 1)))
    seen = await gate.stream(shape)
    assert (seen.finishes, seen.error["code"]) == ([], "stream_interrupted")


async def test_prv_02_a_tool_call_ends_as_one(gate: Stage) -> None:
    pieces = fragments(call('{"x":1}', **A, index=0))
    gate.models.acts["m"] = apart(*pieces[:-3], *pieces[-2:])
    assert (await gate.stream()).finishes == ["tool_calls"]


FIRSTS: list[tuple[object, str | None]] = [
    ({"role": "assistant"}, None),
    ({"role": "assistant", "content": None}, None),
    (None, None),
    ({}, None),
    ({"content": None}, ""),
    ({"content": ""}, ""),
]


@pytest.mark.parametrize(("delta", "finish"), FIRSTS)
async def test_prv_03_a_first_chunk_without_content_is_passed_on(delta: object, finish: str | None, gate: Stage) -> None:
    first = CHAT.delta(delta, finish)
    gate.models.acts["m"] = apart(first, CHAT.says("a"), CHAT.ends(), DONE)
    seen = await gate.stream()
    assert seen.chunks[0]["choices"] == msgspec.json.decode(first[6:])["choices"]
    assert (seen.text, seen.finishes, seen.is_whole) == ("a", ["stop"], True)


@shaped
async def test_prv_03_an_empty_finish_is_none(shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.ends(""), shape.says("a"), shape.ends(""))
    seen = await gate.stream(shape)
    assert (seen.text, seen.error["code"]) == ("a", "stream_interrupted")


STRANGE: dict[str, bytes] = {
    "usage": event(encode({"usage": used(3, 2)})),
    "vendor_fields": event(b'{"x_vendor":{"id":"1"}}'),
    "empty_object": event(b"{}"),
    "empty_list": event(b"[]"),
    "null": event(b"null"),
    "text_in_json": event(b'"hi"'),
    "number": event(b"5"),
    "no_json": event(b"not json"),
    "a_comment_wrapped": event(b": PROCESSING"),
    "no_utf8": event(b"\xff\xfe"),
    "no_choices": CHAT.chunk([]),
    "choices_null": CHAT.chunk(None),
    "choices_absent": CHAT.chunk(...),
}


@shaped
@framed
@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
async def test_prv_04_a_stream_goes_on_around_what_is_no_chunk(
    strange: bytes, line_end: bytes, shape: Shape, gate: Stage
) -> None:
    pieces = [shape.begins(), shape.says("a"), shape.says("b"), shape.ends()]
    mixed = [strange, *(each for piece in pieces for each in (piece, strange)), shape.usage(3, 2), DONE]
    gate.models.acts["m"] = apart(*(piece.replace(b"\n", line_end) for piece in mixed))
    seen = await gate.stream(shape, models=["m", "other"])
    assert (seen.text, seen.finishes, seen.is_whole, gate.models.asked) == ("ab", ["stop"], True, ["m"])
    assert all(chunk["choices"] for chunk in seen.chunks if "x_vendor" not in chunk)
    line = await gate.line()
    assert (line["outcome"], line["input_tokens"], line["output_tokens"]) == ("ok", 3, 2)


@shaped
async def test_prv_04_what_is_left_out_is_counted(shape: Shape, gate: Stage) -> None:
    async def count() -> float:
        await gate.run.settled()
        return gate.run.gateway._observer._cells.strange_events["p", "m"]

    before = await count()
    odd = [STRANGE[name] for name in ("no_json", "empty_list", "null", "empty_object")]
    gate.models.acts["m"] = apart(*odd, shape.says("a"), *odd, shape.ends(), DONE)
    assert (await gate.stream(shape)).is_whole
    assert await count() == before + 4, "null and an empty object are nobody's mistake"


@shaped
async def test_prv_04_vendor_fields_are_the_clients_too(shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.says("a"), STRANGE["vendor_fields"], shape.says("b", x_more=1.50), shape.ends(), DONE)
    seen = await gate.stream(shape)
    assert [chunk.get("x_vendor") for chunk in seen.chunks] == [None, {"id": "1"}, None, None]
    assert b'"x_more":1.5' in seen.body


@shaped
@pytest.mark.parametrize("words", [b"Error: out of memory", b'"overloaded"', b"[]"])
async def test_prv_04_an_end_mark_proves_nothing_of_what_was_not_understood(words: bytes, shape: Shape, gate: Stage) -> None:
    """It may have been an error in plain words: no finish is made up behind it."""
    gate.models.acts["m"] = apart(shape.says("a"), event(words), DONE)
    seen = await gate.stream(shape)
    assert (seen.text, seen.finishes, seen.error["code"]) == ("a", [], "stream_interrupted")


@shaped
@framed
async def test_prv_05_white_space_is_text(line_end: bytes, shape: Shape, gate: Stage) -> None:
    texts = ("a", "\n", "\n\n", "  ", "b", "\t", " ", "\r\n")
    pieces = [shape.begins(), *map(shape.says, texts), shape.ends(), DONE]
    for each in (pieces, [b"".join(pieces)]):
        gate.models.acts["m"] = apart(*(piece.replace(b"\n", line_end) for piece in each))
        seen = await gate.stream(shape)
        assert (seen.text, len(seen.chunks), seen.is_whole) == ("".join(texts), len(texts) + 2, True)


@shaped
@pytest.mark.parametrize("name", ["m", "x"])
async def test_prv_05_white_space_is_text_in_a_whole_answer_too(name: str, shape: Shape, gate: Stage) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "\n \t"}, "text": " \r\n ", "finish_reason": "stop"}
    gate.models.acts[name] = answers(choices=[choice])
    answer = await gate.ask(path=shape.value, model=name)
    assert answer.json()["choices"] == [choice]
