import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.faults import Fault
from gateway.providers.openai_stream import OpenAIStream
from gateway.providers.protocol import Edits
from gateway.wire.request import Endpoint
from gateway.wire.usage import Usage
from tests.unit.providers.streams import DONE, EDITS, chunk, edits, ends, event, role, run, says, usage

SHOWN = edits(show_usage=True)
WHOLE = (role(), says("Hel"), says("lo"), ends(), chunk([], usage=usage()), DONE)


def test_a_whole_stream_goes_through_with_its_edits() -> None:
    found = run(*WHOLE)
    assert found.failed is None
    assert found.payloads[-1] == b"[DONE]"
    assert (found.text, found.finishes) == ({0: "Hello"}, [(0, "stop")])
    assert all(sent["model"] == "public" and sent["service_tier"] == "default" and sent["id"] == "c1" for sent in found.chunks)
    assert not any("usage" in sent for sent in found.chunks)
    assert (found.reader.usage, found.reader.finished, found.reader.output_bytes) == (Usage(input=10, output=20), True, 0)


EMPTY = chunk([], usage=None)[6:-2]


@pytest.mark.parametrize("payload", [EMPTY, b"null", b"{}", b" {} ", b"[]", b'"hi"', b"5", b"not json", b"\xff", b"[" * 5000])
def test_an_event_that_says_nothing_is_dropped(payload: bytes) -> None:
    nothing = event(payload)
    found = run(nothing, *WHOLE[:2], nothing, *WHOLE[2:], edits=SHOWN)
    assert found.reader.strange_events == (0 if payload.strip() in (EMPTY, b"null", b"{}") else 2)
    assert (found.out, found.failed) == (run(*WHOLE, edits=SHOWN).out, None)
    assert run(nothing, DONE).failed == run(DONE).failed


ON_FINISH = edits(usage_on_finish=True)
COMES_THERE = edits(usage_on_finish=True, usage_with_finish=True)

stream_parts = st.lists(
    st.sampled_from(
        [
            role(),
            says("ab"),
            says("你好🌍"),
            says("x", 1),
            ends(),
            ends("length", 1),
            chunk([], usage=usage()),
            says("u", usage=usage(1, 2)),
            b": ping\n\n",
            b"data:\n\n",
            event(b"null"),
            b"retry: 1\n\n",
            DONE,
            event(b'{"error":{"code":502,"message":"lost"}}'),
            event(b"{"),
            b"data: {}\r\n\r\n",
        ]
    ),
    max_size=8,
).map(b"".join)


@given(stream_parts, st.lists(st.integers(0, 900), max_size=4), st.sampled_from([EDITS, SHOWN, ON_FINISH]))
def test_where_reads_are_cut_changes_nothing(stream: bytes, cuts: list[int], wanted: Edits) -> None:
    whole = run(stream, edits=wanted)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = (stream[a:b] for a, b in itertools.pairwise(places))
    for found in (run(*pieces, edits=wanted), run(*(bytes([byte]) for byte in stream), edits=wanted)):
        assert (found.out, found.failed, found.committed) == (whole.out, whole.failed, whole.committed)
        assert (found.reader.usage, found.reader.output_bytes) == (whole.reader.usage, whole.reader.output_bytes)


@given(stream_parts)
def test_a_stream_ends_with_one_end_mark_or_with_a_failure(stream: bytes) -> None:
    found = run(stream)
    assert found.out.count(b"[DONE]") == (found.failed is None)
    assert found.reader.done == (found.failed is None)
    assert found.out.endswith(DONE) or found.failed is not None
    assert b"up-internal" not in found.out


class TestUsageOnTheFinish:
    @pytest.mark.parametrize(
        "events",
        [
            pytest.param((says("a"), ends(), chunk([], usage=usage()), DONE), id="told behind it"),
            pytest.param((says("a"), ends(usage=usage()), DONE), id="told there"),
            pytest.param((says("a", usage=usage(1, 1)), ends(), chunk([], usage=usage())), id="told twice, without an end mark"),
            pytest.param((says("a"), chunk([], usage=usage()), DONE), id="told where a finish is missing"),
        ],
    )
    @pytest.mark.parametrize("wanted", [ON_FINISH, COMES_THERE])
    def test_it_is_told_there_and_nowhere_else(self, events: tuple[bytes, ...], wanted: Edits) -> None:
        found = run(role(), *events, edits=wanted)
        *others, last = found.chunks
        assert (found.failed, found.finishes, found.text) == (None, [(0, "stop")], {0: "a"})
        assert (last["usage"], [sent.get("usage") for sent in others]) == (usage(), [None] * len(others))

    def test_it_waits_for_the_last_choice(self) -> None:
        parts = (says("a"), says("b", 1), ends(), ends("length", 1), chunk([], usage=usage()), DONE)
        found = run(*parts, edits=edits(choices=2, usage_on_finish=True))
        assert [sent.get("usage") for sent in found.chunks] == [None, None, None, usage()]
        assert found.finishes == [(0, "stop"), (1, "length")]

    @pytest.mark.parametrize("told", [None, usage()])
    @pytest.mark.parametrize("wanted", [ON_FINISH, COMES_THERE])
    def test_a_finish_that_waits_is_never_lost(self, wanted: Edits, told: object) -> None:
        for events in (
            (),
            (DONE,),
            (event(b'{"error":{"message":"lost"}}'),),
            (event(b"{"),),
            (says("late"), ends("length"), DONE),
        ):
            found = run(says("a"), ends(usage=told), *events, edits=wanted)
            assert found.finishes[0] == (0, "stop")
            assert len(found.finishes) == (2 if len(events) == 3 else 1)
            assert found.text[0].startswith("a")
            assert len([sent for sent in found.chunks if sent.get("usage")]) <= (told is not None)


class TestUsageThatComesWithTheFinish:
    @pytest.mark.parametrize("wanted", [COMES_THERE, edits(show_usage=True, usage_with_finish=True)])
    def test_nobody_waits_for_the_end_mark(self, wanted: Edits) -> None:
        reader = OpenAIStream(wanted)
        step = reader.feed(says("a") + ends(usage=usage()))
        assert (step.out.count(b'"finish_reason":"stop"'), step.out.count(b'"prompt_tokens":10')) == (1, 1)
        assert reader.feed(DONE).out == DONE

    def test_a_client_that_asked_has_it_behind_the_finish(self) -> None:
        found = run(says("a"), ends(usage=usage()), DONE, edits=edits(show_usage=True, usage_with_finish=True))
        assert [(sent["choices"] == [], sent.get("usage")) for sent in found.chunks] == [
            (False, None),
            (False, None),
            (True, usage()),
        ]

    def test_running_totals_before_it_are_not_it(self) -> None:
        found = run(says("a", usage=usage(10, 1)), ends(), chunk([], usage=usage()), DONE, edits=COMES_THERE)
        assert [sent.get("usage") for sent in found.chunks] == [None, usage()]

    def test_what_comes_behind_it_all_the_same_is_charged_and_not_told_twice(self) -> None:
        found = run(says("a"), ends(usage=usage()), chunk([], usage=usage(10, 30)), DONE, edits=COMES_THERE)
        assert [sent.get("usage") for sent in found.chunks] == [None, usage()]
        assert found.reader.usage == Usage(input=10, output=30)


class TestCommitPoint:
    @pytest.mark.parametrize(
        "delta",
        [
            {"content": "x"},
            {"reasoning_content": "hm"},
            {"reasoning": "hm"},
            {"refusal": "no"},
            {"audio": {"id": "a"}},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]},
            {"function_call": {"name": "f"}},
            {"content": [{"type": "text", "text": "x"}]},
        ],
    )
    def test_what_says_something_commits_and_brings_what_was_withheld(self, delta: dict[str, object]) -> None:
        reader = OpenAIStream(EDITS)
        assert reader.feed(role()) == reader.feed(b": ping\n\n")
        step = reader.feed(chunk([{"index": 0, "delta": delta, "finish_reason": None}]))
        assert step.committed
        assert step.out.count(b"data: ") == 2

    @pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "tool_calls"])
    def test_a_finish_commits(self, reason: str) -> None:
        assert OpenAIStream(EDITS).feed(ends(reason)).committed

    @pytest.mark.parametrize(
        "events",
        [
            (role(),),
            (chunk([{"index": 0, "delta": {"content": None, "tool_calls": []}}]),),
            (chunk([], prompt_filter_results=[]),),
            (b": one\n\n" * 3,),
            (b"data:\n\n", b"retry: 1\n\n"),
        ],
    )
    def test_what_says_nothing_does_not(self, events: tuple[bytes, ...]) -> None:
        found = run(*events)
        assert (found.committed, found.out) == (False, b"")
        assert found.failed is not None
        assert found.failed.fault in (Fault.RESET, Fault.BAD_ANSWER)

    def test_an_answer_may_be_empty(self) -> None:
        found = run(role(), ends(), chunk([], usage=usage(10, 0)), DONE)
        assert (found.failed, found.finishes, found.reader.output_bytes) == (None, [(0, "stop")], 0)

    def test_an_end_mark_alone_is_nothing(self) -> None:
        assert run(DONE).failed == run(role(), DONE).failed
        assert run(role(), chunk([], usage=usage()), DONE).committed is False

    def test_what_is_withheld_is_bounded(self) -> None:
        found = run(*[role()] * 100, most=1_000)
        assert found.failed is not None
        assert found.failed.fault is Fault.PROTOCOL


class TestErrors:
    @pytest.mark.parametrize(
        ("payload", "fault"),
        [
            (b'{"error":{"message":"Model busy, retry later","code":"engine_overloaded"}}', Fault.BUSY),
            (b'{"id":"c1","choices":[],"error":{"code":502,"message":"worker limit"}}', Fault.SERVER),
            (b'{"id":"c1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}', Fault.BAD_ANSWER),
            (b'{"id":"c1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}', Fault.BAD_ANSWER),
            (b'{"object":"error","message":"boom","code":500}', Fault.SERVER),
            (b'{"choices":5}', Fault.PROTOCOL),
            (b'{"id":1,"id":2,"choices":[{"index":0,"delta":{"content":"x"}}]}', Fault.PROTOCOL),
            (b'{"choices":[{"index":0,"delta":{"content":"\xff"}}]}', Fault.PROTOCOL),
            (b'{"choices":[{"index":0,"delta":{"content":"x', Fault.PROTOCOL),
            (b'{"choices":' + b"[" * 5000, Fault.PROTOCOL),
        ],
    )
    def test_before_content_nothing_is_sent_and_after_it_all_that_came_before_is(self, payload: bytes, fault: Fault) -> None:
        before = run(role(), event(payload))
        assert before.failed is not None
        assert (before.failed.fault, before.committed, before.out) == (fault, False, b"")
        after = run(role() + says("one") + event(payload) + DONE)
        assert after.failed is not None
        assert (after.failed.fault, after.committed, after.text) == (fault, True, {0: "one"})
        assert b"[DONE]" not in after.out

    def test_an_error_that_is_null_is_none(self) -> None:
        assert run(says("a", error=None), ends(error=None), DONE).failed is None

    def test_error_text_is_no_output(self) -> None:
        assert run(role(), event(b'{"error":{"code":500,"message":"' + b"x" * 20_000 + b'"}}')).reader.output_bytes == 0

    def test_an_endless_event_is_cut(self) -> None:
        found = run(says("a"), *[b"data: xxxxxxxxxxxxxxxxxxxx"] * 100, most=1_000)
        assert found.failed is not None
        assert (found.failed.fault, found.text) == (Fault.PROTOCOL, {0: "a"})


class TestEnds:
    def test_a_missing_end_mark_is_added_once(self) -> None:
        assert run(*WHOLE[:-1]).out == run(*WHOLE).out
        assert run(*WHOLE, DONE).out == run(*WHOLE).out

    @pytest.mark.parametrize("last", [b"", says("tw")[:-9], b"data: {\n"])
    def test_a_cut_stream_has_no_end_mark(self, last: bytes) -> None:
        found = run(role(), says("one"), last)
        assert found.failed is not None
        assert (found.failed.fault, found.text, b"[DONE]" in found.out) == (Fault.RESET, {0: "one"}, False)

    def test_what_is_cut_off_behind_the_last_word_was_no_part_of_the_answer(self) -> None:
        last = chunk([], usage=usage())
        for place in range(len(last)):
            found = run(says("a"), ends(), last[:place])
            assert (found.failed, found.text, found.out.endswith(DONE)) == (None, {0: "a"}, True)

    def test_the_last_line_may_lack_its_end(self) -> None:
        assert run(says("a"), ends(), b"data: [DONE]").failed is None
        assert run(says("a"), ends()[:-2]).failed is None

    @pytest.mark.parametrize("end", [(DONE,), (chunk([], usage=usage()),), (chunk([], usage=usage()), DONE)])
    def test_a_missing_finish_is_added_where_the_end_is_proved(self, end: tuple[bytes, ...]) -> None:
        found = run(role(), says("a"), *end, edits=SHOWN)
        assert (found.failed, found.finishes, found.text) == (None, [(0, "stop")], {0: "a"})
        assert [bool(sent["choices"]) for sent in found.chunks][2:] == [True] + [False] * (len(end) - (end == (DONE,)) > 0)

    @pytest.mark.parametrize("end", [(DONE,), (chunk([], usage=usage()),)])
    def test_an_end_proves_nothing_where_something_was_not_understood(self, end: tuple[bytes, ...]) -> None:
        found = run(role(), says("a"), event(b"Error: out of memory"), *end)
        assert found.failed is not None
        assert (found.failed.fault, found.text, b"[DONE]" in found.out) == (Fault.PROTOCOL, {0: "a"}, False)
        assert run(role(), says("a"), event(b"Error: out of memory"), ends(), *end).failed is None

    def test_what_is_added_has_the_envelope_of_the_last_chunk(self) -> None:
        bare = event(b'{"usage":{"prompt_tokens":10,"completion_tokens":20}}')
        found = run(role(), says("a"), event(b'{"x_vendor":1}'), bare, DONE, edits=SHOWN)
        assert {(sent.get("object"), sent.get("created")) for sent in found.chunks if "x_vendor" not in sent} == {
            ("chat.completion.chunk", 1)
        }
        assert [sent["choices"] for sent in found.chunks[-2:]] == [[{"index": 0, "delta": {}, "finish_reason": "stop"}], []]
        assert "choices" not in found.chunks[2]

    def test_a_missing_finish_of_a_tool_call_says_so(self) -> None:
        call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
        assert run(chunk([{"index": 0, "delta": {"tool_calls": [call]}}]), DONE).finishes == [(0, "tool_calls")]

    def test_a_missing_finish_on_completions_has_their_shape(self) -> None:
        legacy = edits(endpoint=Endpoint.COMPLETIONS)
        found = run(chunk([{"index": 0, "text": "a", "logprobs": None, "finish_reason": None}]), DONE, edits=legacy)
        assert found.chunks[-1]["choices"] == [{"text": "", "index": 0, "logprobs": None, "finish_reason": "stop"}]

    def test_every_choice_has_to_end(self) -> None:
        two = edits(choices=2)
        parts = (says("a"), says("b", 1), ends())
        assert run(*parts, edits=two).failed is not None
        whole = run(*parts, ends("length", 1), edits=two)
        assert (whole.failed, whole.finishes, whole.text) == (None, [(0, "stop"), (1, "length")], {0: "a", 1: "b"})
        assert run(says("a"), ends(), edits=two).failed is not None


def test_several_data_lines_leave_as_one() -> None:
    parts = says("a").replace(b',"created"', b'\ndata: ,"created"')
    found = run(parts, parts, ends(), DONE)
    assert (found.text, found.failed) == ({0: "aa"}, None)


def test_nothing_is_read_after_the_end_mark() -> None:
    reader = OpenAIStream(EDITS)
    reader.feed(b"".join(WHOLE))
    assert reader.done
    after = reader.feed(event(b'{"error":{"message":"late"}}') + says("more"))
    assert (after.out, after.failed) == (b"", None)
    assert reader.end().out == b""


def test_no_answer_shows_in_a_repr() -> None:
    assert "Hel" not in repr(OpenAIStream(EDITS).feed(says("Hel")))
    assert msgspec.json.decode(says("Hel")[6:])["choices"]
