import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.faults import Failed, Fault
from gateway.policy.catalogue import Deployment, Provider, Quirks, Secret, Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.providers import DIALECTS
from gateway.providers.openai import OpenAI
from gateway.providers.protocol import Answer, Call
from gateway.wire.request import Endpoint, parse
from gateway.wire.usage import Usage
from tests.unit.providers.streams import EDITS, edits, usage

TIERS = {Tier.DEFAULT: "on_demand", Tier.PRIORITY: "performance"}
PLAIN = Provider(
    name="p",
    dialect="openai",
    base_url="http://up.example/v1",
    api_key=Secret("sk-upstream"),
    tiers=TIERS,
    endpoints=frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS}),
)
CHAT = {"model": "public", "messages": [{"role": "user", "content": "Say hi"}]}


def call(provider: Provider = PLAIN, fields: dict[str, object] | None = None, **more: object) -> Call:
    """Call with these fields of the client's; `tier` and `last` are the gateway's."""
    tier, last = more.pop("tier", Tier.DEFAULT), more.pop("last", True)
    assert isinstance(tier, Tier)
    return raw_call(msgspec.json.encode(CHAT | (fields or {}) | more), provider, tier, last=bool(last))


def raw_call(
    body: bytes, provider: Provider = PLAIN, tier: Tier = Tier.DEFAULT, last: bool = True, endpoint: Endpoint = Endpoint.CHAT
) -> Call:
    deployment = Deployment(id="d", provider=provider, upstream_model="up-internal")
    return OpenAI(provider).call(parse(endpoint, body), deployment, tier, last=last)


def sent(provider: Provider = PLAIN, fields: dict[str, object] | None = None, **more: object) -> dict[str, object]:
    body: dict[str, object] = msgspec.json.decode(call(provider, fields, **more).body)
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


def provider(**changed: object) -> Provider:
    return msgspec.structs.replace(PLAIN, **changed)


class TestCall:
    def test_the_clients_bytes_travel_but_for_what_is_edited(self) -> None:
        rest = b'"messages": [{"role":"user","content":"\\u00e9"}], "x_vendor": {"k":  2.50}, "temperature": 1e0'
        assert raw_call(b'{"model": "public",  ' + rest + b"}").body == (
            b'{"model": "up-internal",  ' + rest + b',"service_tier":"on_demand"}'
        )

    def test_the_path_is_the_endpoints_below_the_base_url(self) -> None:
        assert call().path == "/chat/completions"
        assert raw_call(b'{"model":"m","prompt":"x"}', endpoint=Endpoint.COMPLETIONS).path == "/completions"

    def test_headers_are_ours_alone(self) -> None:
        assert dict(call().headers) == {
            b"content-type": b"application/json",
            b"accept": b"application/json",
            b"user-agent": b"tiergate",
            b"authorization": b"Bearer sk-upstream",
        }
        assert dict(call(stream=True).headers)[b"accept"] == b"text/event-stream"

    def test_a_providers_own_headers_win_where_they_may(self) -> None:
        odd = provider(
            headers={"X-Team": "a", "User-Agent": "b", "Host": "evil.example", "Content-Length": "5"}, api_key=Secret("")
        )
        found = dict(call(odd).headers)
        assert (found[b"x-team"], found[b"user-agent"]) == (b"a", b"b")
        assert not {b"host", b"content-length", b"authorization"} & set(found)

    def test_what_the_gateway_obeys_is_not_sent(self) -> None:
        assert sent(fail_fast=True, models=["public"], service_tier="auto", stream_options={}) == {"service_tier": "on_demand"}

    def test_the_tier_is_the_providers_word_or_absent(self) -> None:
        assert sent(tier=Tier.PRIORITY, service_tier="fast")["service_tier"] == "performance"
        assert sent(tier=Tier.FLEX, service_tier="flex") == {}

    def test_a_model_is_added_where_the_client_named_none(self) -> None:
        found = raw_call(b'{"models":["a"],"model":{"a":1},"prompt":"x"}', endpoint=Endpoint.COMPLETIONS)
        assert msgspec.json.decode(found.body) == {"model": "up-internal", "prompt": "x", "service_tier": "on_demand"}
        found = raw_call(b'{"models":["a"],"prompt":"x"}', endpoint=Endpoint.COMPLETIONS)
        assert msgspec.json.decode(found.body)["model"] == "up-internal"

    @pytest.mark.parametrize(
        ("understood", "last", "asked", "expected"),
        [(True, False, False, True), (True, True, False, None), (True, True, True, True), (False, False, True, None)],
    )
    def test_fail_fast_goes_where_it_is_understood(
        self, understood: bool, last: bool, asked: bool, expected: bool | None
    ) -> None:
        quick = provider(quirks=Quirks(fail_fast=understood))
        assert sent(quick, last=last, fail_fast=asked).get("fail_fast") is expected

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (b"", b'"stream_options":{"include_usage":true}'),
            (b',"stream_options":null', b'"stream_options":{"include_usage":true}'),
            (b',"stream_options":{}', b'"stream_options":{"include_usage":true}'),
            (b',"stream_options":{"include_usage": false }', b'"stream_options":{"include_usage": true }'),
            (b',"stream_options": {"x": 1.50}', b'"stream_options": {"x": 1.50,"include_usage":true}'),
            (b',"stream_options":{"continuous_usage_stats":true}', b'{"continuous_usage_stats":true,"include_usage":true}'),
        ],
    )
    def test_usage_is_always_asked_for(self, options: bytes, expected: bytes) -> None:
        body = b'{"model":"m","messages":[{"role":"user"}],"stream":true' + options + b"}"
        assert expected in raw_call(body).body
        assert b"stream_options" not in raw_call(body, provider(quirks=Quirks(stream_options=False))).body
        asked = raw_call(body, provider(quirks=Quirks(continuous_usage=True))).body
        assert asked.count(b'"continuous_usage_stats":true') == asked.count(b'"include_usage"') == 1

    def test_what_could_steer_an_upstream_never_leaves(self) -> None:
        names = ("api_key", "api_base", "base_url", "headers", "extra_headers", "organization")
        found = call(fields=dict.fromkeys(names, "evil"))
        assert b"evil" not in found.body
        assert found.dropped == names
        assert sent(extra_body={"api_key": "evil", "top_k": 4}) == {"top_k": 4, "service_tier": "on_demand"}

    def test_store_needs_the_providers_leave(self) -> None:
        assert (call(store=True).dropped, sent(store=True).get("store")) == (("store",), None)
        assert call(store=None).dropped == ()
        assert sent(provider(allow_store=True), store=True)["store"] is True

    def test_unknown_fields_may_be_unwanted(self) -> None:
        strict = provider(forward_unknown_fields=False)
        found = call(strict, {"x_vendor": 1, "tool_choice": "auto", "bad\r\nname": 1, "top_k": None})
        assert set(msgspec.json.decode(found.body)) == {"model", "messages", "tool_choice", "service_tier"}
        assert found.dropped == ("x_vendor",)

    @pytest.mark.parametrize(
        ("wanted", "fields", "expected"),
        [
            (None, {"max_tokens": 5}, {"max_tokens": 5}),
            (None, {"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
            (None, {"max_tokens": 100, "max_completion_tokens": 50}, {"max_tokens": 50}),
            (None, {"max_tokens": None, "max_completion_tokens": 50}, {"max_completion_tokens": 50}),
            ("max_tokens", {"max_completion_tokens": 64}, {"max_tokens": 64}),
            ("max_completion_tokens", {"max_tokens": 40, "max_completion_tokens": 90}, {"max_completion_tokens": 40}),
            ("max_tokens", {}, {}),
        ],
    )
    def test_the_output_bound_goes_once_under_the_right_name(
        self, wanted: str | None, fields: dict[str, object], expected: object
    ) -> None:
        named = provider(quirks=Quirks(max_tokens_field=wanted), tiers={})
        assert sent(named, fields) == expected

    @pytest.mark.parametrize(
        ("endpoints", "expected"),
        [({"chat", "completions"}, "max_tokens"), ({"chat"}, "max_completion_tokens")],
        ids=["of their own", "over chat"],
    )
    def test_completions_know_one_name_of_the_output_bound(self, endpoints: set[str], expected: str) -> None:
        quirks = Quirks(max_tokens_field="max_completion_tokens")
        named = provider(quirks=quirks, endpoints=frozenset(map(Endpoint, endpoints)))
        request = parse(Endpoint.COMPLETIONS, b'{"model":"m","prompt":"x","max_tokens":5}')
        body = OpenAI(named).call(request, Deployment(id="d", provider=named, upstream_model="up"), Tier.FLEX, last=True).body
        assert {name: value for name, value in msgspec.json.decode(body).items() if "max" in name} == {expected: 5}

    def test_what_the_gateway_changed_is_sent(self) -> None:
        request = parse(Endpoint.COMPLETIONS, b'{"model":"m","prompt":"x","logprobs":123,"ignore_eos":true}')
        changed = msgspec.structs.replace(request, max_tokens=8192, changes={"logprobs": b"20", "ignore_eos": None})
        found = OpenAI(PLAIN).call(changed, Deployment(id="d", provider=PLAIN, upstream_model="up"), Tier.FLEX, last=True)
        assert msgspec.json.decode(found.body) == {"model": "up", "prompt": "x", "logprobs": 20, "max_tokens": 8192}

    def test_neither_secrets_nor_prompts_show_in_a_repr(self) -> None:
        assert "sk-upstream" not in repr(call())
        assert "Say hi" not in repr(call())

    @given(st.dictionaries(st.text(max_size=5), st.none() | st.integers(-9, 9) | st.text(max_size=3), max_size=4))
    def test_any_unknown_field_travels(self, extra: dict[str, object]) -> None:
        extra = {f"x_{name}": value for name, value in extra.items()}
        assert sent(fields=extra) == extra | {"service_tier": "on_demand"}


def answered(body: object, **changed: object) -> dict[str, object]:
    found = OpenAI(PLAIN).answer(body if isinstance(body, bytes) else msgspec.json.encode(body), edits(**changed))
    assert isinstance(found, Answer)
    value: dict[str, object] = msgspec.json.decode(found.body)
    return value


def completion(**more: object) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hé"}, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "model": "up-internal", "choices": [choice], "usage": usage()} | more


class TestAnswer:
    def test_untouched_bytes_stay(self) -> None:
        rest = b', "choices":[{"text":"x","logprobs":{"a":-0.250}}], "signature":"s"'
        body = b'{"id":"c1","model": "up-internal"' + rest + b"}\n"
        edited = b'{"id":"c1","model": "public"' + rest + b',"service_tier":"default"}\n'
        found = OpenAI(PLAIN).answer(body, EDITS)
        assert isinstance(found, Answer)
        assert (found.body, found.usage, found.output_bytes) == (edited, None, 1)

    def test_model_tier_and_usage_are_read_and_edited(self) -> None:
        found = OpenAI(PLAIN).answer(msgspec.json.encode(completion(service_tier="on_demand")), EDITS)
        assert isinstance(found, Answer)
        assert (found.usage, found.tier, found.output_bytes) == (Usage(input=10, output=20), "on_demand", 0)
        assert msgspec.json.decode(found.body) == completion(model="public", service_tier="default")

    @pytest.mark.parametrize("given", [{"id": None}, {"id": ""}])
    def test_a_missing_id_is_ours(self, given: dict[str, object]) -> None:
        assert answered(completion(**given))["id"] == "ours"
        without = completion()
        del without["id"]
        assert answered(without)["id"] == "ours"

    def test_costs_are_ours(self) -> None:
        priced = Price(input=1000, output=2000)
        theirs = usage(cost=0.8, estimated_cost=0.9, cost_details={"a": 1})
        assert answered(completion(usage=theirs), tariff=Tariff(priced, Echo(Tier.PRIORITY, 0.8)))["usage"] == usage(
            estimated_cost=4e-05
        )
        assert answered(completion(usage=theirs))["usage"] == usage()

    def test_a_lower_tier_is_shown_and_priced(self) -> None:
        lower = Echoes({"on_demand": Echo(Tier.DEFAULT, 1.0)})
        found = answered(
            completion(service_tier="on_demand"),
            tier="priority",
            tariff=Tariff(Price(input=1000, output=2000), Echo(Tier.PRIORITY, 1.5), lower),
        )
        assert (found["service_tier"], found["usage"]) == ("default", usage(estimated_cost=5e-05))
        assert (
            answered(completion(service_tier="higher"), tier="priority", tariff=Tariff(echoes=lower))["service_tier"]
            == "priority"
        )

    def test_without_a_tier_there_is_no_member(self) -> None:
        assert "service_tier" not in answered(completion(service_tier="default"), tier=None)

    def test_null_details_stay(self) -> None:
        assert answered(completion(usage=usage(completion_tokens_details=None)))["usage"] == usage(completion_tokens_details=None)

    @pytest.mark.parametrize("usage_", [None, {}, {"prompt_tokens": None}])
    def test_a_usage_that_says_nothing_is_left(self, usage_: object) -> None:
        assert answered(completion(usage=usage_))["usage"] == usage_

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({"error": {"message": "quota", "type": "insufficient_quota"}}, Fault.BILLING),
            ({"error": {"code": 502, "message": "Provider returned error"}}, Fault.SERVER),
            (completion(error={"message": "Model busy", "code": "engine_overloaded"}), Fault.BUSY),
            (completion(choices=[]), Fault.BAD_ANSWER),
            (completion(choices=None), Fault.BAD_ANSWER),
            (completion(choices="x"), Fault.BAD_ANSWER),
            (completion(choices=[{"index": 0, "finish_reason": "error", "message": {}}]), Fault.BAD_ANSWER),
            ({"detail": "gone"}, Fault.BAD_ANSWER),
            ({}, Fault.BAD_ANSWER),
            (b"", Fault.BAD_ANSWER),
            (b"<html>blocked</html>", Fault.BAD_ANSWER),
            (b'{"id":"x","choices":[', Fault.BAD_ANSWER),
            (b'[{"choices":[]}]', Fault.BAD_ANSWER),
            (b'{"id":"a","id":"b","choices":[{"text":"x"}]}', Fault.BAD_ANSWER),
            (b"[" * 5000, Fault.BAD_ANSWER),
            (b'{"choices":[{"text":"\xff"}]}', Fault.BAD_ANSWER),
        ],
    )
    def test_what_is_no_answer_has_a_fault(self, body: object, fault: Fault) -> None:
        found = OpenAI(PLAIN).answer(body if isinstance(body, bytes) else msgspec.json.encode(body), EDITS)
        assert isinstance(found, Failed)
        assert found.fault is fault

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            (b"<html>blocked</html>", Fault.BAD_ANSWER),
            (b"", Fault.BAD_ANSWER),
            (b'{"error":{"message":"quota","type":"insufficient_quota"}}', Fault.BILLING),
            (msgspec.json.encode(completion()), Fault.BAD_ANSWER),
        ],
    )
    def test_what_is_no_stream_has_a_fault(self, body: bytes, fault: Fault) -> None:
        assert OpenAI(PLAIN).not_a_stream(body).fault is fault

    def test_what_is_no_stream_is_told_without_the_providers_name_for_the_model(self) -> None:
        said = {"error": {"message": "up-model takes 10 tokens", "code": "context_length_exceeded"}}
        found = OpenAI(PLAIN).not_a_stream(msgspec.json.encode(said), upstream_model="up-model")
        assert (found.code, "up-model" in found.message) == ("context_length_exceeded", False)

    def test_a_failure_is_redacted_of_the_upstreams_model(self) -> None:
        body = b'{"error":{"message":"up-internal has no tools","type":"x","param":"tools","code":"unsupported"}}'
        found = OpenAI(PLAIN).failure(400, {}, body, upstream_model="up-internal")
        assert (found.fault, found.message, found.param) == (Fault.REJECTED, "[redacted] has no tools", "tools")

    def test_no_answer_shows_in_a_repr(self) -> None:
        assert "Hé" not in repr(OpenAI(PLAIN).answer(msgspec.json.encode(completion()), EDITS))


def test_dialects_are_found_by_name() -> None:
    assert isinstance(DIALECTS["openai"](PLAIN), OpenAI)
    assert "gopher" not in DIALECTS
