"""Conversations in which others had a part, on their way to a provider that speaks Messages."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.providers.call_ids import handed
from gateway.wire.request import Endpoint, parse
from tests.fakes.anthropic import text
from tests.unit.providers.asking import CLAUDE, asked, called, sent

THINKING = {"type": "enabled", "budget_tokens": 2_000}
OTHERS = {"type": "thinking", "thinking": "Hm", "signature": ""}
SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "x"}


def call(call_id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {"id": "a b"}}


def result(call_id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "done"}


def turns(*contents: object) -> list[dict[str, Any]]:
    """Return turns of both speakers, the user's first."""
    return [{"role": ("user", "assistant")[place % 2], "content": content} for place, content in enumerate(contents)]


def ids(said: list[dict[str, Any]]) -> list[str]:
    """Return what calls and their results are called, in order."""
    blocks = [block for turn in said if isinstance(turn["content"], list) for block in turn["content"]]
    return [block.get("id") or block["tool_use_id"] for block in blocks if block["type"] in ("tool_use", "tool_result")]


class TestIds:
    @pytest.mark.parametrize(
        "call_id",
        [
            "functions.f:0",
            "call 1",
            "x" * 65,
            handed("functions.f:0", None, "0123abcd"),
            handed("c", {"a": "b" * 99}, "0123abcd"),
        ],
    )
    def test_one_that_would_be_refused_becomes_sound_for_both(self, call_id: str) -> None:
        said = sent(CLAUDE, messages=turns("a", [call(call_id), call("other")], [result(call_id), result("other")]))["messages"]
        [first, second, third, fourth] = ids(said)
        assert (first, second) == (third, fourth)
        assert second == "other"
        assert len(first) <= 64
        assert first.replace("_", "").replace("-", "").isalnum()
        assert said[1]["content"][0] == {**call(first)}

    def test_what_an_id_carried_for_another_does_not_make_it_another_call(self) -> None:
        said = turns("a", [call(handed("call_1", {"a": 1}, "0123abcd"))], [result("call_1")])
        assert ids(sent(CLAUDE, messages=said)["messages"]) == ["call_1", "call_1"]

    def test_sound_ones_keep_their_bytes(self) -> None:
        blocks = b'{"type":"tool_use", "id":"t","name":"f","input":{"n":1.50}}', b'{"type":"tool_result","tool_use_id" : "t"}'
        said = b'[{"role":"user","content":"a"}, {"role":"assistant","content":[%b]},{"role":"user","content":[%b]}]' % blocks
        request = parse(Endpoint.MESSAGES, b'{"model":"public","max_tokens":9,"messages":%b}' % said)
        assert said in called(request, CLAUDE).body

    def test_ids_of_anything_else_are_left_alone(self) -> None:
        said = turns("a", [{"type": "server_tool_use", "id": "a b", "name": "web_search", "input": {"id": "a b"}}], "c")
        assert sent(CLAUDE, messages=said)["messages"] == said


class TestThinking:
    @pytest.mark.parametrize(
        "said",
        [
            turns("a", [OTHERS, call()], [result()]),
            turns("a", [call()], [result()]),
            turns("a", [text("b"), call()], [result(), text("c")]),
            turns("a", [SIGNED, text("b")], "c", [OTHERS, call()], [result()]),
            turns("a", [OTHERS, call()], [result()], [call("toolu_2")], [result("toolu_2")]),
            [*turns("a", [OTHERS, call()], [result()]), {"role": "system", "content": "b"}],
        ],
    )
    def test_a_turn_that_was_begun_without_a_thought_goes_on_without(self, said: list[dict[str, Any]]) -> None:
        found = called(asked(messages=said, thinking=THINKING, max_tokens=4_000), CLAUDE)
        assert "thinking" not in msgspec.json.decode(found.body)
        assert found.dropped == ("thinking",)

    @pytest.mark.parametrize(
        "said",
        [
            turns("a"),
            turns("a", [OTHERS, text("b")], "c"),
            turns("a", [OTHERS, call()], [result()], "b", "c"),
            turns("a", [SIGNED, call()], [result()]),
            turns("a", [REDACTED, call()], [result()]),
            turns("a", [SIGNED, call()], [result()], [call("toolu_2")], [result("toolu_2")]),
            turns("a", "b"),
            turns([result()]),
        ],
    )
    def test_any_other_thinks(self, said: list[dict[str, Any]]) -> None:
        found = called(asked(messages=said, thinking=THINKING, max_tokens=4_000), CLAUDE)
        assert msgspec.json.decode(found.body)["thinking"] == THINKING
        assert found.dropped == ()

    @pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "between_tools"}, {"type": "disabled"}])
    def test_thinking_without_a_budget_stays(self, thinking: dict[str, str]) -> None:
        assert sent(CLAUDE, messages=turns("a", [OTHERS, call()], [result()]), thinking=thinking)["thinking"] == thinking

    @pytest.mark.parametrize(("kind", "stays"), [("clear_thinking_20251015", False), ("clear_tool_uses_20250919", True)])
    def test_nothing_is_to_clear_thoughts_that_there_are_not(self, kind: str, stays: bool) -> None:
        said, clearing = turns("a", [call()], [result()]), {"edits": [{"type": kind}]}
        request = replace(asked(messages=said, thinking=THINKING, context_management=clearing), betas=("context-management-1",))
        found = called(request, replace(CLAUDE, betas=("*",)))
        assert ("context_management" in msgspec.json.decode(found.body)) is stays
        assert found.dropped == (("thinking",) if stays else ("thinking", "context_management"))
