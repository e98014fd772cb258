from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.faults import Fault
from gateway.providers.anthropic_stream import AnthropicStream
from gateway.providers.protocol import Answer
from gateway.wire.usage import Usage
from tests.unit.providers.messages import DIALECT, EDITS, add, begin, chunks, end, event, joined, message, play, start, stop, text

WHOLE = start() + text("Hello") + end()

words = st.text(max_size=8)
blocks = st.one_of(
    st.builds(lambda said: {"type": "text", "text": said}, words),
    st.builds(lambda said: {"type": "thinking", "thinking": said, "signature": "s"}, words),
    st.just({"type": "redacted_thinking", "data": "x"}),
    st.builds(
        lambda call, given: {"type": "tool_use", "id": f"toolu_{call}", "name": "f", "input": given},
        st.uuids(),
        st.dictionaries(words, st.integers() | words, max_size=2),
    ),
)
reasons = st.sampled_from(["end_turn", "stop_sequence", "max_tokens", "tool_use", "refusal", "pause_turn", "of another day"])


@st.composite
def told(draw: st.DrawFn, content: list[dict[str, Any]]) -> bytes:
    """Draw the events that tell this content: how much of a block comes at its beginning, in pieces, or not before its end."""
    out: list[bytes] = []
    for index, block in enumerate(content):
        if draw(st.booleans()):
            out.append(event("ping"))
        kind = block["type"]
        if kind == "tool_use":
            out.append(begin(index, **{**block, "input": block["input"] if draw(st.booleans()) else {}}))
            arguments = msgspec.json.encode(block["input"]).decode()
            cut = draw(st.integers(0, len(arguments)))
            # Without any piece what stands at the beginning counts.
            if out[-1] != begin(index, **block) or draw(st.booleans()):
                out += [add(index, partial_json=piece) for piece in ("", arguments[:cut], arguments[cut:])]
        elif kind in ("text", "thinking"):
            cut = draw(st.integers(0, len(block[kind])))
            out.append(begin(index, **{**block, kind: block[kind][:cut]}))
            out.append(add(index, **{kind: block[kind][cut:]}))
            out.append(add(index, type="signature_delta", signature="s"))
        else:
            out.append(begin(index, **block))
        out.append(stop(index))
    return b"".join(out)


@given(st.data(), st.lists(blocks, max_size=4), reasons)
def test_a_stream_says_what_the_whole_answer_says(data: st.DataObject, content: list[dict[str, Any]], reason: str) -> None:
    whole = DIALECT.answer(message(*content, stop_reason=reason, output_tokens_details={"thinking_tokens": 3}), EDITS)
    assert isinstance(whole, Answer)
    _, out, failed = play([start(), data.draw(told(content)), end(reason, output_tokens_details={"thinking_tokens": 3})])
    assert failed is None
    found, answer = joined(out), msgspec.json.decode(whole.body)
    [choice] = answer["choices"]
    said = choice["message"]
    calls = [{"id": call["id"], **call["function"]} for call in said.get("tool_calls", ())]
    assert found["tool_calls"] == calls
    assert found["content"] == (said["content"] or "")
    assert found["reasoning_content"] == said.get("reasoning_content", "")
    assert (found["finish"], found["usage"]) == (choice["finish_reason"], answer["usage"])
    head = {name: answer[name] for name in ("id", "created", "model", "system_fingerprint", "service_tier")}
    assert all(head.items() <= chunk.items() for chunk in chunks(out))


@given(
    st.data(), st.lists(blocks, max_size=4), st.lists(st.integers(0, 3_000), max_size=6), st.sampled_from(["\n", "\r\n", "\r"])
)
def test_where_reads_are_cut_changes_nothing(data: st.DataObject, content: list[Any], cuts: list[int], line_end: str) -> None:
    last = data.draw(st.sampled_from([b"", end(), end()[:-2], event("error", error={"type": "api_error", "message": "x"})]))
    stream = (start() + data.draw(told(content)) + last).replace(b"\n", line_end.encode())
    assert cut_at(stream, range(len(stream))) == cut_at(stream, cuts) == cut_at(stream, ())


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_no_single_cut_changes_anything(line_end: bytes) -> None:
    stream = (b": hi\n\n" + start() + text("H\u00e9") + begin(1, type="tool_use", id="t", name="f", input={}) + end()).replace(
        b"\n", line_end
    )
    whole = cut_at(stream, ())
    assert whole[1] is None
    for cut in range(len(stream)):
        assert cut_at(stream, (cut,)) == whole


def cut_at(stream: bytes, cuts: Any) -> tuple[object, ...]:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader, out, failed = play(stream[first:last] for first, last in pairwise(places))
    assert out.count(b"data: [DONE]\n\n") == out.endswith(b"data: [DONE]\n\n") == reader.done
    return out, failed, reader.usage, reader.tier, reader.output_bytes, reader.finished, reader.done


@given(st.binary(max_size=80))
def test_no_bytes_break_a_reader(data: bytes) -> None:
    for stream in (data, start() + data, start() + text("x") + b"data: " + data):
        reader, out, failed = play([stream])
        assert (failed is None) == reader.done == out.endswith(b"data: [DONE]\n\n")


class TestCommit:
    @pytest.mark.parametrize(
        "events", [start(), start() + event("ping"), start() + begin(type="text", text=""), start() + begin(type="thinking")]
    )
    def test_what_says_nothing_does_not(self, events: bytes) -> None:
        step = DIALECT.reader(EDITS).feed(events)
        assert (step.committed, step.out, step.failed) == (False, b"", None)

    @pytest.mark.parametrize(
        "said",
        [
            begin(type="text", text="x"),
            add(text="x"),
            add(thinking="x"),
            begin(type="tool_use", id="t", name="f", input={}),
            end(),
            end("refusal"),
        ],
    )
    def test_any_content_and_any_end_does(self, said: bytes) -> None:
        reader = DIALECT.reader(EDITS)
        assert not reader.feed(start()).committed
        assert reader.feed(said).committed

    @pytest.mark.parametrize(
        ("kind", "fault"),
        [
            ("overloaded_error", Fault.BUSY),
            ("rate_limit_error", Fault.ACCOUNT_RATE),
            ("api_error", Fault.SERVER),
            ("timeout_error", Fault.UPSTREAM_TIMEOUT),
            ("authentication_error", Fault.CREDENTIAL),
            ("permission_error", Fault.CREDENTIAL),
            ("billing_error", Fault.BILLING),
            ("invalid_request_error", Fault.REJECTED),
            ("request_too_large", Fault.REJECTED),
            ("of_another_day_error", Fault.BAD_ANSWER),
        ],
    )
    def test_an_error_inside_is_of_its_class(self, kind: str, fault: Fault) -> None:
        error = event("error", error={"type": kind, "message": "It did not work"})
        for before in (b"", start(), start() + text("Hello")):
            _, out, failed = play([before + error])
            assert failed is not None
            assert failed.fault is fault
            assert bool(out) == (b"Hello" in before)


class TestEnd:
    @pytest.mark.parametrize("length", range(len(WHOLE) - len(event("message_stop")) - 1, len(WHOLE) - 2))
    def test_a_stream_without_message_stop_is_broken(self, length: int) -> None:
        reader, out, failed = play([WHOLE[:length]])
        assert failed is not None
        assert failed.fault is Fault.RESET
        assert not reader.finished
        assert b"[DONE]" not in out

    def test_the_last_line_end_is_not_waited_for(self) -> None:
        assert joined(play([WHOLE[:-1]])[1]) == joined(play([WHOLE])[1])

    @pytest.mark.parametrize(
        "rest", [event("ping"), b"data: [DONE]\n\n", event("error", error={"type": "api_error"}), b"data: {"]
    )
    def test_nothing_behind_the_end_counts(self, rest: bytes) -> None:
        assert play([WHOLE + rest])[1:] == play([WHOLE])[1:]

    def test_an_end_without_a_reason_has_the_one_that_fits(self) -> None:
        bare = event("message_delta", delta={}) + event("message_stop")
        assert joined(play([start() + text("x") + bare])[1])["finish"] == "stop"
        call = begin(type="tool_use", id="t", name="f", input={}) + stop()
        assert joined(play([start() + call + bare])[1])["finish"] == "tool_calls"

    def test_a_call_that_is_not_ended_has_its_arguments_all_the_same(self) -> None:
        calls = begin(type="tool_use", id="t", name="f", input={"a": 1}) + begin(1, type="tool_use", id="u", name="g", input=None)
        found = joined(play([start() + calls + end("tool_use")])[1])
        assert [call["arguments"] for call in found["tool_calls"]] == ['{"a":1}', "{}"]

    def test_what_is_null_says_nothing(self) -> None:
        said = begin(type="text", text=None) + add(text=None, thinking=None, partial_json=None) + text("x", 1)
        assert joined(play([start() + said + end()])[1])["content"] == "x"

    def test_an_end_of_nothing_is_no_answer(self) -> None:
        _, out, failed = play([start() + event("message_stop")])
        assert failed is not None
        assert (failed.fault, out) == (Fault.BAD_ANSWER, b"")

    @pytest.mark.parametrize(
        "broken", [b"data: {\n\n", b'data: {"type":5}\n\n', b'data: {"type":"message_start","message":1}\n\n']
    )
    def test_what_cannot_be_read_breaks_a_stream(self, broken: bytes) -> None:
        _, _, failed = play([start() + broken + text("x") + end()])
        assert failed is not None
        assert failed.fault is Fault.PROTOCOL

    def test_an_event_beyond_bounds_breaks_a_stream(self) -> None:
        reader = AnthropicStream(EDITS, 1_000, (), DIALECT._head(EDITS))
        assert reader.feed(start() + text("x")).failed is None
        failed = reader.feed(add(text="x" * 1_000)).failed
        assert failed is not None
        assert failed.fault is Fault.PROTOCOL


class TestUsage:
    def test_running_totals_are_not_added_up(self) -> None:
        stream = start(input_tokens=5000) + text("x") + end(input_tokens=200, cache_read_input_tokens=4800, output_tokens=40)
        reader, out, _ = play([stream])
        assert reader.usage == Usage(input=5000, output=40, cached=4800)
        assert joined(out)["usage"]["prompt_tokens_details"] == {"cached_tokens": 4800}

    def test_zeros_at_the_end_are_no_figures(self) -> None:
        reader, _, _ = play([start(cache_read_input_tokens=5) + text("x") + end(input_tokens=0, cache_read_input_tokens=0)])
        assert reader.usage == Usage(input=15, output=20, cached=5)

    def test_what_was_told_at_the_beginning_counts_where_the_end_never_comes(self) -> None:
        reader, _, _ = play([start() + text("Hello there")])
        assert (reader.usage, reader.output_bytes) == (Usage(input=10, output=1), len("Hello there"))

    def test_what_was_told_last_leaves_nothing_to_estimate(self) -> None:
        reader, _, failed = play([start() + text("Hello there") + end().removesuffix(event("message_stop"))])
        assert failed is not None
        assert (reader.usage, reader.output_bytes) == (Usage(input=10, output=20), 0)

    def test_a_client_that_did_not_ask_is_told_nothing(self) -> None:
        _, out, _ = play([WHOLE], msgspec.structs.replace(EDITS, show_usage=False))
        assert b"usage" not in out

    def test_usage_may_stand_on_the_chunk_that_ends_a_stream(self) -> None:
        _, out, _ = play([WHOLE], msgspec.structs.replace(EDITS, show_usage=False, usage_on_finish=True))
        last = chunks(out)[-1]
        assert (last["choices"][0]["finish_reason"], last["usage"]["total_tokens"]) == ("stop", 30)

    def test_none_is_told_where_none_came(self) -> None:
        bare = event("message_start", message={}) + text("x") + event("message_delta", delta={"stop_reason": "end_turn"})
        reader, out, failed = play([bare + event("message_stop")])
        assert (failed, reader.usage, joined(out)["usage"]) == (None, None, None)
