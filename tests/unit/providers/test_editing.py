import pytest

from gateway.policy.catalogue import Tier
from gateway.policy.prices import Price
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.wire.usage import Usage
from tests.unit.providers.streams import DONE, chunk, edits, ends, event, role, run, says, usage

SHOWN = edits(show_usage=True)
LOWER = Echoes({"on_demand": Echo(Tier.DEFAULT, 1.0)})
APPLIED = Echoes({"priority": Echo(Tier.PRIORITY, 1.5)}, Echo(Tier.DEFAULT, 1.0))


def test_untouched_bytes_stay() -> None:
    beginning, rest = b'{"id":"c1","model" : ', b'"choices":[{"index":0,"delta":{"content":"\\u00e9"},"x":1.50}],  "x_sig":1e2}'
    odd = beginning + b'"up-internal",' + rest
    edited = beginning + b'"public","service_tier":"default",' + rest
    assert run(event(odd), event(odd), ends(), DONE).payloads[:2] == [edited, edited]


class TestUsage:
    def test_asked_for_it_is_the_last_event_with_our_cost_and_without_theirs(self) -> None:
        priced = edits(show_usage=True, tariff=Tariff(Price(input=1000, output=2000), Echo(Tier.PRIORITY, 1.5)))
        told = usage(cost=0.8, estimated_cost=0.9, cost_details={"a": 1}, prompt_tokens_details={"cached_tokens": 4})
        found = run(role(), says("a"), ends(), chunk([], usage=told), DONE, edits=priced)
        last = found.chunks[-1]
        assert last["choices"] == []
        assert last["usage"] == usage(prompt_tokens_details={"cached_tokens": 4}, estimated_cost=7.5e-05)
        assert found.reader.usage == Usage(input=10, output=20, cached=4)

    def test_told_on_the_finish_chunk_it_moves_to_one_of_its_own(self) -> None:
        found = run(says("a"), ends(usage=usage()), chunk([]), DONE, edits=SHOWN)
        assert ["usage" in sent for sent in found.chunks] == [False, False, True]
        assert found.chunks[-1] == {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "public",
            "choices": [],
            "usage": usage(),
            "service_tier": "default",
        }

    def test_with_content_it_is_kept_and_the_content_is_delivered_once(self) -> None:
        found = run(says("a"), says("z", usage=usage()), ends(), DONE)
        assert (found.text, found.reader.usage) == ({0: "az"}, Usage(input=10, output=20))
        assert not any(sent.get("usage") for sent in found.chunks)

    def test_of_running_totals_the_last_that_says_something_counts(self) -> None:
        parts = (says("a", usage=usage(10, 1)), says("b", usage=usage(10, 2)), ends(usage=None), DONE)
        found = run(*parts, edits=SHOWN)
        assert found.chunks[-1]["usage"] == usage(10, 2)
        assert found.reader.usage == Usage(input=10, output=2)
        assert sum(bool(sent.get("usage")) for sent in found.chunks) == 1

    def test_running_totals_stay_where_they_were_asked_for(self) -> None:
        found = run(says("a", usage=usage(10, 1)), ends(), DONE, edits=edits(show_usage=True, running_usage=True))
        assert found.chunks[0]["usage"] == usage(10, 1)

    def test_a_usage_that_names_a_figure_twice_hides_no_cost(self) -> None:
        twice = event(b'{"id":"c1","model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":1,"cost":2}}')
        found = run(says("a"), ends(), twice, edits=SHOWN)
        assert found.chunks[-1]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2}

    def test_no_spelling_hides_a_cost(self) -> None:
        spelled = event(b'{"id":"c1","model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"\\u0063ost":1}}')
        found = run(says("a"), ends(), spelled, edits=SHOWN)
        assert found.chunks[-1]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2}

    def test_null_usage_is_no_usage(self) -> None:
        found = run(says("a", usage=None), says("b", usage=None), ends(usage=None), DONE, edits=SHOWN)
        assert (found.reader.usage, found.text) == (None, {0: "ab"})

    def test_output_is_counted_by_what_was_said(self) -> None:
        call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "12"}}
        deltas: list[dict[str, object]] = [
            {"content": "é"},
            {"reasoning": "abc", "reasoning_content": "abc"},
            {"tool_calls": [call]},
            {"refusal": "no"},
        ]
        found = run(*(chunk([{"index": 0, "delta": delta}]) for delta in deltas), ends(), DONE)
        assert found.reader.output_bytes == 2 + 3 + 2 + 2


class TestIdentity:
    def test_a_changing_id_is_made_one(self) -> None:
        found = run(says("a", id="x-1"), says("b", id="x-2"), ends(id="x-3"), DONE)
        assert {sent["id"] for sent in found.chunks} == {"x-1"}

    @pytest.mark.parametrize("given", [..., None, "", 7])
    def test_a_missing_id_is_ours(self, given: object) -> None:
        found = run(says("a", id=given), says("b", id=given), ends(id=given), DONE)
        assert {sent["id"] for sent in found.chunks} == {"ours"}

    def test_members_that_move_about_are_edited_all_the_same(self) -> None:
        late = b'{"choices":[{"index":0,"delta":{"content":"b"}}],"service_tier":"x","model":"up-internal","id":"c1"}'
        found = run(says("a"), event(late), says("c"), ends(), DONE)
        assert found.text == {0: "abc"}
        assert {(sent["id"], sent["model"], sent["service_tier"]) for sent in found.chunks} == {("c1", "public", "default")}

    def test_a_lower_tier_of_the_upstreams_is_shown_on_every_chunk(self) -> None:
        lower = edits(
            tier="priority",
            show_usage=True,
            tariff=Tariff(Price(input=1000, output=2000), Echo(Tier.PRIORITY, 1.5), LOWER),
        )
        found = run(role(), says("a", service_tier="on_demand"), ends(), chunk([], usage=usage()), DONE, edits=lower)
        assert {sent["service_tier"] for sent in found.chunks} == {"default"}
        assert found.reader.tier == "on_demand"
        assert found.chunks[-1]["usage"] == usage(estimated_cost=5e-05)

    def test_a_tier_that_is_told_late_holds_from_there_on(self) -> None:
        dear = Tariff(Price(input=1000, output=2000), Echo(Tier.PRIORITY, 1.5), LOWER)
        lower = edits(tier="priority", show_usage=True, tariff=dear)
        told = (says("b", service_tier="on_demand"), says("c", service_tier="on_demand"), ends(), chunk([], usage=usage()))
        found = run(says("a"), says("a"), *told, DONE, edits=lower)
        assert [sent["service_tier"] for sent in found.chunks] == ["priority"] * 2 + ["default"] * 4
        assert found.reader.tier == "on_demand"
        assert found.chunks[-1]["usage"] == usage(estimated_cost=5e-05)

    def test_a_provider_that_is_silent_of_a_tier_has_not_applied_it(self) -> None:
        lower = edits(tier="priority", tariff=Tariff(echoes=APPLIED))
        found = run(says("a"), says("b"), ends(), DONE, edits=lower)
        assert {sent["service_tier"] for sent in found.chunks} == {"default"}
        found = run(says("a"), ends(service_tier="priority"), DONE, edits=lower)
        assert [sent["service_tier"] for sent in found.chunks] == ["default", "priority"]
        assert found.reader.tier == "priority"

    def test_without_a_tier_there_is_no_member(self) -> None:
        found = run(says("a", service_tier="default"), says("b", service_tier="default"), ends(), DONE, edits=edits(tier=None))
        assert not any("service_tier" in sent for sent in found.chunks)
