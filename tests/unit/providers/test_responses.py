"""Responses, passed through: what is sent, what comes back of a whole answer."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.faults import Failed, Fault
from gateway.policy.catalogue import Quirks, Tier
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.providers.protocol import Answer
from gateway.wire.request import Endpoint
from tests.fakes.responses import CALL, HELLO, USAGE, encode, response, text, thought
from tests.unit.providers.responding import AZURE, COST, EDITS, OPENAI, answer, called, sent

NO_USAGES: tuple[object, ...] = (None, {}, 7)


class TestWhatIsSent:
    def test_a_request_goes_as_it_is(self) -> None:
        call = called(temperature=0.5, reasoning={"effort": "low"}, of_another_day=1)
        assert call.path == "/responses"
        assert msgspec.json.decode(call.body) == {
            "model": "up-internal",
            "input": "Say hi",
            "temperature": 0.5,
            "reasoning": {"effort": "low"},
            "of_another_day": 1,
            "store": False,
        }
        assert call.dropped == ()

    def test_what_the_gateway_obeys_stays(self) -> None:
        body = sent(
            models=["public"], fail_fast=True, service_tier="flex", stream=True, stream_options={"include_obfuscation": False}
        )
        assert not {"models", "fail_fast", "service_tier"} & body.keys()
        assert body["stream_options"] == {"include_obfuscation": False}

    def test_the_tier_goes_in_the_providers_word(self) -> None:
        assert sent(replace(OPENAI, tiers={Tier.PRIORITY: "fast"}), tier=Tier.PRIORITY)["service_tier"] == "fast"

    def test_the_bound_has_the_endpoints_name_whatever_chat_wants(self) -> None:
        other = replace(OPENAI, quirks=Quirks(max_tokens_field="max_completion_tokens"))
        for at in (OPENAI, other):
            body = sent(at, max_output_tokens=9)
            assert {name: value for name, value in body.items() if "max" in name} == {"max_output_tokens": 9}

    @pytest.mark.parametrize(("asked", "kept"), [({}, None), ({"store": True}, True), ({"store": False}, False)])
    def test_only_where_it_may_a_provider_keeps_answers(self, asked: Mapping[str, Any], kept: bool | None) -> None:
        assert sent(replace(OPENAI, allow_store=True), **asked).get("store") is kept
        assert sent(**asked)["store"] is False
        assert called(**asked).dropped == (("store",) if asked.get("store") else ())

    def test_unknown_fields_are_dropped_where_a_provider_refuses_them(self) -> None:
        call = called(replace(OPENAI, forward_unknown_fields=False), of_another_day=1, truncation="auto", api_base="x")
        assert msgspec.json.decode(call.body).keys() == {"model", "input", "truncation", "store"}
        assert call.dropped == ("of_another_day", "api_base")

    def test_azure_has_the_model_in_the_body_at_both_endpoints(self) -> None:
        for version, path in ((None, "/responses"), ("2025-04-01-preview", "/responses?api-version=2025-04-01-preview")):
            call = called(replace(AZURE, api_version=version))
            assert (call.path, msgspec.json.decode(call.body)["model"]) == (path, "up-internal")


class TestAnswers:
    def test_a_few_members_are_changed(self) -> None:
        found = answer(encode(response(thought("Hm"), CALL, HELLO)))
        assert isinstance(found, Answer)
        usage = {**USAGE, "estimated_cost": COST}
        assert msgspec.json.decode(found.body) == response(thought("Hm"), CALL, HELLO, model="public", usage=usage)
        assert (found.tier, found.output_bytes) == ("default", 0)
        assert found.usage is not None
        assert (found.usage.input, found.usage.output) == (10, 20)

    def test_the_figures_have_names_of_their_own(self) -> None:
        usage: dict[str, Any] = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
        }
        for outside in (False, True):
            found = answer(encode(response(usage=usage)), replace(EDITS, reasoning_outside=outside, tariff=Tariff()))
            assert isinstance(found, Answer)
            assert found.usage is not None
            assert (found.usage.cached, found.usage.output, found.usage.reasoning) == (4, 20, 5)
            assert msgspec.json.decode(found.body)["usage"] == usage

    def test_an_id_is_given_where_there_is_none(self) -> None:
        found = answer(encode(response(id=None)))
        assert isinstance(found, Answer)
        assert msgspec.json.decode(found.body)["id"] == "resp_ours"

    def test_a_lower_tier_is_echoed(self) -> None:
        echoes = Echoes({"default": Echo(Tier.DEFAULT, 1.0)})
        found = answer(
            encode(response()),
            replace(EDITS, tier="priority", tariff=Tariff(EDITS.tariff.price, Echo(Tier.PRIORITY, 2.0), echoes)),
        )
        assert isinstance(found, Answer)
        shown = msgspec.json.decode(found.body)
        assert (shown["service_tier"], shown["usage"]["estimated_cost"]) == ("default", COST)

    @pytest.mark.parametrize(
        ("item", "length"),
        [
            (HELLO, 5),
            (thought("Hmm"), 3),
            (CALL, len('{"city":"Rome"}')),
            ({"type": "message", "content": "plain"}, 5),
            ({"type": "message", "content": [{"type": "refusal", "refusal": "No\u00e9"}, 7, {"text": None}]}, 4),
            ({"type": "custom_tool_call", "input": "ls"}, 2),
            ({"type": "tool_search_call", "arguments": {"query": "x"}}, 0),
        ],
    )
    def test_without_usage_the_text_is_counted(self, item: dict[str, Any], length: int) -> None:
        for usage in NO_USAGES:
            found = answer(encode(response(item, usage=usage)))
            assert isinstance(found, Answer)
            assert (found.usage, found.output_bytes) == (None, length)

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            (b"", Fault.BAD_ANSWER),
            (b"[]", Fault.BAD_ANSWER),
            (b'{"object":"chat.completion","choices":[]}', Fault.BAD_ANSWER),
            (b'{"output":[],"output":[]}', Fault.BAD_ANSWER),
            (encode(response(status="in_progress")), Fault.BAD_ANSWER),
            (encode(response(status="failed")), Fault.BAD_ANSWER),
            (encode(response(status="failed", error={"code": "server_error", "message": "x"})), Fault.SERVER),
            (encode(response(error={"code": "rate_limit_exceeded", "message": "x"})), Fault.ACCOUNT_RATE),
            (encode(response(error={"code": "invalid_prompt", "message": "x"})), Fault.REJECTED),
            (encode(response(error={"code": "image_too_small", "message": "x"})), Fault.REJECTED),
            (encode(response(error={"code": 7, "message": "x"})), Fault.BAD_ANSWER),
            (encode(response(error="No")), Fault.BAD_ANSWER),
            (encode(response(error={"code": "content_filter", "message": "x"})), Fault.REJECTED),
        ],
    )
    def test_what_is_no_answer(self, body: bytes, fault: Fault) -> None:
        found = answer(body)
        assert isinstance(found, Failed)
        assert found.fault is fault

    def test_an_answer_with_nothing_in_it_is_one(self) -> None:
        assert isinstance(answer(encode({**response(), "output": []})), Answer)
        assert isinstance(answer(encode(response(text(""), status="incomplete"))), Answer)


def test_only_this_endpoint_is_read_so() -> None:
    assert isinstance(answer(encode(response()), replace(EDITS, endpoint=Endpoint.CHAT)), Failed)
