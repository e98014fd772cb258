"""Budgets: the other's run for any length of time from any moment; ours are the calendar's, UTC. In the long run never more."""

import re
from decimal import ROUND_FLOOR, Decimal
from typing import Literal

import msgspec

Period = Literal["day", "week", "month"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_592_000}
_SPELLED = {"hourly": "1h", "daily": "1d", "weekly": "7d", "monthly": "1mo"}
_LENGTHS: tuple[tuple[int, Period], ...] = ((86_400, "day"), (604_800, "week"), (2_678_400, "month"))
_MONTH_S = 28 * 86_400
_CENT = Decimal("0.01")

SAME = "begins with the calendar here, UTC"
LONGER = "the calendar's next longer period here, for the same amount"
PARTS = "no longer period than a month here: a part of the amount for each month that it may touch"
FOR_EVER = "never begins anew there: here the amount is a month's, and its keys expire with this month"


class Carried(msgspec.Struct, frozen=True):
    """A budget as ours says it. One that `ends` never began anew there: what it is for has to end with the period."""

    usd: Decimal
    period: Period
    note: str
    ends: bool = False


def seconds(duration: str) -> int | None:
    """Return how long a duration such as 30d is, None for one that is not known."""
    text = _SPELLED.get(duration.strip().lower(), duration.strip().lower())
    found = re.fullmatch(r"(\d+)\s*(s|m|h|d|w|mo)", text)
    return int(found[1]) * _UNITS[found[2]] if found and int(found[1]) else None


def budget(usd: Decimal, duration: str | None) -> Carried:
    """Return what may be spent in a period of ours: for no less time than there, so that in the long run it is no more."""
    length_s = None if duration is None else seconds(duration)
    if length_s is None:
        return Carried(usd, "month", FOR_EVER, ends=True)
    fitting = next(((length, period) for length, period in _LENGTHS if length_s <= length), None)
    if fitting is None:
        touched = -(-length_s // _MONTH_S) + 1
        return Carried((usd / touched).quantize(_CENT, rounding=ROUND_FLOOR), "month", PARTS)
    length, period = fitting
    is_month = period == "month" and length_s >= _MONTH_S
    return Carried(usd, period, SAME if length_s == length or is_month else LONGER)
