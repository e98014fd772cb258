"""Any cut of any stream gives the client the same: drawn examples, and whatever a fuzzer has found."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.request import Endpoint
from tests.fuzz import laws
from tests.unit.providers.streams import DONE, chunk, edits, ends, role, usage

CORPUS = sorted((Path(laws.__file__).parent / "corpus").iterdir())

words = st.text(max_size=12)
deltas = st.one_of(
    st.fixed_dictionaries({"content": words}),
    st.fixed_dictionaries({"content": st.none(), "reasoning_content": words}),
    st.fixed_dictionaries({"refusal": words}),
    st.fixed_dictionaries({"tool_calls": st.just([{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}])}),
)
extras = st.dictionaries(st.sampled_from(["system_fingerprint", "service_tier", "usage", "x"]), st.none() | words, max_size=2)


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """Draw a chunk, written in any of the ways that mean the same: gaps between members, line ends, several data lines."""
    choice: dict[str, object] = {
        "index": draw(st.integers(0, 1)),
        "delta": draw(deltas),
        "finish_reason": draw(st.sampled_from([None, None, "stop"])),
    }
    payload = chunk([choice], **draw(extras))[len(b"data: ") : -2]
    if draw(st.booleans()):
        payload = payload.replace(b',"object"', b'\ndata: ,  "object"', 1)
    end = draw(st.sampled_from(laws.LINE_ENDS))
    return draw(st.sampled_from([b"data: ", b"data:"])) + payload.replace(b"\n", end) + end + end


noise = st.sampled_from(
    [b": ping\n\n", b":\r\r", b"retry: 3\r\n\r\n", b"event: x\nid: 1\n\n", b"data:\n\n", b"data: null\n\n", b"\n"]
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw a stream that begins and ends as those of providers do, or does not."""
    middle = draw(st.lists(st.one_of(events(), events(), noise), max_size=6))
    beginning = draw(st.sampled_from([b"", role(), laws.BYTE_ORDER_MARK + role()]))
    end = draw(st.sampled_from([b"", DONE, ends() + DONE, ends() + chunk([], usage=usage()) + DONE, DONE[:-1], DONE[:-2]]))
    return beginning + b"".join(middle) + end


@given(streams(), st.lists(st.integers(0, 2_000), max_size=6), st.booleans(), st.sampled_from(Endpoint))
def test_where_reads_are_cut_changes_nothing(stream: bytes, cuts: list[int], shown: bool, endpoint: Endpoint) -> None:
    laws.cut_anywhere(stream, cuts, edits(show_usage=shown, endpoint=endpoint))
    laws.assert_events(stream)


@pytest.mark.parametrize("end", laws.LINE_ENDS, ids=["lf", "crlf", "cr"])
def test_no_single_cut_changes_anything(end: bytes) -> None:
    parts = (laws.BYTE_ORDER_MARK, b": hi\n\n", role(), laws.PARTS[2], b"data: null\n\n", ends(), chunk([], usage=usage()), DONE)
    stream = b"".join(parts).replace(b"\n", end)
    assert laws.cut_anywhere(stream, [], edits(show_usage=True)).failed is None, "byte by byte"
    for cut in range(len(stream)):
        assert laws.cut_anywhere(stream, [cut], edits(show_usage=True), step=len(stream)).failed is None


@given(st.binary(max_size=60))
def test_no_bytes_break_a_law(data: bytes) -> None:
    laws.check(data)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_was_found_once_holds(path: Path) -> None:
    laws.check(path.read_bytes())
