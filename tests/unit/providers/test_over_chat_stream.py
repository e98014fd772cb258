from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.faults import Failed, Fault
from gateway.providers.protocol import Edits, PartsReader, Translation
from gateway.wire.request import InferenceRequest
from gateway.wire.usage import Usage
from tests.fuzz import laws
from tests.unit.providers.chatting import EDITS, asked, called, chat, scored, text_of, token
from tests.unit.providers.chatting import says as complete
from tests.unit.providers.streams import DONE, chunk, ends, event, role, says, usage

SHOWN = replace(EDITS, show_usage=True)
USAGE_CHUNK = chunk([], usage=usage())


class Read(msgspec.Struct):
    """What became of the streams of one request."""

    reader: PartsReader
    out: bytes
    failed: Failed | None
    committed: bool

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the events as values; nothing follows the end mark, if one came."""
        payloads = [each.removeprefix(b"data: ") for each in self.out.split(b"\n\n")[:-1]]
        assert b"[DONE]" not in payloads[:-1]
        return [msgspec.json.decode(payload) for payload in payloads if payload != b"[DONE]"]

    @property
    def done(self) -> int:
        return self.out.count(DONE)

    @property
    def text(self) -> dict[int, str]:
        said: dict[int, str] = {}
        for each in self.events:
            for choice in each["choices"]:
                said[choice["index"]] = said.get(choice["index"], "") + choice["text"]
        return said

    @property
    def finishes(self) -> list[tuple[int, str]]:
        choices = [choice for each in self.events for choice in each["choices"]]
        return [(choice["index"], choice["finish_reason"]) for choice in choices if choice["finish_reason"]]


def read(request: InferenceRequest, *parts: bytes | Sequence[bytes], edits: Edits = EDITS) -> Read:
    """Feed each part's pieces, and between two parts turn to the next, as the replies to several calls come."""
    reader = translation_of(request).reader(replace(edits, choices=request.n * request.prompts))
    out: list[bytes] = []
    committed = False
    for place, part in enumerate(parts):
        for piece in [part] if isinstance(part, bytes) else part:
            step = reader.feed(piece)
            out.append(step.out)
            committed = committed or step.committed
            if step.failed is not None or reader.done:
                return Read(reader, b"".join(out), step.failed, committed)
            if reader.part_done:
                break
        if place < len(parts) - 1 and (missing := reader.turn()) is not None:
            return Read(reader, b"".join(out), missing, committed)
    step = reader.end()
    return Read(reader, b"".join([*out, step.out]), step.failed, committed or step.committed)


def translation_of(request: InferenceRequest) -> Translation:
    found = called(request).translation
    assert found is not None
    return found


def streamed(prompt: object = "Say hi", **fields: object) -> InferenceRequest:
    return asked(prompt, stream=True, **fields)


def choices(found: Read) -> list[list[dict[str, Any]]]:
    return [each["choices"] for each in found.events]


def plain(text: str, finish: str | None = None, index: int = 0) -> list[dict[str, Any]]:
    return [{"text": text, "index": index, "logprobs": None, "finish_reason": finish}]


class TestEvents:
    def test_deltas_become_texts_and_what_says_nothing_vanishes(self) -> None:
        found = read(streamed(), role() + says("") + says("Hel") + says("lo") + ends() + USAGE_CHUNK + DONE)
        assert choices(found) == [plain("Hel"), plain("lo"), plain("", "stop")]
        assert (found.failed, found.done, found.reader.finished, found.reader.done) == (None, 1, True, True)

    def test_every_event_has_one_head(self) -> None:
        given = role() + says("a", id="c2", created=9) + says("b", model="x", system_fingerprint="fp_late") + ends() + DONE
        found = read(streamed(), given).events
        heads = [{name: value for name, value in each.items() if name != "choices"} for each in found]
        assert heads == [heads[0]] * 3
        assert heads[0] == {
            "id": "cmpl-ours",
            "object": "text_completion",
            "created": 1,
            "system_fingerprint": heads[0]["system_fingerprint"],
            "model": "public",
            "service_tier": "default",
        }
        assert heads[0]["system_fingerprint"].startswith("fp_")

    @pytest.mark.parametrize(
        ("delta", "expected"),
        [
            ({"reasoning_content": "hm"}, plain("")),
            ({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}, plain("")),
            ({"refusal": "No"}, plain("No")),
            ({"content": [{"type": "text", "text": "a"}]}, plain("a")),
        ],
    )
    def test_whatever_a_model_does_the_client_sees_that_it_goes_on(self, delta: dict[str, object], expected: object) -> None:
        found = read(streamed(), chunk([{"index": 0, "delta": delta, "finish_reason": None}]) + ends() + DONE)
        assert choices(found)[0] == expected
        assert found.committed

    def test_a_refusal_ends_in_content_filter(self) -> None:
        said = chunk([{"index": 0, "delta": {"refusal": "No"}, "finish_reason": None}])
        assert read(streamed(), said + ends() + DONE).finishes == [(0, "content_filter")]
        assert read(streamed(), said + ends("length") + DONE).finishes == [(0, "length")]

    @pytest.mark.parametrize(("given", "ours"), [("tool_calls", "stop"), ("eos", "stop"), ("length", "length")])
    def test_ends_have_the_words_of_completions(self, given: str, ours: str) -> None:
        assert read(streamed(), says("a") + ends(given) + DONE).finishes == [(0, ours)]

    def test_a_last_delta_with_text_loses_nothing(self) -> None:
        both = chunk([{"index": 0, "delta": {"content": "z"}, "finish_reason": "stop"}])
        assert choices(read(streamed(), says("A") + both + DONE)) == [plain("A"), plain("z", "stop")]

    def test_a_missing_end_is_added_behind_the_end_mark_alone(self) -> None:
        assert read(streamed(), says("a") + DONE).finishes == [(0, "stop")]
        assert read(streamed(), says("a") + USAGE_CHUNK).finishes == [(0, "stop")]
        cut = read(streamed(), says("a"))
        assert cut.failed is not None
        assert (cut.failed.fault, cut.done, cut.text) == (Fault.RESET, 0, {0: "a"})

    def test_each_choice_is_echoed_before_all_else(self) -> None:
        found = read(streamed(n=2, echo=True), role() + says("a") + says("x", 1) + says("b") + ends() + ends(index=1) + DONE)
        assert choices(found)[:2] == [plain("Say hi"), plain("a")]
        assert found.text == {0: "Say hiab", 1: "Say hix"}

    def test_choices_that_come_together_stay_together(self) -> None:
        both = chunk([{"index": place, "delta": {"content": word}, "finish_reason": None} for place, word in enumerate("ab")])
        assert choices(read(streamed(n=2), both + ends() + ends(index=1) + DONE))[0] == plain("a") + plain("b", index=1)


class TestLogprobs:
    def test_offsets_go_on_and_the_end_has_empty_arrays(self) -> None:
        given = role() + scores("Hel", token("Hel", -0.1, ("Hel", -0.1))) + scores("lo", token("lo", -0.2)) + ends() + DONE
        found = [each[0]["logprobs"] for each in choices(read(streamed(logprobs=1), given))]
        assert [each["text_offset"] for each in found] == [[6], [9], []]
        assert found[0] == {"tokens": ["Hel"], "token_logprobs": [-0.1], "top_logprobs": [{"Hel": -0.1}], "text_offset": [6]}
        assert found[2] == {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}

    def test_tokens_without_a_text_of_their_own_are_told(self) -> None:
        given = scores("", token("\ufffd", bytes=[240, 159])) + scores("🌍", token("🌍", bytes=[140, 141])) + ends() + DONE
        found = choices(read(streamed(logprobs=0), given))
        assert [(each[0]["text"], each[0]["logprobs"]["text_offset"]) for each in found] == [("", [6]), ("🌍", [7]), ("", [])]

    def test_a_stop_sequence_has_no_place_in_them(self) -> None:
        last = scores("b", token("b"), token("END"), finish="stop")
        found = choices(read(streamed(logprobs=0), scores("a", token("a")) + last + DONE))
        assert [each[0]["logprobs"]["tokens"] for each in found] == [["a"], ["b"]]


def scores(text: str, *tokens: dict[str, object], finish: str | None = None) -> bytes:
    return chunk([{"index": 0, "delta": {"content": text}, "logprobs": scored(*tokens), "finish_reason": finish}])


class TestUsage:
    def test_it_is_told_once_at_the_end_if_asked(self) -> None:
        stream = says("a") + ends(usage=usage()) + DONE
        assert all("usage" not in each for each in read(streamed(), stream).events)
        *others, last = read(streamed(), stream, edits=SHOWN).events
        assert [each["usage"] for each in others] == [None, None]
        assert (last["choices"], last["usage"]) == ([], {**usage(), "estimated_cost": 5e-05})
        assert last["id"] == "cmpl-ours"

    def test_none_is_told_where_none_was(self) -> None:
        found = read(streamed(), says("abcd") + ends() + DONE, edits=SHOWN)
        assert (len(found.events), found.reader.usage, found.reader.output_bytes) == (2, None, 4)

    def test_the_finish_may_carry_it(self) -> None:
        found = read(streamed(), says("a") + ends() + USAGE_CHUNK + DONE, edits=replace(EDITS, usage_on_finish=True)).events
        assert [(each["choices"][0]["finish_reason"], each.get("usage") is None) for each in found] == [
            (None, True),
            ("stop", False),
        ]

    def test_running_totals_stay_where_they_are(self) -> None:
        edits = replace(SHOWN, running_usage=True)
        found = read(streamed(), says("a", usage=usage(10, 1)) + ends(usage=usage(10, 2)) + DONE, edits=edits).events
        assert [each["usage"]["completion_tokens"] for each in found] == [1, 2, 2]

    def test_it_is_known_as_soon_as_it_was_stated(self) -> None:
        for stream in (says("abcd") + ends(usage=usage()), says("abcd") + ends() + USAGE_CHUNK):
            reader = translation_of(streamed()).reader(EDITS)
            reader.feed(stream)
            assert (reader.usage, reader.output_bytes) == (Usage(input=10, output=20), 0)

    def test_what_was_said_after_it_is_told_too(self) -> None:
        found = read(streamed(), says("a", usage=usage(10, 1)) + says("bcd"))
        assert (found.reader.usage, found.reader.output_bytes) == (Usage(input=10, output=1), 4)


ONE = says("A") + ends() + chunk([], usage=usage(3, 4))
TWO = says("B", id="c2") + ends("length", id="c2") + chunk([], usage=usage(5, 6))


class TestParts:
    def test_several_prompts_are_one_stream(self) -> None:
        found = read(streamed(["one", "two"], echo=True), role() + ONE + DONE, role() + TWO + DONE, edits=SHOWN)
        assert found.text == {0: "oneA", 1: "twoB"}
        assert found.finishes == [(0, "stop"), (1, "length")]
        assert found.done == 1
        assert {each["id"] for each in found.events} == {"cmpl-ours"}
        assert [each["usage"] for each in found.events if each["usage"]] == [{**usage(8, 10), "estimated_cost": 2.8e-05}]
        assert (found.reader.usage, found.reader.output_bytes) == (Usage(input=8, output=10), 0)

    def test_the_index_counts_prompts_and_choices(self) -> None:
        both = says("a") + says("b", 1) + ends() + ends(index=1) + DONE
        assert read(streamed(["one", "two"], n=2), both, both).text == {0: "a", 1: "b", 2: "a", 3: "b"}

    def test_parts_may_end_with_their_body(self) -> None:
        found = read(streamed(["one", "two"]), ONE, TWO, edits=SHOWN)
        assert (found.failed, found.done, found.text, found.events[-1]["usage"]["total_tokens"]) == (
            None,
            1,
            {0: "A", 1: "B"},
            18,
        )

    @pytest.mark.parametrize("end", [DONE, USAGE_CHUNK, ends()[:-1]])
    def test_an_end_that_one_part_forgot_comes_before_the_next(self, end: bytes) -> None:
        assert read(streamed(["one", "two"]), says("A") + end, TWO + DONE).finishes == [(0, "stop"), (1, "length")]

    def test_the_tier_is_the_first_parts(self) -> None:
        one, two = (says("a", service_tier=tier) + ends() + DONE for tier in ("default", "flex"))
        found = read(streamed(["one", "two"]), one, two)
        assert found.reader.tier == "default"
        assert {each["service_tier"] for each in found.events} == {"default"}

    def test_what_is_committed_stays_so(self) -> None:
        reader = translation_of(streamed(["one", "two"])).reader(EDITS)
        assert reader.feed(ONE + DONE).committed
        assert reader.turn() is None
        assert reader.feed(role()).committed

    def test_the_finish_that_carries_usage_is_the_last_parts(self) -> None:
        edits = replace(EDITS, usage_on_finish=True)
        found = read(streamed(["one", "two"]), ONE + DONE, TWO + DONE, edits=edits)
        assert [each.get("usage", {}).get("total_tokens") for each in found.events] == [None, None, None, 18]
        assert found.finishes == [(0, "stop"), (1, "length")]

    @pytest.mark.parametrize(
        "broken", [b"", says("B"), says("B") + event(b'{"error":{"code":502,"message":"lost"}}'), role() + DONE]
    )
    def test_one_that_breaks_breaks_all(self, broken: bytes) -> None:
        found = read(streamed(["one", "two"]), ONE + DONE, broken)
        assert found.failed is not None
        assert (found.done, found.committed, found.reader.finished) == (0, True, False)
        first = read(streamed(["one", "two"]), broken, TWO + DONE)
        assert first.failed is not None
        assert (first.done, first.text.get(1)) == (0, None)

    def test_what_is_known_of_the_usage_is_that_of_whole_parts(self) -> None:
        request = streamed(["one", "two"])
        begun = read(request, ONE + DONE, role())
        assert (begun.reader.usage, begun.reader.output_bytes) == (Usage(input=3, output=4), 0)
        saying = read(request, ONE + DONE, says("four"))
        assert (saying.reader.usage, saying.reader.output_bytes) == (None, len("Afour"))
        stated = read(request, ONE + DONE, says("four", usage=usage(5, 1)))
        assert (stated.reader.usage, stated.reader.output_bytes) == (Usage(input=8, output=5), 0)
        never = read(request, says("A") + ends() + DONE, TWO + DONE)
        assert (never.reader.usage, never.reader.output_bytes) == (None, len("AB"))

    def test_strange_events_are_counted_over_all(self) -> None:
        found = read(streamed(["one", "two"]), event(b"?") + ONE + DONE, event(b"?") + event(b"?") + TWO + DONE)
        assert found.reader.strange_events == 3


words = st.text(max_size=6)
deltas = st.one_of(
    st.fixed_dictionaries({"content": words}),
    st.fixed_dictionaries({"reasoning_content": words}),
    st.fixed_dictionaries({"refusal": words}),
)


@st.composite
def parts(draw: st.DrawFn, choices_each: int = 2) -> bytes:
    """Draw one part's stream of any line ends, whole or not."""
    events = [role()]
    for _ in range(draw(st.integers(0, 5))):
        index = draw(st.integers(0, choices_each - 1))
        delta = draw(deltas)
        logprobs = draw(st.sampled_from([None, scored(token("a"), token("b"))]))
        events.append(chunk([{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}]))
        events.append(draw(st.sampled_from([b"", b": ping\n\n", event(b"?")])))
    events += [
        ends(draw(st.sampled_from(["stop", "length", "eos"])), index) for index in range(draw(st.integers(0, choices_each)))
    ]
    events.append(draw(st.sampled_from([b"", USAGE_CHUNK, DONE, USAGE_CHUNK + DONE, event(b'{"error":"x"}')])))
    return b"".join(events).replace(b"\n", draw(st.sampled_from(laws.LINE_ENDS)))


def cut(part: bytes, places: Iterable[int]) -> list[bytes]:
    at = sorted({place % (len(part) + 1) for place in places})
    return [part[a:b] for a, b in zip([0, *at], [*at, len(part)], strict=True)]


@given(
    st.lists(parts(), min_size=1, max_size=3),
    st.lists(st.integers(0, 3_000), max_size=6),
    st.sampled_from([{}, {"logprobs": 1}, {"echo": True}]),
    st.sampled_from([EDITS, SHOWN, replace(EDITS, usage_on_finish=True), replace(SHOWN, running_usage=True)]),
)
def test_where_reads_are_cut_changes_nothing(
    streams: list[bytes], places: list[int], fields: dict[str, object], edits: Edits
) -> None:
    request = streamed(["p"] * len(streams), n=2, **fields)
    whole = read(request, *streams, edits=edits)
    for pieces in ([cut(part, places) for part in streams], [cut(part, range(len(part))) for part in streams]):
        found = read(request, *pieces, edits=edits)
        assert (found.out, found.failed, found.committed) == (whole.out, whole.failed, whole.committed)
        assert (found.reader.usage, found.reader.output_bytes) == (whole.reader.usage, whole.reader.output_bytes)
    assert whole.done == (whole.failed is None)
    assert [place for place, _ in whole.finishes] == sorted({place for place, _ in whole.finishes}) or whole.failed is not None
    assert whole.reader.usage is not None or whole.reader.output_bytes >= len("".join(whole.text.values())) * (not fields)


@given(st.lists(words, min_size=1, max_size=5), words, st.booleans())
def test_a_stream_says_what_a_whole_answer_does(said: list[str], refusal: str, echo: bool) -> None:
    pieces = [says(each) for each in said] + [chunk([{"index": 0, "delta": {"refusal": refusal}, "finish_reason": None}])]
    found = read(streamed(echo=echo), b"".join(pieces) + ends() + DONE)
    (whole,) = text_of(asked(echo=echo), chat(complete("".join(said), refusal=refusal or None)))["choices"]
    assert (found.text[0], found.finishes) == (whole["text"], [(0, whole["finish_reason"])])


@pytest.mark.parametrize("end", laws.LINE_ENDS, ids=["lf", "crlf", "cr"])
def test_no_single_cut_changes_anything(end: bytes) -> None:
    request = streamed(["one", "two"], echo=True)
    one, two = (part.replace(b"\n", end) for part in (role() + ONE + DONE, says("你好🌍") + TWO + DONE))
    whole = read(request, one, two, edits=SHOWN)
    assert whole.text == {0: "oneA", 1: "two你好🌍B"}
    for place in range(max(len(one), len(two))):
        assert read(request, cut(one, [place]), cut(two, [place]), edits=SHOWN).out == whole.out
