"""Messages requests to who speaks them: the client's bytes on their way there, and the provider's on their way back."""

import msgspec
import pytest
from msgspec.structs import replace

from gateway.faults import Failed, Fault
from gateway.policy.catalogue import Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.providers.protocol import Answer
from tests.fakes.anthropic import HELLO, begins, block, ends, event, failing, text
from tests.fakes.anthropic import message as whole
from tests.fakes.reading import events, joined
from tests.unit.providers.asking import CLAUDE, EDITS, answer, asked, called, message, play, sent

CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
COST = (10 * 1000 + 20 * 2000) / 1e9


class TestTheCall:
    def test_what_the_gateway_decides_is_changed(self) -> None:
        found = sent(CLAUDE, models=["public"], fail_fast=True, service_tier="auto", stream=True)
        assert found == {
            "model": "up-internal",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "Say hi"}],
            "stream": True,
            "service_tier": "standard_only",
        }

    def test_a_tier_that_is_not_the_providers_is_not_sent(self) -> None:
        call = called(asked(service_tier="flex"), CLAUDE, Tier.FLEX)
        assert b"service_tier" not in call.body

    def test_a_lowered_bound_is_sent(self) -> None:
        call = called(replace(asked(), max_tokens=7), CLAUDE)
        assert msgspec.json.decode(call.body)["max_tokens"] == 7

    @pytest.mark.parametrize(("forwards", "dropped"), [(True, ("api_key",)), (False, ("api_key", "container"))])
    def test_what_is_withheld_is_told(self, forwards: bool, dropped: tuple[str, ...]) -> None:
        at = replace(CLAUDE, forward_unknown_fields=forwards)
        call = called(asked(api_key="x", container={"id": 1}, unset=None), at)
        assert call.dropped == dropped
        assert (b"container" in call.body) is forwards
        assert b"api_key" not in call.body

    def test_thoughts_that_nobody_signed_stay_behind(self) -> None:
        ours = {"type": "thinking", "thinking": "Hm", "signature": ""}
        theirs = {"type": "thinking", "thinking": "Hm", "signature": "s"}
        turns = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [ours, theirs, text("b")]},
            {"role": "user", "content": [text('"signature":""')]},
            {"role": "assistant", "content": [ours]},
            {"role": "user", "content": "c"},
        ]
        kept = [turns[0], {"role": "assistant", "content": [theirs, text("b")]}, turns[2], turns[4]]
        assert sent(CLAUDE, messages=turns)["messages"] == kept

    @pytest.mark.parametrize(
        "fields",
        [
            {"thinking": {"type": "between_tools"}},
            {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "of_another_day", "tools": ["f"]}},
            {"output_config": {"format": {"type": "of_another_day"}}},
        ],
    )
    def test_words_of_another_day_are_the_providers_to_judge(self, fields: dict[str, object]) -> None:
        assert sent(CLAUDE, **fields).items() > fields.items()

    def test_the_system_speaks_within(self) -> None:
        turns = [{"role": "user", "content": "a"}, {"role": "system", "content": [], "output_config": {"effort": "low"}}]
        assert sent(CLAUDE, messages=turns)["messages"] == turns

    def test_a_stream_is_asked_for_as_one(self) -> None:
        accepts = [dict(called(asked(stream=form), CLAUDE).headers)[b"accept"] for form in (False, True)]
        assert accepts == [b"application/json", b"text/event-stream"]


class TestAWholeAnswer:
    def test_its_bytes_stay_but_for_model_and_usage(self) -> None:
        found = answer(
            b'{"id":"msg_1","model":"up", "content":[{"type":"text","text":"\\u0048"}],"usage":{"output_tokens":1}}', CLAUDE
        )
        assert isinstance(found, Answer)
        assert found.body == (
            b'{"id":"msg_1","model":"public", "content":[{"type":"text","text":"\\u0048"}],'
            b'"usage":{"output_tokens":1,"service_tier":"standard"}}'
        )
        assert (found.usage, found.output_bytes) == (None, 1)

    def test_what_it_used_is_known_and_priced(self) -> None:
        usage = {"input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 20}
        found = answer(whole(usage=usage), CLAUDE)
        assert isinstance(found, Answer)
        assert found.usage is not None
        assert (found.usage.input, found.usage.cached, found.usage.output, found.output_bytes) == (10, 6, 20, 0)
        assert msgspec.json.decode(found.body)["usage"] == {**usage, "service_tier": "standard", "estimated_cost": COST}

    def test_a_lower_tier_is_named(self) -> None:
        echoes = Echoes({"standard_only": Echo(Tier.DEFAULT, 1.0)})
        tariff = Tariff(Price(input=1000, output=2000), Echo(Tier.PRIORITY, 1.5), echoes)
        served = whole(usage={"input_tokens": 10, "output_tokens": 20, "service_tier": "standard"})
        usage = message(served, CLAUDE, replace(EDITS, tier="priority", tariff=tariff))["usage"]
        assert (usage["service_tier"], usage["estimated_cost"]) == ("standard", COST)

    def test_a_missing_id_is_ours(self) -> None:
        assert message(whole(id=None), CLAUDE)["id"] == "msg_ours"

    @pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"content":5}', b'{"id":1,"id":2,"content":[]}', b"[" * 5000])
    def test_what_is_none_is_none(self, body: bytes) -> None:
        found = answer(body, CLAUDE)
        assert isinstance(found, Failed)
        assert found.fault is Fault.BAD_ANSWER

    def test_an_error_in_it_is_one(self) -> None:
        found = answer(b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', CLAUDE)
        assert isinstance(found, Failed)
        assert found.fault is Fault.BUSY


class TestAStream:
    def test_its_events_stay_but_for_model_and_usage(self) -> None:
        said = block(0, HELLO) + block(1, CALL)
        found = play([begins() + said + ends("tool_use")], CLAUDE)
        assert said in found.out
        told = joined(found.out)
        assert (told["model"], told["content"], told["stop_reason"]) == ("public", [HELLO, CALL], "tool_use")
        assert told["usage"] == {"input_tokens": 10, "output_tokens": 20, "service_tier": "standard", "estimated_cost": COST}

    def test_only_content_commits(self) -> None:
        empty = event("content_block_start", index=0, content_block=text(""))
        nothing = event("content_block_delta", index=0, delta={"type": "text_delta", "text": ""})
        found = play([begins(), event("ping"), empty, nothing], CLAUDE)
        assert (found.out, found.committed, found.failed and found.failed.fault) == (b"", False, Fault.RESET)

    @pytest.mark.parametrize(
        "first",
        [
            event("content_block_start", index=0, content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}}),
            event("content_block_start", index=0, content_block={"type": "redacted_thinking", "data": "x"}),
            event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Hm"}),
            event("content_block_delta", index=0, delta={"type": "of_another_day"}),
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 0}),
        ],
    )
    def test_any_content_does(self, first: bytes) -> None:
        assert play([begins(), first], CLAUDE).committed

    @pytest.mark.parametrize(
        ("stream", "fault"),
        [
            (b"", Fault.BAD_ANSWER),
            (begins() + event("message_stop"), Fault.BAD_ANSWER),
            (begins() + block(0, HELLO), Fault.RESET),
            (begins() + block(0, HELLO) + failing("overloaded_error"), Fault.BUSY),
            (failing("overloaded_error"), Fault.BUSY),
            (b'data: {"error":{"code":429,"message":"x"}}\n\n', Fault.ACCOUNT_RATE),
            (block(0, HELLO), Fault.PROTOCOL),
            (begins() + b'event: x\ndata: {"type":5}\n\n', Fault.PROTOCOL),
            (begins() + b"data: {\n\n", Fault.PROTOCOL),
            (begins() + b'data: {"type":"ping"', Fault.RESET),
            (begins() + event("x", much="x" * 5_000_000), Fault.PROTOCOL),
        ],
    )
    def test_what_is_missing_is_named(self, stream: bytes, fault: Fault) -> None:
        found = play([stream], CLAUDE)
        assert found.failed is not None
        assert found.failed.fault is fault
        assert b"message_stop" not in found.out

    def test_a_forgotten_reason_is_added(self) -> None:
        for said, reason in ((HELLO, "end_turn"), (CALL, "tool_use")):
            told = joined(play([begins() + block(0, said) + event("message_stop")], CLAUDE).out)
            assert told["stop_reason"] == reason

    def test_what_is_no_event_is_left_out(self) -> None:
        odd = b"data: oops\n\n" + b"data: null\n\n" + event("a b") + begins()
        found = play([begins() + block(0, HELLO) + odd + ends()], CLAUDE)
        assert joined(found.out)["content"] == [HELLO]
        assert found.reader.strange_events == 3

    def test_nothing_follows_the_end(self) -> None:
        whole = begins() + block(0, HELLO) + ends()
        assert play([whole + whole], CLAUDE).out == play([whole], CLAUDE).out

    def test_a_cut_behind_the_last_word_is_an_end(self) -> None:
        stream = begins() + block(0, HELLO) + ends().removesuffix(event("message_stop"))
        found = play([stream + b'event: message_stop\ndata: {"type":"mess'], CLAUDE)
        assert events(found.out)[-1] == {"type": "message_stop"}
        assert found.failed is None

    def test_without_figures_it_is_measured(self) -> None:
        start = event("message_start", message={"id": "msg_1", "type": "message", "role": "assistant", "content": []})
        found = play([start + block(0, HELLO)], CLAUDE)
        assert (found.reader.usage, found.reader.output_bytes) == (None, 5)
