"""A picture, a thought, a text and two tool calls, by a provider of either dialect: clients cannot tell which."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.policy.catalogue import Deployment, Provider, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.providers import DIALECTS
from gateway.providers.protocol import Answer, Edits
from gateway.wire.request import Endpoint, parse
from tests.unit.providers import messages, streams
from tests.unit.providers.asking import CHAT, CLAUDE
from tests.unit.providers.messages import joined

THOUGHT, TEXT = "Hé, let me look \U0001f440.", "It is 世界, I think.\n"
CALLS = {"toolu_1": {"city": "Köln", "days": [1, 2]}, "toolu_2": {}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tell it", "parameters": {"type": "object"}}}
PICTURE = "data:image/png;base64,iVBORw0KGgo="
ASKED = {
    "model": "public",
    "messages": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Where is this?"}, {"type": "image_url", "image_url": {"url": PICTURE}}],
        }
    ],
    "tools": [TOOL],
    "reasoning_effort": "low",
    "max_tokens": 4096,
}
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30, "prompt_tokens_details": {"cached_tokens": 0}}
EDITS = replace(messages.EDITS, tariff=Tariff(Price(input=1000, output=2000)))

encode = msgspec.json.Encoder().encode


def by_anthropic(cut: int = 3) -> bytes:
    """The stream of an Anthropic provider; each text comes in two pieces."""
    out = [messages.start(), messages.event("ping")]
    out += [messages.begin(0, type="thinking", thinking="", signature=""), messages.add(0, thinking=THOUGHT[:cut])]
    out += [messages.add(0, thinking=THOUGHT[cut:]), messages.add(0, type="signature_delta", signature="s"), messages.stop(0)]
    out += [messages.begin(1, type="text", text=""), messages.add(1, text=TEXT[:cut]), messages.add(1, text=TEXT[cut:])]
    out.append(messages.stop(1))
    for index, (call, given) in enumerate(CALLS.items(), 2):
        arguments = encode(given).decode()
        out.append(messages.begin(index, type="tool_use", id=call, name="weather", input={}))
        out += [messages.add(index, partial_json=piece) for piece in (arguments[:cut], arguments[cut:])]
        out.append(messages.stop(index))
    return b"".join([*out, messages.end("tool_use")])


def by_openai(cut: int = 3) -> bytes:
    """The stream of an OpenAI provider that says the same."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": THOUGHT[:cut]}, {"reasoning_content": THOUGHT[cut:]}]
    deltas += [{"content": TEXT[:cut]}, {"content": TEXT[cut:]}]
    for index, (call, given) in enumerate(CALLS.items()):
        arguments = encode(given).decode()
        begun = {"index": index, "id": call, "type": "function", "function": {"name": "weather", "arguments": ""}}
        pieces = [{"index": index, "function": {"arguments": piece}} for piece in (arguments[:cut], arguments[cut:]) if piece]
        deltas += [{"tool_calls": [piece]} for piece in (begun, *pieces)]
    said = (streams.chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas)
    return b"".join([*said, streams.ends("tool_calls"), streams.chunk([], usage=USAGE), streams.DONE])


def read(at: Provider, stream: bytes, cuts: Any = (), edits: Edits = EDITS) -> bytes:
    """Return what a client is sent of a stream that comes in these pieces."""
    reader = DIALECTS[at.dialect](at).reader(edits)
    places = [0, *cuts, len(stream)]
    steps = [reader.feed(stream[first:last]) for first, last in pairwise(places)]
    assert reader.done
    assert not any(step.failed for step in steps)
    return b"".join(step.out for step in steps)


def test_the_streams_are_the_same_answer() -> None:
    found, expected = joined(read(CLAUDE, by_anthropic())), joined(read(CHAT, by_openai()))
    assert found == expected
    assert (found["reasoning_content"], found["content"], found["finish"]) == (THOUGHT, TEXT, "tool_calls")
    assert {call["id"]: msgspec.json.decode(call["arguments"]) for call in found["tool_calls"]} == CALLS
    assert found["usage"] == {**USAGE, "estimated_cost": 0.00005}
    assert {frozenset(chunk) for chunk in messages.chunks(read(CLAUDE, by_anthropic()))} == {
        frozenset(chunk) | {"system_fingerprint"} for chunk in messages.chunks(read(CHAT, by_openai()))
    }, "decision 33: a translated answer has a fingerprint, and there they differ"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(("at", "stream"), [(CLAUDE, by_anthropic()), (CHAT, by_openai())], ids=["anthropic", "openai"])
def test_they_are_for_every_byte_split(at: Provider, stream: bytes, line_end: bytes) -> None:
    stream = stream.replace(b"\n", line_end)
    whole = read(at, stream)
    assert joined(whole) == joined(read(CHAT, by_openai()))
    assert read(at, stream, range(1, len(stream))) == whole, "a byte at a time"
    for cut in range(1, len(stream)):
        assert read(at, stream, (cut,)) == whole


@pytest.mark.parametrize("cut", range(1, 12))
def test_how_the_provider_splits_its_words_changes_nothing(cut: int) -> None:
    assert joined(read(CLAUDE, by_anthropic(cut))) == joined(read(CHAT, by_openai(cut)))
    assert joined(read(CHAT, by_openai(cut))) == joined(read(CHAT, by_openai()))


def test_whole_answers_are_the_same() -> None:
    calls = [{"type": "tool_use", "id": call, "name": "weather", "input": given} for call, given in CALLS.items()]
    thought = {"type": "thinking", "thinking": THOUGHT, "signature": "s"}
    claudes = messages.message(thought, {"type": "text", "text": TEXT}, *calls, stop_reason="tool_use")
    said = {
        "role": "assistant",
        "content": TEXT,
        "refusal": None,
        "reasoning_content": THOUGHT,
        "tool_calls": [
            {"id": call, "type": "function", "function": {"name": "weather", "arguments": encode(given).decode()}}
            for call, given in CALLS.items()
        ],
    }
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "tool_calls"}
    gpts = encode({"id": "c1", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice], "usage": USAGE})
    found, expected = (answered(at, body) for at, body in ((CLAUDE, claudes), (CHAT, gpts)))
    assert (found["choices"], found["usage"]) == (expected["choices"], expected["usage"])
    assert found.keys() == expected.keys() | {"system_fingerprint"}
    assert [found[name] for name in ("object", "model", "service_tier")] == [
        expected[name] for name in ("object", "model", "service_tier")
    ]


def answered(at: Provider, body: bytes) -> dict[str, Any]:
    answer = DIALECTS[at.dialect](at).answer(body, EDITS)
    assert isinstance(answer, Answer)
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found


def test_each_is_asked_for_the_same_in_its_own_words() -> None:
    request = parse(Endpoint.CHAT, encode({**ASKED, "stream": True}))
    bodies = [
        msgspec.json.decode(
            DIALECTS[at.dialect](at)
            .call(request, Deployment(id="d", provider=at, upstream_model="up"), Tier.DEFAULT, last=True)
            .body
        )
        for at in (CHAT, CLAUDE)
    ]
    plain, claude = bodies
    assert plain == {**ASKED, "model": "up", "stream": True, "stream_options": {"include_usage": True}}
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE.rpartition(",")[2]}
    assert claude["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Where is this?"}, {"type": "image", "source": source}]}
    ]
    assert claude["tools"] == [{"name": "weather", "description": "Tell it", "input_schema": {"type": "object"}}]
    assert (claude["thinking"]["type"], claude["stream"], claude["max_tokens"]) == ("enabled", True, 4096)
