from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidJson
from gateway.faults import Failed, Fault
from gateway.policy.catalogue import Deployment, Provider, Quirks, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import echoes
from gateway.providers.anthropic import Anthropic
from gateway.providers.anthropic_messages import sound_id
from gateway.providers.protocol import Answer, Call
from gateway.wire.request import Endpoint, InferenceRequest, parse
from gateway.wire.usage import Usage
from tests.unit.providers.messages import DIALECT, EDITS, PROVIDER, message

HI = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def raw_call(body: bytes, of: Provider = PROVIDER, tier: Tier = Tier.DEFAULT, thinking: str = "budget") -> Call:
    deployment = Deployment(id="d", provider=of, upstream_model="up-internal", thinking=thinking)
    return Anthropic(of).call(parse(Endpoint.CHAT, body), deployment, tier, last=True)


def call(*messages: Any, of: Provider = PROVIDER, thinking: str = "budget", **fields: Any) -> Call:
    body = msgspec.json.encode({"model": "public", "messages": messages or [HI], **fields})
    return raw_call(body, of, thinking=thinking)


def sent(*messages: Any, of: Provider = PROVIDER, thinking: str = "budget", **fields: Any) -> dict[str, Any]:
    """Return what is sent, without what is the same in every call."""
    body: dict[str, Any] = msgspec.json.decode(call(*messages, of=of, thinking=thinking, **fields).body)
    usual = {"model": "up-internal", "max_tokens": 8192, "service_tier": "standard_only"}
    usual |= {} if messages else {"messages": body["messages"]}
    return {name: value for name, value in body.items() if usual.get(name) != value}


def turns(*messages: Any) -> list[tuple[str, list[Any]]]:
    return [(turn["role"], turn["content"]) for turn in sent(*messages).get("messages", [])]


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


class TestCall:
    def test_headers_are_ours_alone(self) -> None:
        assert dict(call().headers) == {
            b"content-type": b"application/json",
            b"accept": b"application/json",
            b"user-agent": b"tiergate",
            b"x-api-key": b"sk-upstream",
            b"anthropic-version": b"2023-06-01",
        }
        assert dict(call(stream=True).headers)[b"accept"] == b"text/event-stream"

    def test_a_providers_own_headers_win(self) -> None:
        odd = msgspec.structs.replace(
            PROVIDER, api_key=Secret(""), headers={"Anthropic-Version": "2099-01-01", "anthropic-beta": "b", "Host": "evil"}
        )
        found = dict(call(of=odd).headers)
        assert (found[b"anthropic-version"], found[b"anthropic-beta"]) == (b"2099-01-01", b"b")
        assert not {b"x-api-key", b"host"} & set(found)

    @pytest.mark.parametrize("tier", Tier)
    def test_the_tier_is_the_providers_word_or_absent(self, tier: Tier) -> None:
        body = msgspec.json.decode(raw_call(b'{"model":"m","messages":[{"role":"user"}],"service_tier":"flex"}', tier=tier).body)
        assert body.get("service_tier") == PROVIDER.tiers.get(tier)

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({}, {}),
            ({"max_tokens": 5}, {"max_tokens": 5}),
            ({"max_tokens": 100, "max_completion_tokens": 50}, {"max_tokens": 50}),
            ({"stop": "a"}, {"stop_sequences": ["a"]}),
            ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
            ({"stop": []}, {}),
            ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
            ({"temperature": 0.5, "top_p": 0.9, "top_k": 5}, {"temperature": 0.5, "top_p": 0.9, "top_k": 5}),
            ({"temperature": 1, "top_p": 1.0, "top_k": 0}, {}),
            ({"temperature": None, "top_k": -1}, {}),
            ({"top_k": "many"}, {"top_k": "many"}),
            ({"response_format": {"type": "text"}}, {}),
            (
                {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}},
                {
                    "output_config": {
                        "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
                    }
                },
            ),
            ({"n": 1, "logprobs": False, "presence_penalty": 0, "logit_bias": {}, "functions": [], "modalities": ["text"]}, {}),
        ],
    )
    def test_fields_in_other_words(self, fields: dict[str, Any], expected: dict[str, Any]) -> None:
        assert sent(**fields) == expected
        assert (call(**fields).dropped, call(**fields).lowered) == ((), ())

    def test_a_temperature_beyond_1_is_1(self) -> None:
        found = call(temperature=1.5)
        assert (sent(temperature=1.5), found.dropped, found.lowered) == ({}, (), ("temperature=1",))

    def test_what_messages_has_not_is_dropped_and_told(self) -> None:
        fields: dict[str, Any] = {
            "user": "jo@example.org",
            "seed": 1,
            "metadata": {},
            "store": True,
            "prediction": {},
            "x_vendor": 1,
            "headers": {"a": "b"},
        }
        unsafe: dict[str, Any] = {"bad\r\nname": 1}
        found = call(**fields, logit_bias={}, nothing=None, **unsafe)
        assert found.dropped == tuple(fields)
        assert sent(**fields) == {}

    def test_a_user_who_is_no_address_is_told(self) -> None:
        assert (sent(user="u-1"), call(user="u-1").dropped) == ({"metadata": {"user_id": "u-1"}}, ())

    def test_a_schema_that_is_not_there_is_told_of(self) -> None:
        free = {"type": "json_schema", "json_schema": {"name": "n"}}
        assert (sent(response_format=free), call(response_format=free).dropped) == ({}, ("response_format",))

    def test_what_the_model_could_not_take_is_told_by_whoever_took_it_out(self) -> None:
        request = parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user"}],"ignore_eos":true,"prompt_cache_key":"k"}')
        request = msgspec.structs.replace(request, changes={"ignore_eos": None, "prompt_cache_key": b'"h"'})
        found = DIALECT.call(request, Deployment(id="d", provider=PROVIDER, upstream_model="u"), Tier.DEFAULT, last=True)
        assert found.dropped == ("prompt_cache_key",)

    def test_what_the_gateway_changed_is_sent(self) -> None:
        request = parse(Endpoint.CHAT, b'{"model":"m","messages":[{"role":"user"}],"stop":"a"}')
        asked = b'[{"role":"user","content":"changed"}]'
        changed = msgspec.structs.replace(request, max_tokens=7, changes={"messages": asked})
        found = DIALECT.call(changed, Deployment(id="d", provider=PROVIDER, upstream_model="u"), Tier.DEFAULT, last=True)
        body = msgspec.json.decode(found.body)
        assert (body["max_tokens"], body["messages"][0]["content"]) == (7, [said("changed")])

    def test_a_number_beyond_bounds_is_the_clients_fault(self) -> None:
        with pytest.raises(InvalidJson):
            raw_call(b'{"model":"m","messages":[{"role":"user","content":[1e999]}]}')

    def test_a_depth_beyond_bounds_is_the_clients_fault(self) -> None:
        body = b'{"model":"m","messages":[{"role":"user","content":%b%b}]}' % (b"[" * 900, b"]" * 900)
        request = parse(Endpoint.CHAT, body)
        with pytest.raises(InvalidJson):
            deeper(request, 150)


def deeper(request: InferenceRequest, frames: int) -> Call:
    """Make the call from further down the stack, where less depth is left than the first look had."""
    if frames:
        return deeper(request, frames - 1)
    return DIALECT.call(request, Deployment(id="d", provider=PROVIDER, upstream_model="u"), Tier.DEFAULT, last=True)


class TestMessages:
    def test_system_and_developer_stand_in_front(self) -> None:
        found = sent(
            {"role": "system", "content": "A"},
            HI,
            {"role": "developer", "content": [said("B"), {**said("C"), "cache_control": {"type": "ephemeral"}}]},
        )
        assert found["system"] == [said("A"), said("B"), {**said("C"), "cache_control": {"type": "ephemeral"}}]
        assert found["messages"] == [{"role": "user", "content": [said("Hi")]}]

    def test_turns_of_one_speaker_are_one(self) -> None:
        assert turns(HI, {"role": "user", "content": [said("you")]}, {"role": "assistant", "content": "Yes"}, HI) == [
            ("user", [said("Hi"), said("you")]),
            ("assistant", [said("Yes")]),
            ("user", [said("Hi")]),
        ]

    @pytest.mark.parametrize("nothing", ["", None, [], [said("")], " \n", [said(" "), said("\u00a0")], ...])
    def test_who_says_nothing_has_no_turn(self, nothing: object) -> None:
        empty = {"role": "assistant"} if nothing is ... else {"role": "assistant", "content": nothing}
        assert turns(HI, empty, HI) == [("user", [said("Hi"), said("Hi")])]

    def test_texts_without_a_word_are_left_out(self) -> None:
        assert turns({"role": "user", "content": [said(" \n"), said(" x ")]}) == [("user", [said(" x ")])]
        assert "system" not in sent({"role": "system", "content": " "}, HI)

    def test_what_only_the_system_says_is_said_by_the_user(self) -> None:
        found = sent({"role": "system", "content": "A"}, {"role": "developer", "content": "B"})
        assert found == {"messages": [{"role": "user", "content": [said("A"), said("B")]}]}

    @pytest.mark.parametrize("begun", ["So \n", [said("So"), said(" \n")], [said("So ")]])
    def test_an_answer_that_is_begun_ends_in_a_word(self, begun: object) -> None:
        assert turns(HI, {"role": "assistant", "content": begun})[1] == ("assistant", [said("So")])
        assert turns(HI, {"role": "assistant", "content": "So "}, HI)[1] == ("assistant", [said("So ")])

    def test_calls_and_results(self) -> None:
        calls = [{"id": each, "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}} for each in ("c1", "c2")]
        found = turns(
            HI,
            {"role": "assistant", "content": "Let me see", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [said("two")]},
            HI,
        )
        used = [{"type": "tool_use", "id": each, "name": "f", "input": {"a": 1}} for each in ("c1", "c2")]
        assert found[1:] == [
            ("assistant", [said("Let me see"), *used]),
            (
                "user",
                [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [said("one")]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [said("two")]},
                    said("Hi"),
                ],
            ),
        ]

    def test_results_stand_in_front_of_what_was_said_between_them(self) -> None:
        calls = [{"id": each, "type": "function", "function": {"name": "f", "arguments": ""}} for each in ("c1", "c2")]
        results = [{"role": "tool", "tool_call_id": each, "content": each} for each in ("c1", "c2")]
        found = turns(
            HI, {"role": "assistant", "tool_calls": calls}, results[0], HI, results[1], {"role": "user", "content": "x"}
        )
        assert [block.get("tool_use_id") or block["text"] for block in found[2][1]] == ["c1", "c2", "Hi", "x"]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ("", {}),
            (None, {}),
            ("{}", {}),
            ('{"a":1.50}', {"a": 1.5}),
            ({"a": 1}, {"a": 1}),
            ('{"a":', {"arguments": '{"a":'}),
            ("[1]", {"arguments": [1]}),
            ("null", {}),
        ],
    )
    def test_arguments_are_an_object(self, arguments: object, expected: object) -> None:
        asked = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}]}
        assert turns(HI, asked)[1][1][0]["input"] == expected

    def test_calls_of_other_providers_have_sound_ids(self) -> None:
        for odd in ("functions.f:0", "x" * 65, "é", ""):
            asked = {"role": "assistant", "tool_calls": [{"id": odd, "function": {"name": "f", "arguments": "{}"}}]}
            found = turns(HI, asked, {"role": "tool", "tool_call_id": odd, "content": "x"})
            assert found[1][1][0]["id"] == found[2][1][0]["tool_use_id"] == sound_id(odd)
        assert len({sound_id(odd) for odd in ("a.b", "a:b", "a_b")}) == 3

    @given(st.text(max_size=70))
    def test_any_id_is_sound_and_none_is_touched_that_is(self, found: str) -> None:
        sound = sound_id(found)
        assert isinstance(sound, str)
        assert sound_id(sound) == sound
        assert 0 < len(sound) <= 64
        assert sound.isascii()

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
            {"type": "file", "file": {"file_id": "f"}},
            {"no": "type"},
            "words",
            5,
        ],
    )
    def test_what_has_no_counterpart_is_for_the_provider_to_judge(self, part: object) -> None:
        assert turns({"role": "user", "content": [part]}) == [("user", [part])]

    def test_a_role_that_is_not_known_is_for_the_provider_to_judge(self) -> None:
        assert turns(HI, {"role": "function", "name": "f", "content": "x"})[1] == ("function", [said("x")])

    @given(
        st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["system", "user", "assistant", "tool", "function"])},
                optional={
                    name: st.recursive(
                        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                        lambda inner: (
                            st.lists(inner, max_size=3)
                            | st.dictionaries(
                                st.sampled_from(
                                    ["type", "text", "image_url", "url", "file", "file_data", "function", "id", "name"]
                                )
                                | st.sampled_from(["arguments", "cache_control"]),
                                inner | st.sampled_from(["text", "image_url", "file", "refusal", "function", "data:,", "{"]),
                                max_size=4,
                            )
                        ),
                        max_leaves=8,
                    )
                    for name in ("content", "tool_calls", "tool_call_id", "refusal")
                },
            ),
            min_size=1,
            max_size=4,
        )
    )
    def test_no_conversation_breaks_a_call(self, messages: list[Any]) -> None:
        body = msgspec.json.decode(call(*messages).body)
        roles = [turn["role"] for turn in body["messages"]]
        assert all(one != other for one, other in pairwise(roles))
        assert all(turn["content"] for turn in body["messages"])


class TestTools:
    def test_functions_and_what_is_none(self) -> None:
        own = {"type": "bash_20250124", "name": "bash"}
        full = {"name": "f", "description": "d", "parameters": {"properties": {}}, "strict": True}
        found = sent(tools=[TOOL, own, {"type": "function", "function": full, "cache_control": {"type": "ephemeral"}}])
        assert found["tools"] == [
            {"name": "f", "input_schema": {"type": "object"}},
            own,
            {
                "name": "f",
                "description": "d",
                "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
                "strict": True,
                "cache_control": {"type": "ephemeral"},
            },
        ]

    def test_who_is_not_strict_is_as_written(self) -> None:
        for strict in (False, None):
            offered = {"type": "function", "function": {"name": "f", "strict": strict}}
            assert sent(tools=[offered])["tools"] == [{"name": "f", "input_schema": {"type": "object"}}]

    @pytest.mark.parametrize(
        ("choice", "parallel", "expected"),
        [
            (None, None, None),
            ("auto", None, {"type": "auto"}),
            ("none", None, {"type": "none"}),
            ("required", None, {"type": "any"}),
            ({"type": "function", "function": {"name": "f"}}, None, {"type": "tool", "name": "f"}),
            (None, True, None),
            (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
            ("none", False, {"type": "none"}),
            ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
            ({"type": "allowed_tools", "allowed_tools": {}}, None, {"type": "allowed_tools", "allowed_tools": {}}),
            ("odd", None, {"type": "odd"}),
        ],
    )
    def test_choices(self, choice: object, parallel: bool | None, expected: object) -> None:
        assert sent(tools=[TOOL], tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == expected

    def test_without_tools_there_is_no_choice(self) -> None:
        assert sent(tools=[], tool_choice="auto", parallel_tool_calls=False) == {}


class TestThinking:
    @pytest.mark.parametrize(
        ("effort", "bound", "budget"),
        [
            ("minimal", 20_000, 2_000),
            ("low", 8_192, 1_638),
            ("medium", 1_500, 1_024),
            ("xhigh", 10_000, 9_500),
            ("max", 1_025, 1_024),
        ],
    )
    def test_an_effort_is_a_share_of_the_bound(self, effort: str, bound: int, budget: int) -> None:
        found = call(reasoning_effort=effort, max_tokens=bound, temperature=0.5, top_k=3, top_p=1)
        body = msgspec.json.decode(found.body)
        assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
        assert not {"temperature", "top_p", "top_k"} & set(body)
        assert found.dropped == ("temperature", "top_k")

    RESULT = ({"role": "assistant", "tool_calls": []}, {"role": "tool", "tool_call_id": "c", "content": "x"})

    @pytest.mark.parametrize(
        ("messages", "fields"),
        [
            ((), {"max_tokens": 1_024}),
            ((), {"tools": [TOOL], "tool_choice": "required"}),
            ((), {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
            (RESULT, {}),
            ((HI, {"role": "assistant", "content": "So"}), {}),
        ],
    )
    def test_where_messages_would_refuse_to_think_it_is_not_asked_to(self, messages: tuple[Any, ...], fields: Any) -> None:
        found = call(*messages, reasoning_effort="high", temperature=0.5, **fields)
        assert found.dropped == ("reasoning_effort",)
        assert b"thinking" not in found.body
        assert b'"temperature":0.5' in found.body

    def test_no_effort_is_nothing_to_tell_of(self) -> None:
        assert (call(reasoning_effort="none").dropped, sent(reasoning_effort="none")) == ((), {})

    def test_a_new_turn_after_tools_may_think(self) -> None:
        assert "thinking" in sent(HI, *self.RESULT, {"role": "assistant", "content": "So."}, HI, reasoning_effort="low")

    def test_models_that_choose_their_own_budget(self) -> None:
        adaptive = msgspec.structs.replace(PROVIDER, quirks=Quirks(adaptive_thinking=True))
        found = sent(*self.RESULT, of=adaptive, reasoning_effort="high", max_tokens=100)
        assert found["thinking"] == {"type": "adaptive", "display": "summarized"}
        assert found["output_config"] == {"effort": "high"}
        assert sent(of=adaptive, reasoning_effort="minimal")["output_config"] == {"effort": "low"}
        assert sent(of=adaptive) == {}

    @pytest.mark.parametrize("thinking", ["adaptive", "always"])
    def test_a_deployment_says_how_it_thinks(self, thinking: str) -> None:
        found = sent(thinking=thinking, reasoning_effort="high")
        assert found == {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}

    def test_who_chooses_alone_is_told_not_to_think(self) -> None:
        assert sent(thinking="adaptive", reasoning_effort="none", temperature=0) == {
            "thinking": {"type": "disabled"},
            "temperature": 0,
        }
        assert sent(thinking="adaptive") == {}

    def test_the_quirk_of_a_provider_wins(self) -> None:
        adaptive = msgspec.structs.replace(PROVIDER, quirks=Quirks(adaptive_thinking=True))
        assert sent(of=adaptive, thinking="budget", reasoning_effort="high")["thinking"]["type"] == "adaptive"


class TestAnswer:
    def test_what_was_used_is_charged(self) -> None:
        price = Price(input=1000, output=2000, cached_input=100, cache_write=1250)
        priced = msgspec.structs.replace(EDITS, tariff=Tariff(price))
        found = DIALECT.answer(message(cache_creation_input_tokens=5, cache_read_input_tokens=85), priced)
        assert isinstance(found, Answer)
        assert found.usage == Usage(input=100, output=20, cached=85, cache_write=5)
        cost = (10 * 1000 + 85 * 100 + 5 * 1250 + 20 * 2000) / 1e9
        assert msgspec.json.decode(found.body)["usage"]["estimated_cost"] == cost

    def test_what_is_cached_for_an_hour_costs_more(self) -> None:
        price = Price(input=1000, output=2000, cached_input=100, cache_write=1250, cache_write_1h=2000)
        priced = msgspec.structs.replace(EDITS, tariff=Tariff(price))
        kept = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}
        found = DIALECT.answer(message(cache_creation_input_tokens=50, cache_creation=kept), priced)
        assert isinstance(found, Answer)
        assert found.usage == Usage(input=60, output=20, cache_write=50, cache_write_1h=30)
        cost = (10 * 1000 + 20 * 1250 + 30 * 2000 + 20 * 2000) / 1e9
        assert msgspec.json.decode(found.body)["usage"]["estimated_cost"] == cost
        kept = {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 0}
        found = DIALECT.answer(message(cache_creation_input_tokens=50, cache_creation=kept), priced)
        assert isinstance(found, Answer)
        assert b"cache_write_1h_tokens" not in found.body

    @pytest.mark.parametrize(
        ("tier", "word", "shown"),
        [
            (Tier.PRIORITY, "priority", "priority"),
            (Tier.PRIORITY, "standard", "default"),
            (Tier.PRIORITY, None, "priority"),
            (Tier.DEFAULT, "priority", "default"),
            (Tier.DEFAULT, "standard", "default"),
            (Tier.FLEX, "standard", "flex"),
        ],
    )
    def test_a_lower_tier_is_read_back(self, tier: Tier, word: str | None, shown: str) -> None:
        asked = msgspec.structs.replace(EDITS, tier=str(tier), tariff=Tariff(echoes=echoes(tier, PROVIDER, {})))
        found = DIALECT.answer(message({"type": "text", "text": "x"}, service_tier=word), asked)
        assert isinstance(found, Answer)
        assert msgspec.json.decode(found.body)["service_tier"] == shown

    @pytest.mark.parametrize(
        ("reason", "finish"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("tool_use", "tool_calls"),
            ("refusal", "content_filter"),
            ("of_another_day", "stop"),
        ],
    )
    def test_reasons(self, reason: str, finish: str) -> None:
        found = DIALECT.answer(message(stop_reason=reason), EDITS)
        assert isinstance(found, Answer)
        assert msgspec.json.decode(found.body)["choices"][0]["finish_reason"] == finish

    @pytest.mark.parametrize(
        "usage",
        [
            None,
            {},
            {"output_tokens": 5},
            {"input_tokens": 0, "output_tokens": 5},
            {"output_tokens": "5"},
            {"input_tokens": -1, "output_tokens": True},
        ],
    )
    def test_usage_that_tells_nothing_is_none(self, usage: Any) -> None:
        body = msgspec.json.encode({"id": 5, "content": [{"type": "text", "text": "Hello"}], "usage": usage})
        found = DIALECT.answer(body, EDITS)
        assert isinstance(found, Answer)
        assert (found.usage, found.output_bytes) == (None, 5)
        assert msgspec.json.decode(found.body)["id"] == "chatcmpl-ours"

    def test_what_is_null_says_nothing(self) -> None:
        call = {"type": "tool_use", "id": "t", "name": "f", "input": None}
        found = DIALECT.answer(message({"type": "text", "text": None}, {"type": "thinking"}, call), EDITS)
        assert isinstance(found, Answer)
        said = msgspec.json.decode(found.body)["choices"][0]["message"]
        assert (said["content"], said["tool_calls"][0]["function"]["arguments"]) == (None, "{}")
        assert "reasoning_content" not in said

    def test_an_id_of_openais_kind_is_kept(self) -> None:
        found = DIALECT.answer(message().replace(b"msg_1", b"chatcmpl-up"), EDITS)
        assert isinstance(found, Answer)
        assert msgspec.json.decode(found.body)["id"] == "chatcmpl-up"

    @pytest.mark.parametrize("body", [b"", b"<html>", b"null", b"[]", b"{}", b'{"content":"x"}', b'{"content":[5]}', b"[" * 5000])
    def test_what_is_no_message_is_no_answer(self, body: bytes) -> None:
        found = DIALECT.answer(body, EDITS)
        assert isinstance(found, Failed)
        assert found.fault is Fault.BAD_ANSWER
        assert DIALECT.not_a_stream(body).fault is Fault.BAD_ANSWER
