from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.talk import beyond_messages, has_blank, has_custom_tool, is_blank, is_openais_choice

HI = {"role": "user", "content": "Hi"}
YES = {"role": "assistant", "content": "Yes"}
BE = {"role": "system", "content": "Be kind"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

SILENCES: tuple[dict[str, Any], ...] = (
    {},
    {"content": None},
    {"content": ""},
    {"content": " \n\t"},
    {"content": "\u00a0"},
    {"content": []},
    {"content": [{"type": "text", "text": " "}, {"type": "text", "text": ""}]},
)


def beyond(*messages: dict[str, Any]) -> str | None:
    return beyond_messages(msgspec.json.encode(messages))


@pytest.mark.parametrize(
    ("message", "within"),
    [
        ({"role": "function", "name": "f", "content": "1"}, "role"),
        ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"),
        ({"role": "assistant", "content": None, "audio": {"id": "a"}}, "audio"),
        ({"role": "assistant", "tool_calls": [CALL, {"id": "d", "type": "custom", "custom": {}}]}, "tool_calls.1"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "input_audio", "input_audio": {}}]}, "content.1"),
        ({"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}, "content.0"),
    ],
)
def test_what_only_openai_has_is_found_by_its_path(message: dict[str, Any], within: str) -> None:
    assert beyond(HI, message, HI) == f"messages.1.{within}"


@pytest.mark.parametrize(
    "messages",
    [
        (HI,),
        (BE,),
        (BE, HI, YES),
        (YES, HI),
        (HI, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c", "content": ""}),
        ({"role": "user", "content": '"input_audio" "file_id" "custom"'},),
        ({"role": "user", "content": [{"type": "file", "file": {"file_id": "f", "file_data": "data:,"}}]},),
        (HI, {"role": "assistant", "refusal": "No"}, HI),
        ({"role": "user", "content": [5, "words"]},),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b"}}]},),
        ({"role": "user", "content": " \u00e9"},),
        ({"role": "odd", "content": 5},),
    ],
)
def test_anything_else_can_be_said(messages: tuple[dict[str, Any], ...]) -> None:
    assert beyond(*messages) is None


@pytest.mark.parametrize("silence", SILENCES)
class TestSilence:
    def test_of_the_last_user_has_no_words(self, silence: dict[str, Any]) -> None:
        mute = {"role": "user", **silence}
        assert beyond(mute) == "messages.0.content"
        assert beyond(BE, HI, YES, mute) == "messages.3.content"
        assert beyond(HI, mute, BE) == "messages.1.content"

    def test_of_the_first_has_none_where_another_would_begin(self, silence: dict[str, Any]) -> None:
        mute = {"role": "user", **silence}
        assert beyond(BE, mute, YES, HI) == "messages.1.content"
        assert beyond(mute, HI, YES, HI) is None

    def test_in_between_is_left_out(self, silence: dict[str, Any]) -> None:
        assert beyond(HI, YES, {"role": "user", **silence}, HI) is None
        assert beyond(HI, {"role": "assistant", **silence}) is None
        assert beyond({"role": "assistant", **silence}, HI) is None

    def test_of_all_has_none(self, silence: dict[str, Any]) -> None:
        assert beyond({"role": "system", **silence}) == "messages.0.content"
        assert beyond({"role": "assistant", **silence}) == "messages.0.content"


def test_what_only_looked_like_json_is_for_whoever_reads_it() -> None:
    assert beyond_messages(b'[{"role":"user","content":"\\ud800"}]') is None
    assert beyond_messages(b'[{"role":"user","content":' + b"[" * 5000 + b"]" * 5000 + b"}]") is None
    assert beyond_messages(b"") is None
    assert not has_custom_tool(b'["custom"')
    assert not is_openais_choice(b'{"type":5}')


@given(st.text(max_size=4))
def test_blank_is_what_python_strips(text: str) -> None:
    assert is_blank(text) is (not text.strip())
    assert has_blank(msgspec.json.encode(["x", text])) is is_blank(text)
    assert (beyond({"role": "user", "content": text}) is None) is not is_blank(text)


def test_blank_prompts() -> None:
    assert has_blank(b'" "')
    assert not any(map(has_blank, (b'"x"', b"[1,2]", b"[[1]]", b"", b'["a","b"]')))
