"""Any cut of any stream tells a client of Messages the same, whoever serves it, and it tells what a whole answer says.

That holds for all that Claude says, chat or no words for it, and for calls whose fragments chat sends in any order.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.catalogue import Provider
from gateway.providers.call_ids import handed, owner_of
from tests.fakes import anthropic
from tests.fakes.reading import joined
from tests.fuzz.laws import LINE_ENDS, pieces_of
from tests.unit.providers import messages
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


signed = st.builds(lambda said, by: {"type": "thinking", "thinking": said, "signature": by}, words, words)
hidden = st.builds(lambda data: {"type": "redacted_thinking", "data": data}, words)
citations = st.lists(st.builds(lambda cited: {"type": "char_location", "cited_text": cited}, words), min_size=1, max_size=2)
cited = st.builds(lambda said, given: {**anthropic.text(said), "citations": given}, words, citations)
searches = st.builds(lambda given: {"type": "server_tool_use", "id": "s", "name": "web_search", "input": given}, inputs)
found_there = st.builds(lambda url: {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": url}]}, words)
own_calls = st.builds(lambda call: {**call, "id": "toolu_1"}, calls)
later = st.builds(lambda said: {"type": "block_of_another_day", "text": said}, words)
blocks = st.one_of(signed, hidden, texts, cited, searches, found_there, own_calls, later)

LATER = anthropic.event("of_another_day", x=1)
"""An event that nobody knows yet."""
ASIDE = (LATER, anthropic.event("ping"), b": a comment\n\n")


@st.composite
def asides(draw: st.DrawFn, content: list[dict[str, Any]], reason: str) -> bytes:
    """Draw a stream of Claude's that says this, with what may come between two events."""
    told = anthropic.stream(*content, stop_reason=reason).split(b"\n\n")[:-1]
    between = [draw(st.sampled_from([b"", b"", b"", *ASIDE])) for _ in told[:-2]]
    return b"".join(each + b"\n\n" + aside for each, aside in zip(told, [*between, b"", b""], strict=True))


@given(content=st.lists(blocks, min_size=1, max_size=5), data=st.data(), end=st.sampled_from(LINE_ENDS))
def test_all_that_claude_says_passes_wherever_it_is_cut(content: list[dict[str, Any]], data: st.DataObject, end: bytes) -> None:
    body, _ = as_messages(content)
    reason = msgspec.json.decode(body)["stop_reason"]
    stream = data.draw(asides(content, reason)).replace(b"\n", end)
    found = assert_same(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=4)), CLAUDE)
    assert found.count(b"event: of_another_day") == stream.count(b"event: of_another_day")
    told, whole = joined(found.replace(LATER, b"")), message(body, CLAUDE)
    assert told["content"] == whole["content"] == content
    assert (told["stop_reason"], told["usage"]) == (whole["stop_reason"], whole["usage"])


@given(content=st.lists(blocks, min_size=1, max_size=5), data=st.data(), end=st.sampled_from(LINE_ENDS))
def test_clients_of_chat_hear_the_same_of_it_wherever_it_is_cut(
    content: list[dict[str, Any]], data: st.DataObject, end: bytes
) -> None:
    stream = data.draw(asides(content, "end_turn")).replace(b"\n", end)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=4))
    heard = [listened(pieces) for pieces in ([stream], pieces_of(stream, cuts), pieces_of(stream, range(len(stream))))]
    assert heard[0] == heard[1] == heard[2]
    told = messages.joined(heard[0][0])
    assert told["content"] == "".join(each["text"] for each in content if each["type"] == "text")
    assert told["reasoning_content"] == "".join(each["thinking"] for each in content if each["type"] == "thinking")
    assert [each["id"] for each in told["tool_calls"]] == [each["id"] for each in content if each["type"] == "tool_use"]


def listened(pieces: Iterable[bytes]) -> tuple[bytes, tuple[object, ...]]:
    """Return what a client of chat gets of a stream, and what the gateway knows of it."""
    reader, out, failed = messages.play(pieces)
    return out, (reader.usage, reader.tier, reader.output_bytes, reader.finished, reader.done, failed)


ids = st.lists(st.sampled_from(["call_1", "functions.f:0", "call 2", "t" * 70, "functions.f:1"]), unique=True, max_size=4)
given_arguments = st.one_of(st.sampled_from(["", "{}"]), st.builds(lambda given: msgspec.json.encode(given).decode(), inputs))


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]:
    """Draw calls by their ids, what is said and thought beside them, and deltas of it all in an order of chance."""
    asked = {call_id: draw(given_arguments) for call_id in draw(ids)}
    said = {name: draw(st.text("ab\u00e9", max_size=4)) for name in ("content", "reasoning_content")}
    queues: list[list[dict[str, Any]]] = [[{name: letter} for letter in text] for name, text in said.items()]
    for place, (call_id, arguments) in enumerate(asked.items()):
        begun = {"index": place, "id": call_id, "function": {"name": "f", "arguments": ""}}
        size = draw(st.integers(1, 5))
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        rest = [{"index": place, "function": {"arguments": piece}} for piece in pieces]
        queues.append([{"tool_calls": [fragment]} for fragment in (begun, *rest)])
    turns = draw(st.permutations([place for place, queue in enumerate(queues) for _ in queue]))
    return asked, said, [queues[place].pop(0) for place in turns]


@given(drawn=interleaved(), cuts=st.lists(st.integers(0, 3_000), max_size=4))
def test_calls_are_whole_in_whatever_order_chat_tells_them(
    drawn: tuple[dict[str, str], dict[str, str], list[dict[str, Any]]], cuts: list[int]
) -> None:
    asked, said, deltas = drawn
    told = b"".join(chunk([{"index": 0, "delta": each, "finish_reason": None}]) for each in deltas)
    stream = told + ends("tool_calls" if asked else "stop") + chunk([], usage=usage()) + DONE
    content = joined(assert_same(stream, cuts, CHAT))["content"]
    found = {each["id"]: each["input"] for each in content if each["type"] == "tool_use"}
    owner = owner_of(CHAT)
    assert found == {handed(call_id, None, owner): msgspec.json.decode(text or "{}") for call_id, text in asked.items()}
    assert "".join(each["text"] for each in content if each["type"] == "text") == said["content"]
    assert "".join(each["thinking"] for each in content if each["type"] == "thinking") == said["reasoning_content"]


def assert_same(stream: bytes, cuts: list[int], at: Provider) -> bytes:
    """Hold every cut of a stream to the same outcome. Return what goes out."""
    whole = play([stream], at)
    for pieces in (pieces_of(stream, cuts), pieces_of(stream, range(len(stream)))):
        found = play(pieces, at)
        assert (found.out, found.known) == (whole.out, whole.known)
    return whole.out
