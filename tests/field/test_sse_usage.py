"""SSE-22 and SSE-24: usage is always counted, told to those alone who asked for it, once and in OpenAI's shape."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.openai import DONE, encode
from tests.field.streaming import BOTH, Shape, Stage, apart, event, model, stage, used
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

shaped = pytest.mark.parametrize("shape", BOTH, ids=lambda shape: shape.name.lower())

DETAILS = {"prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 1}}
WHOLE: dict[str, Any] = {**used(3, 2), **DETAILS}
COSTS = {"cost": 7.0, "estimated_cost": 9.0}
"""What the provider says that it costs us: nobody's business."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with stage(valkey_server, tmp_path_factory.mktemp("usage"), {"m": model("m")}) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Stage) -> AsyncIterator[Stage]:
    yield shared
    await shared.rest()


def bare(usage: dict[str, Any]) -> bytes:
    """Usage outside any chunk."""
    return event(encode({"usage": usage}))


PLACES = {
    "alone": lambda shape: [shape.says("a"), shape.ends(), shape.chunk([], usage=WHOLE | COSTS)],
    "on_the_finish": lambda shape: [shape.says("a"), shape.ends(usage=WHOLE | COSTS)],
    "on_every_chunk": lambda shape: [shape.says("a", usage=used(3, 1)), shape.ends(usage=WHOLE | COSTS)],
    "before_the_finish": lambda shape: [shape.says("a"), shape.chunk([], usage=WHOLE | COSTS), shape.ends()],
    "behind_a_null": lambda shape: [shape.says("a", usage=None), shape.ends(usage=WHOLE), shape.chunk([], usage=None)],
    "twice": lambda shape: [shape.says("a"), shape.ends(usage=used(3, 1)), shape.chunk([], usage=WHOLE)],
    "outside_any_chunk": lambda shape: [shape.says("a"), shape.ends(), bare(WHOLE)],
    "without_choices": lambda shape: [shape.says("a"), shape.ends(), shape.chunk(..., usage=WHOLE)],
    "choices_null": lambda shape: [shape.says("a"), shape.ends(), shape.chunk(None, usage=WHOLE)],
    "without_a_finish": lambda shape: [shape.says("a"), shape.chunk([], usage=WHOLE)],
    "with_another_id": lambda shape: [shape.says("a"), shape.ends(), shape.chunk([], usage=WHOLE, id="another")],
}
"""Where providers tell the usage."""

placed = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)


@shaped
@placed
@pytest.mark.parametrize("options", [..., None, {"include_usage": False}, {"include_usage": True}], ids=str)
async def test_sse_22_usage_is_counted_always_and_told_when_asked_for(
    options: Any, place: Any, shape: Shape, gate: Stage
) -> None:
    gate.models.acts["m"] = apart(shape.begins(), *place(shape), DONE)
    seen = await gate.stream(shape, stream_options=options)
    assert (seen.text, seen.finishes, seen.is_whole) == ("a", ["stop"], True)
    *chunks, last = seen.chunks
    asked = options == {"include_usage": True}
    assert [bool(chunk["choices"]) for chunk in seen.chunks[:3]] == [True] * 3
    assert not any(chunk.get("usage") for chunk in chunks)
    assert bool(last.get("usage")) == asked
    line = await gate.line()
    found = {name: line[name] for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "estimated")}
    assert [*found.values()] == [3, 1, 2, 1, False]


@shaped
@placed
@pytest.mark.parametrize("end", [DONE, b""], ids=["end_mark", "no_end_mark"])
async def test_sse_24_usage_is_one_event_of_its_own_before_the_end_mark(
    end: bytes, place: Any, shape: Shape, gate: Stage
) -> None:
    gate.models.acts["m"] = apart(shape.begins(), *place(shape), end)
    seen = await gate.stream(shape, stream_options={"include_usage": True})
    *_, before, last = seen.chunks
    assert (before["choices"][0]["finish_reason"], last["choices"]) == ("stop", [])
    # Dearer than the sum of its parts by what no float holds: 3 and 2 tokens at 1 and 2 USD a million.
    assert last["usage"] == {**WHOLE, "estimated_cost": 7e-06}
    for name in ("id", "object", "created", "model", "service_tier"):
        assert last.get(name) == before.get(name), name
    assert seen.payloads[-1] == b"[DONE]"


@shaped
async def test_sse_24_a_provider_that_tells_no_usage_has_none_made_up_for_the_client(shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.begins(), shape.says("abcdefgh"), shape.ends(), DONE)
    seen = await gate.stream(shape, stream_options={"include_usage": True})
    assert not any(chunk.get("usage") for chunk in seen.chunks)
    line = await gate.line()
    assert (line["output_tokens"], line["estimated"]) == (2, True)


@shaped
async def test_sse_24_running_usage_stays_where_it_was_asked_for(shape: Shape, gate: Stage) -> None:
    gate.models.acts["m"] = apart(shape.says("a", usage=used(3, 1)), shape.ends(usage=used(3, 2)), DONE)
    options = {"include_usage": True, "continuous_usage_stats": True}
    seen = await gate.stream(shape, stream_options=options)
    assert [chunk["usage"]["completion_tokens"] for chunk in seen.chunks] == [1, 2, 2]
    assert [bool(chunk["choices"]) for chunk in seen.chunks] == [True, True, False]
