"""Streams of Responses: when they commit, what goes out, what ends them; and any cut of any stream tells the same."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.faults import Fault
from gateway.policy.catalogue import Tier
from gateway.policy.pricing import Tariff
from gateway.policy.tiers import Echo, Echoes
from gateway.providers.protocol import Answer
from gateway.providers.responses_stream import ResponsesStream
from tests.fakes.openai import DONE
from tests.fakes.responses import CALL, HELLO, begins, encode, ends, events, item, joined, response, stream, text, thought
from tests.fuzz.laws import LINE_ENDS, pieces_of
from tests.unit.providers.responding import COST, EDITS, answer, play

BEGUN = b"".join(begins())
SAID = b"".join(item(0, HELLO, 2)[:3])


def plain(kind: str, **members: Any) -> bytes:
    """One event without a number."""
    return b"data: %b\n\n" % encode({"type": kind, **members})


class TestTheCommitPoint:
    @pytest.mark.parametrize(
        "said",
        [
            plain("response.output_text.delta", delta="H"),
            plain("response.refusal.delta", delta="No"),
            plain("response.reasoning_text.delta", delta="Hm"),
            plain("response.reasoning_summary_text.delta", delta="Hm"),
            plain("response.function_call_arguments.delta", delta="{"),
            plain("response.audio.delta", delta="AAAA"),
            plain("response.output_item.added", item={"type": "function_call", "name": "f", "arguments": ""}),
            plain("response.output_item.added", item={"type": "web_search_call"}),
            plain("response.output_item.done", item=HELLO),
            plain("response.output_item.done", item=thought("Hm")),
            plain("response.content_part.added", part={"type": "output_text", "text": "H"}),
            plain("response.content_part.added", part={"type": "refusal", "refusal": "N"}),
            ends(3),
            ends(3, kind="incomplete"),
        ],
    )
    def test_the_first_content_is_it(self, said: bytes) -> None:
        reader = ResponsesStream(EDITS)
        assert not reader.feed(BEGUN).committed
        step = reader.feed(said)
        assert step.committed
        assert [each["type"] for each in events_of(step.out)][:2] == ["response.created", "response.in_progress"]

    @pytest.mark.parametrize(
        "said",
        [
            plain("response.output_text.delta", delta=""),
            plain("response.output_item.added", item={"type": "message", "content": []}),
            plain("response.output_item.added", item={"type": "reasoning", "summary": [], "encrypted_content": "x"}),
            plain("response.content_part.added", part={"type": "output_text", "text": ""}),
            plain("response.content_part.added", part=None),
            plain("response.queued", response=response(status="queued", output=[])),
            plain("keepalive", delta="x"),
            b": comment\n\n",
            b"data: null\n\n",
        ],
    )
    def test_what_says_nothing_waits(self, said: bytes) -> None:
        reader = ResponsesStream(EDITS)
        assert not reader.feed(BEGUN + said).committed

    def test_it_waits_for_no_more_than_an_event_may_hold(self) -> None:
        found = play([BEGUN, plain("response.of_another_day", x="y" * 4000)])
        assert (found.committed, found.failed and found.failed.fault) == (False, Fault.PROTOCOL)


def events_of(out: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(each.partition(b"data: ")[2]) for each in out.split(b"\n\n")[:-1]]


class TestWhatGoesOut:
    def test_each_response_has_the_public_model_and_the_tier(self) -> None:
        shown = [each["response"] for each in events(play(stream()).out) if "response" in each]
        assert [(each["model"], each["service_tier"]) for each in shown] == [("public", "default")] * 3

    def test_an_id_that_is_missing_is_given(self) -> None:
        found = play([plain("response.created", response={"output": []}), plain("response.completed", response={"output": []})])
        assert {each["response"]["id"] for each in events_of(found.out)} == {"resp_ours"}

    def test_the_last_word_on_the_tier_counts(self) -> None:
        echoes = Echoes({"default": Echo(Tier.DEFAULT, 1.0)})
        tariff = Tariff(EDITS.tariff.price, Echo(Tier.PRIORITY, 2.0), echoes)
        found = play(stream(), replace(EDITS, tier="priority", tariff=tariff))
        shown = [each["response"]["service_tier"] for each in events(found.out) if "response" in each]
        assert (shown, found.reader.tier) == (["priority", "priority", "default"], "default")
        assert events(found.out)[-1]["response"]["usage"]["estimated_cost"] == COST

    def test_payloads_of_several_lines_leave_as_one(self) -> None:
        found = play([BEGUN, b'data: {"type":"response.output_text.delta",\ndata: "delta":"H"}\n\n', ends(4)])
        assert b'data: {"type":"response.output_text.delta", "delta":"H"}\n\n' in found.out

    @pytest.mark.parametrize("strange", [DONE, b"data: 7\n\n", plain("a b"), plain("x\ny")])
    def test_what_has_no_name_is_left_out(self, strange: bytes) -> None:
        found = play([BEGUN, strange, SAID, strange, ends(9)])
        assert found.reader.strange_events == 2
        assert found.out == play([BEGUN, SAID, ends(9)]).out

    def test_a_beginning_comes_once(self) -> None:
        again = begins()[0] + begins()[1]
        found = play([BEGUN, again, SAID, again, plain("response.queued", response={}), ends(9)])
        assert (found.out, found.reader.strange_events) == (play([BEGUN, SAID, ends(9)]).out, 5)

    def test_nothing_follows_the_end(self) -> None:
        found = play([b"".join(stream()) + ends(99) + DONE])
        assert found.out.endswith(play(stream()).out[-40:])
        assert found.out.count(b"event: response.completed") == 1
        assert found.reader.done
        assert found.reader.finished

    def test_events_without_numbers_are_counted(self) -> None:
        assert play([plain("response.created", response={"output": []}), plain("x", delta="y")]).next_number == 2
        assert play([BEGUN, SAID]).next_number == 5


class TestEnds:
    @pytest.mark.parametrize(
        ("tail", "fault"),
        [
            (b"", Fault.RESET),
            (DONE, Fault.RESET),
            (b'data: {"type":"response.comp', Fault.RESET),
            (b"data: {\n\n", Fault.PROTOCOL),
            (plain("response.completed"), Fault.PROTOCOL),
            (plain("x", y="z" * 5000), Fault.PROTOCOL),
            (b"data: " + b"x" * 5000, Fault.PROTOCOL),
            (plain("response.failed", response=response(error={"code": "server_error", "message": "x"})), Fault.SERVER),
            (plain("response.failed", response=response(error={"code": "rate_limit_exceeded"})), Fault.ACCOUNT_RATE),
            (plain("response.failed", response=response()), Fault.BAD_ANSWER),
            (plain("response.failed"), Fault.BAD_ANSWER),
            (plain("error", code="server_is_overloaded", message="x", param=None), Fault.BUSY),
            (plain("error", error={"type": "server_error", "code": None, "message": "x"}), Fault.SERVER),
            (b'data: {"error":{"code":"content_filter","message":"x"}}\n\n', Fault.REJECTED),
            (b'data: [{"error":{"code":503,"message":"x"}}]\n\n', Fault.BUSY),
        ],
    )
    @pytest.mark.parametrize("said", [b"", SAID], ids=["before", "after"])
    def test_what_ends_none(self, tail: bytes, fault: Fault, said: bytes) -> None:
        found = play([BEGUN + said + tail])
        assert found.failed is not None
        assert (found.failed.fault, found.committed) == (fault, bool(said))
        assert not found.reader.finished

    def test_nothing_at_all_is_no_answer(self) -> None:
        found = play([])
        assert found.failed is not None
        assert found.failed.fault is Fault.BAD_ANSWER

    def test_a_last_event_without_its_blank_line_is_heard(self) -> None:
        whole = b"".join(stream())
        assert play([whole.removesuffix(b"\n\n")]).out == play([whole]).out


class TestWhatIsCounted:
    def test_the_usage_of_the_end(self) -> None:
        reader = play(stream()).reader
        assert reader.usage is not None
        assert (reader.usage.input, reader.usage.output, reader.output_bytes) == (10, 20, 0)

    def test_without_it_what_was_said(self) -> None:
        assert play([BEGUN, SAID]).reader.output_bytes == 2
        assert play(stream(usage=None)).reader.output_bytes == 5
        assert play([ends(0, usage=None)]).reader.output_bytes == 5


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
outputs = st.lists(
    st.builds(text, words) | st.builds(thought, words) | st.builds(lambda said: {**CALL, "arguments": said}, words),
    min_size=1,
    max_size=3,
)


@given(output=outputs, end=st.sampled_from(LINE_ENDS), cuts=st.lists(st.integers(0, 3_000), max_size=6))
def test_a_stream_is_the_whole_answer_wherever_it_is_cut(output: list[dict[str, Any]], end: bytes, cuts: list[int]) -> None:
    told = b"".join(stream(*output)).replace(b"\n", end)
    whole = answer(encode(response(*output)))
    assert isinstance(whole, Answer)
    assert joined(assert_same(told, cuts)) == msgspec.json.decode(whole.body)


@given(output=outputs, length=st.integers(0, 3_000), cuts=st.lists(st.integers(0, 3_000), max_size=4))
def test_one_that_breaks_tells_no_end(output: list[dict[str, Any]], length: int, cuts: list[int]) -> None:
    told = b"".join(stream(*output))[:length]
    found = assert_same(told, cuts)
    assert (b"event: response.completed" in found) is (play([told]).failed is None)


def assert_same(told: bytes, cuts: list[int]) -> bytes:
    """Hold every cut of a stream to the same outcome. Return what goes out."""
    whole = play([told])
    for pieces in (pieces_of(told, cuts), pieces_of(told, range(len(told)))):
        found = play(pieces)
        assert (found.out, found.known) == (whole.out, whole.known)
    return whole.out
