"""Any cut of any stream tells a client of Messages the same, whoever serves it, and it tells what a whole answer says."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.catalogue import Provider
from tests.fakes import anthropic
from tests.fakes.reading import joined
from tests.fuzz.laws import LINE_ENDS, pieces_of
from tests.unit.providers.asking import CHAT, CLAUDE, message, play
from tests.unit.providers.chatting import chat, says
from tests.unit.providers.streams import DONE, chunk, ends, usage

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
names = st.sampled_from(["f", "g"])
inputs = st.dictionaries(words, words | st.integers(-9, 9), max_size=2)
calls = st.builds(lambda name, given: {"type": "tool_use", "name": name, "input": given}, names, inputs)
texts = st.builds(anthropic.text, words)
thoughts = st.builds(lambda said: {"type": "thinking", "thinking": said, "signature": ""}, words)


@st.composite
def contents(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw what an answer says: a thought, a text, calls, or some of these."""
    thought, said = draw(st.lists(thoughts, max_size=1)), draw(st.lists(texts, max_size=1))
    asked = [{**each, "id": f"t{place}"} for place, each in enumerate(draw(st.lists(calls, max_size=3)))]
    return [*thought, *said, *asked] or [draw(texts)]


def as_chat(content: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    """Return the same said by chat: whole, and in chunks."""
    message: dict[str, Any] = {"content": None}
    deltas: list[dict[str, Any]] = []
    for block in content:
        match block["type"]:
            case "text":
                message["content"] = block["text"]
                deltas += [{"content": each} for each in block["text"]]
            case "thinking":
                message["reasoning_content"] = block["thinking"]
                deltas += [{"reasoning_content": each} for each in block["thinking"]]
            case _:
                arguments = msgspec.json.encode(block["input"]).decode()
                known = message.setdefault("tool_calls", [])
                known.append({"id": block["id"], "function": {"name": block["name"], "arguments": arguments}})
                place = len(known) - 1
                begun = {"index": place, "id": block["id"], "function": {"name": block["name"], "arguments": ""}}
                rest = ({"index": place, "function": {"arguments": each}} for each in arguments)
                deltas += [{"tool_calls": [each]} for each in (begun, *rest)]
    finish = "tool_calls" if "tool_calls" in message else "stop"
    told = b"".join(chunk([{"index": 0, "delta": each, "finish_reason": None}]) for each in deltas)
    return chat(says(finish=finish, **message)), told + ends(finish) + chunk([], usage=usage()) + DONE


def as_messages(content: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    """Return the same said by Messages: whole, and in events."""
    reason = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    return anthropic.message(*content, stop_reason=reason), anthropic.stream(*content, stop_reason=reason)


SPOKEN = {"chat": (CHAT, as_chat), "messages": (CLAUDE, as_messages)}


@pytest.mark.parametrize("form", SPOKEN)
@given(content=contents(), end=st.sampled_from(LINE_ENDS), cuts=st.lists(st.integers(0, 3_000), max_size=6))
def test_a_stream_is_the_whole_answer_wherever_it_is_cut(
    form: str, content: list[dict[str, Any]], end: bytes, cuts: list[int]
) -> None:
    at, said_as = SPOKEN[form]
    body, stream = said_as(content)
    stream = stream.replace(b"\n", end)
    once = play([stream], at)
    whole = message(body, at)
    told = joined(once.out)
    assert told["content"] == whole["content"] == content
    assert [told[name] for name in ("model", "stop_reason", "usage")] == [
        whole[name] for name in ("model", "stop_reason", "usage")
    ]
    assert_same(stream, cuts, at)


@pytest.mark.parametrize("form", SPOKEN)
@given(content=contents(), length=st.integers(0, 3_000), cuts=st.lists(st.integers(0, 3_000), max_size=4))
def test_one_that_breaks_tells_no_end(form: str, content: list[dict[str, Any]], length: int, cuts: list[int]) -> None:
    at, said_as = SPOKEN[form]
    stream = said_as(content)[1][:length]
    found = assert_same(stream, cuts, at)
    assert (b"event: message_stop" in found) is (play([stream], at).failed is None)


def assert_same(stream: bytes, cuts: list[int], at: Provider) -> bytes:
    """Hold every cut of a stream to the same outcome. Return what goes out."""
    whole = play([stream], at)
    for pieces in (pieces_of(stream, cuts), pieces_of(stream, range(len(stream)))):
        found = play(pieces, at)
        assert (found.out, found.known) == (whole.out, whole.known)
    return whole.out
