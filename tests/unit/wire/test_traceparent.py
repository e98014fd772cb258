import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.traceparent import Parent, parse, render

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"

GOOD = {
    f"00-{TRACE}-{SPAN}-01": True,
    f"00-{TRACE}-{SPAN}-00": False,
    f"00-{TRACE}-{SPAN}-03": True,  # flags that are not known mean nothing
    f"00-{TRACE}-{SPAN}-fe": False,
    f" 00-{TRACE}-{SPAN}-01\t": True,
    f"01-{TRACE}-{SPAN}-01": True,
    f"cc-{TRACE}-{SPAN}-01-what-the-future-may-bring": True,
}

BAD = [
    "",
    "00",
    f"00-{TRACE}-{SPAN}",
    f"00-{TRACE}-{SPAN}-",
    f"00-{TRACE}-{SPAN}-1",
    f"00-{TRACE}-{SPAN}-0x",
    f"00-{TRACE}-{SPAN}-01-",
    f"00-{TRACE}-{SPAN}-01-more",
    f"cc-{TRACE}-{SPAN}-01.more",
    f"ff-{TRACE}-{SPAN}-01",
    f"0-{TRACE}-{SPAN}-01",
    f"00-{TRACE.upper()}-{SPAN}-01",
    f"00-{TRACE}-{SPAN.upper()}-01",
    f"00-{TRACE[1:]}-{SPAN}-01",
    f"00-{TRACE}-{SPAN}0-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00_{TRACE}_{SPAN}_01",
    f"00-{TRACE}-{SPAN}-01\n00-{TRACE}-{SPAN}-01",
    "é" * 55,
]


@pytest.mark.parametrize("value", GOOD)
def test_what_is_understood(value: str) -> None:
    assert parse(value.encode()) == Parent(int(TRACE, 16), int(SPAN, 16), GOOD[value])


@pytest.mark.parametrize("value", BAD)
def test_what_is_malformed_is_as_if_it_were_not_there(value: str) -> None:
    assert parse(value.encode()) is None


@given(st.binary(max_size=80))
def test_no_bytes_are_an_error(value: bytes) -> None:
    assert parse(value) is None or len(value) >= 55


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_what_is_read(trace_id: int, span_id: int, sampled: bool) -> None:
    parent = Parent(trace_id, span_id, sampled)
    assert len(render(parent)) == 55
    assert parse(render(parent)) == parent
