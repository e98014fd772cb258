"""Periods of the calendar (UTC): the day, the week from Monday and the month that an instant lies in. Unix milliseconds. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS

MONTH = 0
"""In the place of a period's length: a month, which has none of its own."""

MONDAY_MS = 4 * DAY_MS
"""The first Monday of the epoch, which began on a Thursday."""

PERIODS: Mapping[str, int] = {"day": DAY_MS, "week": WEEK_MS, "month": MONTH}
"""Their lengths by the names that an operator writes."""


def bounds_ms(at_ms: int, period_ms: int) -> tuple[int, int]:
    """Return when the period began that an instant lies in, and when it ends."""
    if period_ms != MONTH:
        began_ms = at_ms - (at_ms - (MONDAY_MS if period_ms == WEEK_MS else 0)) % period_ms
        return began_ms, began_ms + period_ms
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return _first_ms(at.year, at.month), _first_ms(at.year + at.month // 12, at.month % 12 + 1)


def _first_ms(year: int, month: int) -> int:
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000
