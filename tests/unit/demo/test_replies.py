from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo.acts import Act, streamed, whole
from gateway.demo.replies import Question, Reply
from gateway.demo.scripts import Script

CHAT: dict[str, Any] = {"model": "demo-fast", "messages": [{"role": "user", "content": "one two three"}]}
LEGACY: dict[str, Any] = {"model": "demo-fast", "prompt": "one two three"}
SHAPES = pytest.mark.parametrize("shape", [CHAT, LEGACY], ids=["chat", "legacy"])


def ask(script: Script, **members: Any) -> Reply:
    return Reply(msgspec.convert(members, Question), script, provider="north", number=7, created_s=1)


def body(reply: Reply) -> Any:
    return msgspec.json.decode(reply.body())


def events(act: Act) -> list[Any]:
    text = b"".join(piece for _, piece in act.pieces).decode()
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else msgspec.json.decode(line) for line in lines]


def text_of(event: Any, index: int) -> str:
    said = [choice.get("delta", choice) for choice in event["choices"] if choice["index"] == index]
    return "".join(part.get("content", part.get("text", "")) for part in said)


def test_a_chat_answer_names_its_model_and_provider() -> None:
    answer = body(ask(Script(words=4), **CHAT))
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "demo-fast at north: every"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_a_legacy_answer_has_text() -> None:
    answer = body(ask(Script(words=4), **LEGACY))
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == "demo-fast at north: every"


@SHAPES
@pytest.mark.parametrize("bound", ["max_tokens", "max_completion_tokens"])
def test_the_bound_on_tokens_ends_an_answer_early(shape: dict[str, Any], bound: str) -> None:
    answer = body(ask(Script(words=9), **{**shape, bound: 2}))
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("prompt", "choices", "tokens"),
    [("a b", 1, 2), (["a b", "c"], 2, 3), ([5, 6, 7], 1, 3), ([[5, 6], [7]], 2, 3)],
)
def test_every_form_of_prompt_is_counted(prompt: Any, choices: int, tokens: int) -> None:
    answer = body(ask(Script(words=1), model="demo-fast", prompt=prompt, n=2))
    assert len(answer["choices"]) == 2 * choices
    assert answer["usage"] == {"prompt_tokens": tokens, "completion_tokens": 2 * choices, "total_tokens": tokens + 2 * choices}


def test_parts_of_a_message_are_counted_where_they_are_text() -> None:
    parts = [{"type": "text", "text": "one two"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    answer = body(ask(Script(), model="demo-fast", messages=[{"role": "user", "content": parts}, {"role": "assistant"}]))
    assert answer["usage"]["prompt_tokens"] == 2


@SHAPES
@given(words=st.integers(0, 30), n=st.integers(1, 3), bound=st.none() | st.integers(1, 30))
def test_a_stream_says_what_the_whole_answer_says(shape: dict[str, Any], words: int, n: int, bound: int | None) -> None:
    reply = ask(Script(words=words), **shape, n=n, max_tokens=bound, stream=True, stream_options={"include_usage": True})
    *chunks, usage, done = events(streamed(reply, Script(words=words)))
    answer = body(reply)
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"] == answer["usage"]
    assert all(chunk["usage"] is None for chunk in chunks)
    for choice in answer["choices"]:
        said = choice["message"]["content"] if "message" in choice else choice["text"]
        assert "".join(text_of(chunk, choice["index"]) for chunk in chunks) == said
        assert [c["finish_reason"] for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]][-1] == choice[
            "finish_reason"
        ]


def test_usage_is_on_a_stream_only_where_it_was_asked_for() -> None:
    assert all(
        event == "[DONE]" or "usage" not in event for event in events(streamed(ask(Script(), **CHAT, stream=True), Script()))
    )


def test_a_tier_is_echoed() -> None:
    assert body(ask(Script(), **CHAT, service_tier="flex"))["service_tier"] == "flex"
    assert "service_tier" not in body(ask(Script(), **CHAT))


def test_a_stream_keeps_time() -> None:
    script = Script(first_ms=100, word_ms=10, words=3)
    assert [pause_ms for pause_ms, _ in streamed(ask(script, **CHAT), script).pieces] == [0, 100, 10, 10, 0]
    assert [pause_ms for pause_ms, _ in whole(ask(script, **CHAT), script).pieces] == [120]


@SHAPES
def test_a_broken_answer_is_not_whole(shape: dict[str, Any]) -> None:
    script = Script(words=9, break_after=2)
    reply = ask(script, **shape)
    stream, unary = streamed(reply, script), whole(reply, script)
    assert stream.breaks
    assert unary.breaks
    assert "".join(text_of(event, 0) for event in events(stream)) == "demo-fast at"
    assert len(unary.pieces[0][1]) < len(reply.body())
