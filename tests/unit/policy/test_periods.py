"""Periods of the calendar, against the calendar."""

from calendar import monthrange
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.periods import DAY_MS, MONTH, PERIODS, WEEK_MS, bounds_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 430 * 365 * DAY_MS).map(lambda at_ms: EPOCH + timedelta(milliseconds=at_ms))


def ms(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(milliseconds=1)


@given(INSTANTS)
def test_a_day_a_week_and_a_month_are_the_calendars(instant: datetime) -> None:
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=midnight.weekday())
    first = midnight.replace(day=1)
    _, days = monthrange(first.year, first.month)
    assert bounds_ms(ms(instant), DAY_MS) == (ms(midnight), ms(midnight + timedelta(days=1)))
    assert bounds_ms(ms(instant), WEEK_MS) == (ms(monday), ms(monday + timedelta(days=7)))
    assert bounds_ms(ms(instant), MONTH) == (ms(first), ms(first + timedelta(days=days)))


@given(INSTANTS, st.sampled_from([*PERIODS.values()]))
def test_one_period_begins_where_the_last_one_ends(instant: datetime, period_ms: int) -> None:
    began_ms, ends_ms = bounds_ms(ms(instant), period_ms)
    assert bounds_ms(began_ms, period_ms) == bounds_ms(ends_ms - 1, period_ms) == (began_ms, ends_ms)
    assert bounds_ms(ends_ms, period_ms)[0] == ends_ms


@pytest.mark.parametrize(
    ("period", "began", "ends"),
    [
        ("day", "2028-02-29", "2028-03-01"),
        ("week", "2028-02-28", "2028-03-06"),
        ("month", "2028-02-01", "2028-03-01"),
    ],
)
def test_the_day_that_a_leap_year_adds(period: str, began: str, ends: str) -> None:
    at = datetime(2028, 2, 29, 23, 59, 59, 999_000, tzinfo=UTC)
    expected = tuple(ms(datetime.fromisoformat(f"{day}T00:00+00:00")) for day in (began, ends))
    assert bounds_ms(ms(at), PERIODS[period]) == expected
