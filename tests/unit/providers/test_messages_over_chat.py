"""Messages by way of chat: the request as one of chat, its answer as a message, its stream as events."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.errors import InvalidJson
from gateway.faults import Failed, Fault, FieldError
from gateway.policy.catalogue import Quirks
from gateway.providers.protocol import Answer
from gateway.wire.request import Endpoint, parse
from tests.fakes.reading import events, joined
from tests.unit.providers.asking import CHAT, EDITS, answer, asked, called, message, play, sent
from tests.unit.providers.chatting import chat, says
from tests.unit.providers.streams import DONE, chunk, ends, event, role, usage
from tests.unit.providers.streams import says as piece

TOOL = {"name": "f", "description": "Do it", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}


def turns(*contents: object) -> list[dict[str, object]]:
    """Return turns of both speakers, the user's first."""
    return [{"role": ("user", "assistant")[place % 2], "content": content} for place, content in enumerate(contents)]


def text(said: str) -> dict[str, object]:
    return {"type": "text", "text": said}


class TestTheConversation:
    def test_plain_words(self) -> None:
        assert sent(messages=turns("a", "b", [text("c")]), system="s")["messages"] == [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]

    def test_the_system_speaks_in_its_place(self) -> None:
        said = [*turns("a", "b", "c"), {"role": "system", "content": [text("d"), text("e")]}, {"role": "system"}]
        found = sent(messages=said, system="s")["messages"]
        assert [each["role"] for each in found] == ["system", "user", "assistant", "user", "system"]
        assert found[-1]["content"] == "d\n\ne"

    def test_what_the_system_says_for_one_turn_is_over_with_it(self) -> None:
        passing = {"role": "system", "content": "b", "clear_at": "next_user_message"}
        said = [*turns("a"), passing, *turns("c", "d")[::-1], {**passing, "content": "e"}, {**passing, "content": "f"}]
        assert [each["content"] for each in sent(messages=said)["messages"]] == ["a", "d", "c", "e", "f"]
        kept = [*turns("a"), {**passing, "clear_at": "never"}, *turns("c")]
        assert [each["content"] for each in sent(messages=kept)["messages"]] == ["a", "b", "c"]

    def test_several_texts(self) -> None:
        found = sent(messages=turns([text("a"), text("b")], [text("c"), text("d")], "e"), system=[text("s"), text("t")])[
            "messages"
        ]
        assert [each["content"] for each in found] == ["s\n\nt", [text("a"), text("b")], "cd", "e"]

    def test_marks_of_the_cache_stay_behind(self) -> None:
        marked = {**text("a"), "cache_control": {"type": "ephemeral"}}
        assert sent(messages=turns([marked, marked]))["messages"][0]["content"] == [text("a"), text("a")]

    def test_calls_and_their_results(self) -> None:
        called = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("x"), text("y")], "is_error": True}
        found = sent(messages=turns("a", [called], [text("and?"), result]))["messages"]
        function = {"name": "f", "arguments": '{"a":1}'}
        assert found[1:] == [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "t1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "t1", "content": "Error: x\ny"},
            {"role": "user", "content": "and?"},
        ]

    @pytest.mark.parametrize(
        ("result", "told"),
        [
            ({"content": "no such file", "is_error": True}, "Error: no such file"),
            ({"content": [text("no such"), text("file")], "is_error": True}, "Error: no such\nfile"),
            ({"content": "error: no such file", "is_error": True}, "error: no such file"),
            ({"content": "", "is_error": True}, "Error"),
            ({"is_error": True}, "Error"),
            ({"content": "done", "is_error": False}, "done"),
            ({"content": "done", "is_error": None}, "done"),
            ({}, ""),
        ],
    )
    def test_a_tool_that_failed_says_so(self, result: dict[str, Any], told: str) -> None:
        said = turns("a", [{"type": "tool_use", "id": "t", "name": "f"}], [{"type": "tool_result", "tool_use_id": "t", **result}])
        assert sent(messages=said)["messages"][-1]["content"] == told

    def test_images_that_a_tool_gave_are_shown_by_the_user(self) -> None:
        image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("x"), image]}
        found = sent(messages=turns("a", "b", [result]))["messages"]
        assert found[2:] == [
            {"role": "tool", "tool_call_id": "t1", "content": "x"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
        ]

    def test_documents(self) -> None:
        pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
        plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
        assert sent(messages=turns([pdf, {**pdf, "title": "a.pdf"}, plain]))["messages"][0]["content"] == [
            {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,AA=="}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
            text("words"),
        ]

    def test_thoughts_are_not_said_again(self) -> None:
        thought = {"type": "thinking", "thinking": "Hm", "signature": "s"}
        found = sent(messages=turns("a", [thought, text("b")], "c", [thought], "d"))["messages"]
        assert [each["content"] for each in found] == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("member", ["reasoning_content", "reasoning"])
    def test_thoughts_go_back_to_who_wants_them(self, member: str) -> None:
        thought = {"type": "thinking", "thinking": "Hm", "signature": ""}
        call = {"type": "tool_use", "id": "t", "name": "f"}
        done = {"type": "tool_result", "tool_use_id": "t", "content": "done"}
        said = turns("a", [thought, thought, text("b"), call], [done], [call], [done], [thought, text("c")], "d", [thought], "e")
        at = replace(CHAT, quirks=Quirks(reasoning_back=member))
        found = [each for each in sent(at, messages=said)["messages"] if each["role"] == "assistant"]
        assert [(each["content"], each[member]) for each in found] == [("b", "HmHm"), (None, ""), ("c", "Hm")]
        assert not any(member in each for each in sent(messages=said)["messages"])
        assert called(asked(messages=said)).dropped == ()


class TestTheOtherFields:
    def test_what_is_called_otherwise(self) -> None:
        found = sent(stop_sequences=["END"], metadata={"user_id": "u"}, temperature=0.5, top_p=0.9, top_k=3)
        names = ("stop", "user", "temperature", "top_p", "top_k", "max_tokens")
        assert [found[name] for name in names] == [["END"], "u", 0.5, 0.9, 3, 100]
        assert found.keys() == {"model", "messages", *names}

    def test_the_bound_has_the_providers_name(self) -> None:
        found = sent(replace(CHAT, quirks=Quirks(max_tokens_field="max_completion_tokens")))
        assert ("max_tokens" in found, found["max_completion_tokens"]) == (False, 100)

    def test_a_stream_asks_for_its_usage(self) -> None:
        found = sent(stream=True)
        assert (found["stream"], found["stream_options"]) == (True, {"include_usage": True})

    @pytest.mark.parametrize(
        ("choice", "there"),
        [
            ({"type": "auto"}, "auto"),
            ({"type": "any"}, "required"),
            ({"type": "none"}, "none"),
            ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ],
    )
    def test_tools(self, choice: object, there: object) -> None:
        found = sent(tools=[TOOL], tool_choice=choice)
        function = {"name": "f", "description": "Do it", "parameters": {"type": "object"}}
        assert (found["tools"], found["tool_choice"]) == ([{"type": "function", "function": function}], there)
        assert "parallel_tool_calls" not in found

    @pytest.mark.parametrize(
        ("schema", "strict", "held"),
        [
            ({"type": "object", "properties": {}, "additionalProperties": False}, True, True),
            ({"type": "object", "properties": {}, "additionalProperties": False}, False, False),
            ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, True, None),
        ],
    )
    def test_a_tool_is_strict_where_it_can_be(self, schema: dict[str, Any], strict: bool, held: bool | None) -> None:
        [tool] = sent(tools=[{"name": "f", "input_schema": schema, "strict": strict}])["tools"]
        assert tool["function"].get("strict") is held

    def test_one_call_at_a_time(self) -> None:
        assert sent(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True})["parallel_tool_calls"] is False

    def test_no_choice_without_tools(self) -> None:
        assert "tool_choice" not in sent(tool_choice={"type": "auto"})

    @pytest.mark.parametrize(
        ("schema", "held"),
        [
            ({"type": "object", "properties": {}, "additionalProperties": False}, {"strict": True}),
            ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {}),
            ({"type": "object"}, {}),
        ],
    )
    def test_a_format_is_strict_where_it_can_be(self, schema: dict[str, Any], held: dict[str, bool]) -> None:
        found = sent(output_config={"format": {"type": "json_schema", "schema": schema}})
        assert found["response_format"]["json_schema"] == {"name": "answer", "schema": schema, **held}

    def test_a_user_whose_name_is_too_long_is_told_by_its_hash(self) -> None:
        names = ["u" * 64, "u" * 65, "v" * 65, "v" * 65]
        found = [sent(metadata={"user_id": name})["user"] for name in names]
        assert [len(name) for name in found] == [64] * 4
        assert found[0] == names[0]
        assert (len({*found}), found[2]) == (3, found[3])

    @pytest.mark.parametrize(
        ("fields", "effort", "dropped"),
        [
            ({"thinking": {"type": "enabled", "budget_tokens": 30}}, "low", ()),
            ({"thinking": {"type": "enabled", "budget_tokens": 50}}, "medium", ()),
            ({"thinking": {"type": "enabled", "budget_tokens": 90}}, "high", ()),
            ({"thinking": {"type": "enabled", "budget_tokens": 900}}, "high", ()),
            ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "max", ()),
            ({"output_config": {"effort": "low"}}, "low", ()),
            ({"thinking": {"type": "adaptive"}}, None, ("thinking",)),
            ({"thinking": {"type": "between_tools"}}, None, ("thinking",)),
            ({"thinking": {"type": "disabled"}}, None, ()),
        ],
    )
    def test_how_much_to_think(self, fields: dict[str, Any], effort: str | None, dropped: tuple[str, ...]) -> None:
        call = called(asked(**fields))
        assert msgspec.json.decode(call.body).get("reasoning_effort") == effort
        assert call.dropped == dropped

    def test_what_chat_has_not_is_told(self) -> None:
        call = called(asked(container="c", top_k=1, mcp_servers=[]), replace(CHAT, forward_unknown_fields=False))
        assert call.dropped == ("container", "mcp_servers", "top_k")
        assert msgspec.json.decode(call.body).keys() == {"model", "messages", "max_tokens"}

    def test_what_only_looked_like_json_is_refused(self) -> None:
        body = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a","n":1e999}]}]}'
        with pytest.raises(InvalidJson):
            called(parse(Endpoint.MESSAGES, body))


class TestAWholeAnswer:
    def test_its_words_and_figures(self) -> None:
        told = usage(
            10,
            20,
            prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 1},
            completion_tokens_details={"reasoning_tokens": 5},
            cost=9,
        )
        found = message(chat(says("Hello"), usage=told))
        assert found == {
            "id": "msg_ours",
            "type": "message",
            "role": "assistant",
            "model": "public",
            "content": [text("Hello")],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 5,
                "cache_creation_input_tokens": 1,
                "cache_read_input_tokens": 4,
                "output_tokens": 20,
                "output_tokens_details": {"thinking_tokens": 5},
                "service_tier": "standard",
                "estimated_cost": (10 * 1000 + 20 * 2000) / 1e9,
            },
        }

    @pytest.mark.parametrize(
        ("finish", "reason"),
        [
            ("stop", "end_turn"),
            (None, "end_turn"),
            ("length", "max_tokens"),
            ("tool_calls", "tool_use"),
            ("content_filter", "refusal"),
            ("of_another_day", "end_turn"),
            ("max_tokens", "max_tokens"),
            ("model_length", "max_tokens"),
        ],
    )
    def test_why_it_ended(self, finish: str | None, reason: str) -> None:
        assert message(chat(says("a", finish)))["stop_reason"] == reason

    def test_a_refusal_is_one_whatever_it_ended_with(self) -> None:
        for finish in ("stop", None):
            found = message(chat(says(None, finish, refusal="I cannot")))
            assert (found["content"], found["stop_reason"]) == ([text("I cannot")], "refusal")
        assert message(chat(says(None, "length", refusal="I")))["stop_reason"] == "max_tokens"

    def test_the_sequence_that_ended_it(self) -> None:
        choice = {**says("a"), "stop_reason": "END"}
        found = message(chat(choice), stop_sequences=["END"])
        assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")
        assert message(chat(choice))["stop_reason"] == "end_turn"

    @pytest.mark.parametrize(
        ("arguments", "there"),
        [
            ('{"a":1}', {"a": 1}),
            ("", {}),
            (None, {}),
            ({"a": 1}, {"a": 1}),
            ("[1]", {"arguments": [1]}),
            ("{", {"arguments": "{"}),
        ],
    )
    def test_calls(self, arguments: object, there: object) -> None:
        calls = [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
        found = message(chat(says(None, "stop", tool_calls=calls)))
        assert found["content"] == [{"type": "tool_use", "id": "t1", "name": "f", "input": there}]
        assert found["stop_reason"] == "tool_use"

    def test_thoughts_and_refusals(self) -> None:
        found = message(chat(says(None, refusal="No", reasoning="Hm")))["content"]
        assert found == [{"type": "thinking", "thinking": "Hm", "signature": ""}, text("No")]

    def test_one_without_words_or_figures(self) -> None:
        found = message(chat(says(""), usage=...))
        assert (found["content"], found["usage"]["output_tokens"], "estimated_cost" in found["usage"]) == ([], 0, False)

    def test_what_is_measured_where_nothing_is_told(self) -> None:
        found = answer(chat(says("Hello"), usage=...))
        assert isinstance(found, Answer)
        assert (found.usage, found.output_bytes) == (None, 5)

    def test_a_failure_names_the_clients_fields(self) -> None:
        translation = called(asked()).translation
        assert translation is not None
        told = {
            "stop": "stop_sequences",
            "messages[1].content": "messages",
            "user": "metadata.user_id",
            "seed": "seed",
            None: None,
        }
        for theirs, ours in told.items():
            assert translation.failed(Failed(fault=Fault.REJECTED, param=theirs)).param == ours
        field = FieldError(("body", "messages", 1, "content"), "bad", "value_error")
        [shown] = translation.failed(Failed(fault=Fault.REJECTED, fields=(field,))).fields
        assert shown.loc == ("body", "messages")

    def test_what_is_no_answer_is_none(self) -> None:
        found = answer(b"{}")
        assert isinstance(found, Failed)
        assert found.fault is Fault.BAD_ANSWER


def call(index: int, arguments: str = "", **members: object) -> bytes:
    function = {"arguments": arguments, **({"name": members.pop("name")} if "name" in members else {})}
    return chunk([{"index": 0, "delta": {"tool_calls": [{"index": index, "function": function, **members}]}}])


class TestAStream:
    def test_words(self) -> None:
        found = play([role() + piece("Hel") + piece("lo") + ends() + chunk([], usage=usage()) + DONE])
        told = joined(found.out)
        assert (told["id"], told["model"], told["content"], told["stop_reason"]) == (
            "msg_ours",
            "public",
            [text("Hello")],
            "end_turn",
        )
        assert (told["usage"]["input_tokens"], told["usage"]["output_tokens"]) == (10, 20)
        assert found.failed is None

    def test_it_commits_when_chat_does(self) -> None:
        assert play([role()]).out == b""
        assert [each["type"] for each in events(play([piece("a")]).out)] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
        ]

    def test_thoughts_words_and_calls_follow_each_other(self) -> None:
        stream = (
            chunk([{"index": 0, "delta": {"reasoning_content": "Hm"}}])
            + piece("Look")
            + call(0, id="a", name="f")
            + call(0, '{"x":')
            + call(0, "1}")
            + call(1, '{"y":2}', id="b", name="g")
            + ends("tool_calls")
            + DONE
        )
        told = joined(play([stream]).out)
        assert told["content"] == [
            {"type": "thinking", "thinking": "Hm", "signature": ""},
            text("Look"),
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {"y": 2}},
        ]
        assert told["stop_reason"] == "tool_use"

    def test_a_call_is_told_as_it_comes(self) -> None:
        assert b'"partial_json":"{\\"x\\":"' in play([call(0, '{"x":', id="a", name="f")]).out

    def test_a_call_that_is_whole_makes_room_for_the_next(self) -> None:
        found = play([call(0, "{}", id="a", name="f") + call(1, "{", id="b", name="g")]).out
        assert [each["index"] for each in events(found) if each["type"] == "content_block_start"] == [0, 1]

    def test_calls_that_come_at_once_are_told_one_after_the_other(self) -> None:
        parts = (call(0, '{"x":', id="a", name="f"), call(1, '{"y":', id="b", name="g"), piece("!"), call(0, "1}"), call(1, "2}"))
        told = joined(play([*parts, ends("tool_calls"), DONE]).out)
        assert [each.get("input", each.get("text")) for each in told["content"]] == [{"x": 1}, {"y": 2}, "!"]

    def test_a_name_that_comes_late_is_waited_for(self) -> None:
        told = joined(play([call(0, id="a"), call(0, "{}", name="f"), ends("tool_calls"), DONE]).out)
        assert told["content"] == [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]

    def test_a_call_without_an_id_gets_one(self) -> None:
        told = joined(play([call(0, "{}", name="f"), ends("tool_calls"), DONE]).out)
        assert told["content"][0]["id"] == "toolu_ours_0"

    @pytest.mark.parametrize("late", [False, True])
    def test_an_id_is_sound_and_carries_what_comes_with_its_call(self, late: bool) -> None:
        extra: dict[str, Any] = {"extra_content": {"google": {"thought_signature": "sig"}}}
        named: dict[str, Any] = {"name": "f", **extra}
        first = call(0, id="functions.f:0", **({} if late else named))
        more = call(0, "{}", **(named if late else {}))
        told = joined(play([first + more + call(1, "{}", id="call_2", name="f") + ends("tool_calls") + DONE]).out)
        whole = {"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}, **extra}
        assert told["content"][0] == message(chat(says(None, "tool_calls", tool_calls=[whole])))["content"][0]
        assert told["content"][1]["id"] == "call_2"

    def test_the_sequence_that_ended_it(self) -> None:
        end = chunk([{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}])
        told = joined(play([piece("a"), end, DONE], stop_sequences=["END"]).out)
        assert (told["stop_reason"], told["stop_sequence"]) == ("stop_sequence", "END")

    def test_a_refusal_is_one_whatever_it_ended_with(self) -> None:
        refused = b"".join(chunk([{"index": 0, "delta": {"refusal": each}}]) for each in ("I can", "not"))
        told = joined(play([refused + ends() + DONE]).out)
        assert (told["content"], told["stop_reason"]) == ([text("I cannot")], "refusal")

    def test_an_empty_answer_is_one(self) -> None:
        told = joined(play([role() + ends() + DONE]).out)
        assert (told["content"], told["stop_reason"]) == ([], "end_turn")

    @pytest.mark.parametrize("tail", [b"", event(b'{"error":{"message":"x","code":500}}'), event(b"{")])
    def test_one_that_breaks_has_no_end(self, tail: bytes) -> None:
        found = play([piece("a") + tail])
        assert found.failed is not None
        assert b"message_stop" not in found.out

    def test_a_finished_one_whose_mark_is_missing_is_whole(self) -> None:
        assert joined(play([piece("a") + ends()]).out)["content"] == [text("a")]

    def test_a_lower_tier_stays_known(self) -> None:
        found = play([piece("a", service_tier="flex") + ends() + DONE], edits=EDITS)
        assert found.reader.tier == "flex"
