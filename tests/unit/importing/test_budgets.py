from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.importing.budgets import FOR_EVER, LONGER, PARTS, SAME, budget, seconds


@pytest.mark.parametrize(
    ("duration", "period", "note"),
    [
        ("30s", "day", LONGER),
        ("1h", "day", LONGER),
        ("24h", "day", SAME),
        ("1d", "day", SAME),
        ("daily", "day", SAME),
        ("2d", "week", LONGER),
        ("7d", "week", SAME),
        ("1w", "week", SAME),
        ("8d", "month", LONGER),
        ("30d", "month", SAME),
        ("1mo", "month", SAME),
        ("monthly", "month", SAME),
    ],
)
def test_a_budget_is_for_no_less_time_than_there(duration: str, period: str, note: str) -> None:
    found = budget(Decimal("12.5"), duration)
    assert (found.usd, found.period, found.note, found.ends) == (Decimal("12.5"), period, note, False)


@pytest.mark.parametrize("duration", [None, "", "soon", "0d", "1 fortnight"])
def test_one_that_never_begins_anew_ends(duration: str | None) -> None:
    found = budget(Decimal(5), duration)
    assert (found.usd, found.period, found.note, found.ends) == (Decimal(5), "month", FOR_EVER, True)


@given(
    usd=st.integers(1, 10**6).map(Decimal),
    days=st.integers(32, 2000),
    start_unix_s=st.integers(1_577_836_800, 2_208_988_800),
)
def test_the_months_that_a_long_time_touches_have_no_more_together(usd: Decimal, days: int, start_unix_s: int) -> None:
    found = budget(usd, f"{days}d")
    start = datetime.fromtimestamp(start_unix_s, UTC)
    end = start + timedelta(days=days)
    touched = (end.year - start.year) * 12 + end.month - start.month + 1
    assert found.note == PARTS
    assert found.usd * touched <= usd


def test_lengths_are_known() -> None:
    assert [seconds(each) for each in ("30s", "5m", "2h", "7d", "2w", "1mo", "x")] == [
        30,
        300,
        7200,
        604_800,
        1_209_600,
        2_592_000,
        None,
    ]
