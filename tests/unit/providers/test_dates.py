from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.dates import http_date


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"Wed, 21 Oct 2026 07:28:30 GMT", datetime(2026, 10, 21, 7, 28, 30, tzinfo=UTC)),
        (b"Wed, 21 Oct 2026 07:28:30 -0000", None),
        (b"Wed, 21 Oct 99999999999999999999 07:28:30 GMT", None),
        (b"Wed, 21 Oct 2026 07:28:30 +99999999999999999999", None),
        (b"Wed, 31 Feb 2026 07:28:30 GMT", None),
        (b"tomorrow", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_a_date_with_a_zone_is_a_point_in_time(value: bytes, expected: datetime | None) -> None:
    assert http_date(value) == expected


WRITTEN = st.builds(b"Wed, %d Oct %d 07:%d:30 %+d".__mod__, st.tuples(*[st.integers(min_value=0)] * 3, st.integers()))


@given(st.binary(max_size=60) | WRITTEN)
def test_no_header_breaks_it(value: bytes) -> None:
    named = http_date(value)
    assert named is None or named.utcoffset() is not None
