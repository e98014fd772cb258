from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.faults import Failed, Fault, FieldError
from gateway.policy.catalogue import Tier
from gateway.providers.openai import OpenAI
from gateway.providers.over_chat import our_path
from gateway.providers.protocol import Answer
from gateway.wire.request import Endpoint, parse
from gateway.wire.usage import Usage
from tests.unit.providers.chatting import (
    EDITS,
    PROVIDER,
    answer,
    asked,
    called,
    chat,
    provider,
    says,
    scored,
    sent,
    text_of,
    token,
)
from tests.unit.providers.streams import usage


def message(content: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": content}]


class TestCall:
    def test_the_prompt_is_the_one_message_and_all_else_travels_byte_for_byte(self) -> None:
        body = b'{"model": "public", "prompt": "caf\\u00e9 ",  "temperature": 1e0, "x_vendor": {"k":  2.50}}'
        found = called(parse(Endpoint.COMPLETIONS, body))
        assert found.path == "/chat/completions"
        assert found.body == (
            b'{"model": "up-internal",  "temperature": 1e0, "x_vendor": {"k":  2.50},'
            b'"messages":[{"role":"user","content":"caf\\u00e9 "}]}'
        )
        assert (found.further, found.dropped) == ((), ())

    def test_a_provider_that_has_completions_is_asked_as_the_client_asked(self) -> None:
        found = called(asked(), provider(endpoints=frozenset({Endpoint.COMPLETIONS, Endpoint.CHAT})))
        assert (found.path, found.translation, found.further) == ("/completions", None, ())

    @given(st.text(min_size=1))
    def test_any_text_arrives(self, prompt: str) -> None:
        assert sent(asked(prompt))["messages"] == message(prompt)
        assert sent(asked([prompt]))["messages"] == message(prompt)

    def test_each_prompt_is_a_call_of_its_own_and_nothing_else_differs(self) -> None:
        found = called(asked(["one", "two", "one"], n=2, max_tokens=5, tags=["x"]))
        bodies = [msgspec.json.decode(body) for body in (found.body, *found.further)]
        assert [body.pop("messages") for body in bodies] == [message("one"), message("two"), message("one")]
        assert bodies == [{"model": "up-internal", "n": 2, "max_tokens": 5, "tags": ["x"]}] * 3

    @pytest.mark.parametrize("name", ["echo", "suffix", "best_of", "logprobs", "top_logprobs", "data", "models", "fail_fast"])
    def test_what_chat_does_not_know_stays_away(self, name: str) -> None:
        for value in (None, {"echo": False, "suffix": "", "best_of": 1, "data": {}, "models": ["public"]}.get(name)):
            assert sent(asked(**{name: value})) == {"model": "up-internal", "messages": message("Say hi")}

    def test_a_field_of_the_other_route_does_not_get_in_the_way(self) -> None:
        for at in (PROVIDER, provider(forward_unknown_fields=False)):
            assert sent(asked(messages=message("other"), top_logprobs=3), at)["messages"] == message("Say hi")
            assert "top_logprobs" not in sent(asked(top_logprobs=3), at)
            assert sent(asked(top_logprobs=3, logprobs=1), at)["top_logprobs"] == 1

    def test_samplers_of_completions_are_sent_even_where_nothing_unknown_is(self) -> None:
        fields = {"min_p": 0.1, "top_k": 4, "repetition_penalty": 1.1, "stop_token_ids": [5], "logit_bias": {"7": -100}}
        found = called(asked(**fields, x_vendor=1), provider(forward_unknown_fields=False))
        body = msgspec.json.decode(found.body)
        assert {name: body.get(name) for name in fields} == fields
        assert found.dropped == ("x_vendor",)

    @pytest.mark.parametrize(
        ("wanted", "changes", "expected"),
        [
            (0, {}, (True, None)),
            (1, {}, (True, 1)),
            (123, {"logprobs": b"20"}, (True, 20)),
            (5, {"logprobs": b"0"}, (True, None)),
        ],
    )
    def test_logprobs_are_asked_for_in_two_fields(
        self, wanted: int, changes: dict[str, bytes | None], expected: tuple[bool, int | None]
    ) -> None:
        found = sent(replace(asked(logprobs=wanted), changes=changes))
        assert (found["logprobs"], found.get("top_logprobs")) == expected

    def test_images_stand_before_the_prompt(self) -> None:
        url = "data:image/png;base64,iVBORw0KGgo="
        found = sent(asked("What is it?", data={"image": [url]}))
        image, text = {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}
        assert found["messages"] == message([image, text])
        assert "data" not in found

    def test_a_stream_asks_for_usage(self) -> None:
        found = called(asked(stream=True))
        assert msgspec.json.decode(found.body)["stream_options"] == {"include_usage": True}
        assert dict(found.headers)[b"accept"] == b"text/event-stream"

    def test_the_tier_is_the_providers_word(self) -> None:
        assert sent(asked(service_tier="auto"), provider(tiers={Tier.DEFAULT: "standard"}))["service_tier"] == "standard"


class TestAnswer:
    def test_it_is_a_text_completion(self) -> None:
        assert text_of(asked(), chat()) == {
            "id": "cmpl-ours",
            "object": "text_completion",
            "created": 7,
            "system_fingerprint": text_of(asked(), chat())["system_fingerprint"],
            "model": "public",
            "service_tier": "default",
            "choices": [{"text": "Hello", "index": 0, "logprobs": None, "finish_reason": "stop"}],
            "usage": {**usage(), "estimated_cost": 5e-05},
        }

    def test_the_fingerprint_is_the_providers_or_the_deployments(self) -> None:
        first, again = (text_of(asked(), chat(system_fingerprint=given)) for given in (None, ...))
        elsewhere = text_of(asked(), chat(), at=provider(base_url="http://other.example/v1"))
        assert first["system_fingerprint"] == again["system_fingerprint"] != elsewhere["system_fingerprint"]
        assert first["system_fingerprint"].startswith("fp_")
        assert text_of(asked(), chat(system_fingerprint="fp_up"))["system_fingerprint"] == "fp_up"

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (says("a", "length"), ("a", "length")),
            (says("a", "max_tokens"), ("a", "length")),
            (says("a", "content_filter"), ("a", "content_filter")),
            (says("a", "tool_calls", tool_calls=[{"id": "t", "function": {"name": "f", "arguments": "{}"}}]), ("a", "stop")),
            (says("a", "eos_token"), ("a", "stop")),
            (says("a", None), ("a", "stop")),
            (says(None), ("", "stop")),
            (says("42", reasoning_content="Let me think"), ("42", "stop")),
            (says(None, refusal="I cannot."), ("I cannot.", "content_filter")),
            (says(None, "length", refusal="I can"), ("I can", "length")),
            ({"index": 0, "text": "plain", "finish_reason": "stop"}, ("plain", "stop")),
            (says([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, "b"]), ("ab", "stop")),  # type: ignore[arg-type]
        ],
    )
    def test_what_is_said_and_how_it_ends(self, given: dict[str, object], expected: tuple[str, str]) -> None:
        (found,) = text_of(asked(), chat(given))["choices"]
        assert (found["text"], found["finish_reason"]) == expected

    def test_choices_come_by_prompt_and_in_order(self) -> None:
        unordered = chat(says("B", "length", 1), says("A", index=0))
        unnumbered = chat(says("C", index=None), says("D", index=None))
        found = text_of(asked(["one", "two"], n=2, echo=True), unordered, unnumbered)["choices"]
        assert [(each["index"], each["text"], each["finish_reason"]) for each in found] == [
            (0, "oneA", "stop"),
            (1, "oneB", "length"),
            (2, "twoC", "stop"),
            (3, "twoD", "stop"),
        ]

    @given(st.text(min_size=1), st.text())
    def test_an_echo_is_prompt_and_text(self, prompt: str, said: str) -> None:
        assert text_of(asked(prompt, echo=True), chat(says(said)))["choices"][0]["text"] == prompt + said

    def test_each_choice_has_its_own_logprobs_behind_its_own_prompt(self) -> None:
        first = chat(says("A", logprobs=scored(token("A"))), says("Bc", index=1, logprobs=scored(token("B"), token("c"))))
        second = chat(says("D", logprobs=scored(token("D"))), says("E", index=1))
        found = text_of(asked(["one", "three"], n=2, logprobs=0), first, second)["choices"]
        places = [each["logprobs"] and (each["logprobs"]["tokens"], each["logprobs"]["text_offset"]) for each in found]
        assert places == [(["A"], [3]), (["B", "c"], [3, 4]), (["D"], [5]), None]

    def test_offsets_may_count_from_behind_the_prompt(self) -> None:
        body = chat(says("Hi", logprobs=scored(token("H"), token("i"))))
        vllm = provider(quirks={"offset_past_prompt": False})
        assert text_of(asked(logprobs=1), body)["choices"][0]["logprobs"]["text_offset"] == [6, 7]
        assert text_of(asked(logprobs=1), body, at=vllm)["choices"][0]["logprobs"]["text_offset"] == [0, 1]

    def test_logprobs_that_nobody_asked_for_are_left_out(self) -> None:
        assert text_of(asked(), chat(says("A", logprobs=scored(token("A")))))["choices"][0]["logprobs"] is None

    def test_usage_is_summed_as_deep_as_it_goes(self) -> None:
        details = {"prompt_tokens_details": {"cached_tokens": 2}, "cost": 1.5}
        found = answer(asked(["one", "two"]), chat(usage=usage(3, 4, **details)), chat(usage=usage(5, 6, **details)))
        assert isinstance(found, Answer)
        assert found.usage == Usage(input=8, output=10, cached=4)
        assert found.output_bytes == 0
        assert msgspec.json.decode(found.body)["usage"] == {
            **usage(8, 10),
            "prompt_tokens_details": {"cached_tokens": 4},
            "estimated_cost": 2.8e-05,
        }

    @pytest.mark.parametrize("silent", [..., None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
    def test_a_part_without_usage_leaves_that_of_all_unknown(self, silent: Any) -> None:
        found = answer(asked(["one", "two"]), chat(says("four", reasoning_content="more")), chat(usage=silent))
        assert isinstance(found, Answer)
        assert found.usage is None
        assert found.output_bytes == len("four" + "more" + "Hello")

    def test_the_first_parts_tier_is_the_answers(self) -> None:
        found = answer(asked(["one", "two"]), chat(service_tier="default"), chat(service_tier="flex"))
        assert isinstance(found, Answer)
        assert found.tier == "default"
        assert msgspec.json.decode(found.body)["service_tier"] == "default"

    @pytest.mark.parametrize("created", [None, "soon", True, ...])
    def test_a_time_that_the_provider_does_not_tell_is_none(self, created: object) -> None:
        assert text_of(asked(), chat(created=created))["created"] == 0


class TestFailure:
    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            (b"<html>", Fault.BAD_ANSWER),
            (b"{}", Fault.BAD_ANSWER),
            (chat(choices=[]), Fault.BAD_ANSWER),
            (chat(says("half", "abort")), Fault.BAD_ANSWER),
            (b'{"error":{"message":"Model busy, retry later","code":"engine_overloaded"}}', Fault.BUSY),
        ],
    )
    def test_what_is_no_answer_ends_all_the_calls(self, body: bytes, fault: Fault) -> None:
        for bodies in ((body, chat()), (chat(), body)):
            found = answer(asked(["one", "two"]), *bodies)
            assert isinstance(found, Failed)
            assert found.fault is fault

    def test_a_failure_names_the_clients_fields(self) -> None:
        translation = called(asked()).translation
        assert translation is not None
        inside = {"error": {"code": "context_length_exceeded", "param": "messages", "message": "too long"}}
        found = translation.take(msgspec.json.encode(inside), EDITS)
        assert isinstance(found, Failed)
        assert (found.param, found.code) == ("prompt", "context_length_exceeded")
        told = {
            "detail": [{"loc": ["body", "messages", 0, "content"], "msg": "m", "type": "t"}, {"loc": ["body", "n"], "msg": "m"}]
        }
        refused = OpenAI(PROVIDER).failure(422, {}, msgspec.json.encode(told))
        assert translation.failed(refused).fields == (
            FieldError(("body", "prompt"), "m", "t"),
            FieldError(("body", "n"), "m", "value_error"),
        )

    @pytest.mark.parametrize(
        ("path", "ours"),
        [
            ("messages", "prompt"),
            ("messages[0].content", "prompt"),
            ("messages.0", "prompt"),
            ("top_logprobs", "logprobs"),
            ("n", "n"),
            ("x.messages", "x.messages"),
        ],
    )
    def test_paths(self, path: str, ours: str) -> None:
        assert our_path(path) == ours
