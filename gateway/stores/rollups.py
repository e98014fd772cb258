"""What requests have in common, added up by hour, day and month as they are stored: reports need not look at the requests.

A request counts once it has ended, for the hour in which it began. A row that is replaced by one that knows more takes back what
it counted; one that is stored again counts nothing. So sums equal the rows at every commit, and stay when rows are deleted.
Does no IO.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Column, Table, Text

from gateway.stores.schema import METADATA

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

TOKENS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
FIGURES = ("requests", *TOKENS, "cost_nano_usd", "own_cost_nano_usd", "unpriced", "own_unpriced", "estimated")
"""What is added up; `unpriced` and `own_unpriced` count requests whose cost, or own cost, nobody knows: it is in no sum."""

NAMES = ("org", "key_id", "key", "project", "model_served", "provider", "tier_served", "outcome")
"""What requests may have in common. In a sum, whatever a request has none of is empty: a null is equal to nothing."""

Names = tuple[str, ...]
Figures = tuple[int, ...]
Sums = dict[tuple[int, Names], Figures]


SERVED = NAMES[NAMES.index("model_served") :]
"""What does not tell callers apart, of which there are thousands."""


def _table(name: str, names: Names = NAMES) -> Table:
    return Table(
        name,
        METADATA,
        Column("start_unix_ms", BigInteger, primary_key=True, autoincrement=False),
        *(Column(each, Text, primary_key=True) for each in names),
        *(Column(each, BigInteger, nullable=False) for each in FIGURES),
        sqlite_with_rowid=False,
    )


def start_of_hour(unix_ms: int) -> int:
    """Return when the hour began that an instant lies in."""
    return unix_ms - unix_ms % HOUR_MS


def start_of_day(unix_ms: int) -> int:
    """Return when the UTC day began."""
    return unix_ms - unix_ms % DAY_MS


def start_of_month(unix_ms: int) -> int:
    """Return when the UTC month began."""
    return _first_of(unix_ms // DAY_MS)


@lru_cache(64)
def _first_of(day: int) -> int:
    date = datetime.fromtimestamp(day * DAY_MS / 1000, UTC)
    return (day - date.day + 1) * DAY_MS


class Span(msgspec.Struct, frozen=True):
    """One size of sums: its table, where the span of an instant begins, and which names it has, the last of `NAMES`."""

    table: Table
    start: Callable[[int], int]
    names: Names = NAMES


HOUR = Span(_table("usage_hourly"), start_of_hour)
DAY = Span(_table("usage_daily"), start_of_day)
MONTH = Span(_table("usage_monthly"), start_of_month)
DAY_SERVED = Span(_table("usage_daily_served", SERVED), start_of_day, SERVED)
"""A day of all callers: some hundred sums, where those of a day by caller are thousands."""

MADE_OF = ((DAY, HOUR), (MONTH, DAY), (DAY_SERVED, DAY))
SPANS = (HOUR, *(span for span, _ in MADE_OF))


def changes(replaced: Iterable[Any], stored: Iterable[Any]) -> Mapping[Span, Sums]:
    """Return what is to be added to the sums where the rows `stored` take the places of the rows `replaced`."""
    hours: Sums = {}
    for row in replaced:
        _count(hours, row, -1)
    for row in stored:
        _count(hours, row, 1)
    sums = {HOUR: hours}
    for span, smaller in MADE_OF:
        sums[span] = _folded(span, sums[smaller])
    return {span: {place: figures for place, figures in found.items() if any(figures)} for span, found in sums.items()}


def rows_of(sums: Sums) -> Sequence[tuple[int | str, ...]]:
    """Return sums as rows of their table, in the order of its key: writers that take rows in one order cannot deadlock."""
    return [(start, *names, *sums[start, names]) for start, names in sorted(sums)]


def _count(hours: Sums, row: Any, sign: int) -> None:
    if row.rank == 0:  # nobody knows yet what it comes to
        return
    cost, own_cost = row.cost_nano_usd, row.own_cost_nano_usd
    figures = (
        1,
        row.input_tokens,
        row.cached_tokens,
        row.cache_write_tokens,
        row.output_tokens,
        row.reasoning_tokens,
        cost or 0,
        own_cost or 0,
        int(cost is None),
        int(own_cost is None),
        int(row.estimated),
    )
    names = tuple([getattr(row, name) or "" for name in NAMES])
    place = start_of_hour(row.started_unix_ms), names
    hours[place] = _sum(hours.get(place), figures, sign)


def _sum(held: Figures | None, figures: Figures, sign: int = 1) -> Figures:
    if held is None:
        return figures if sign == 1 else tuple([sign * figure for figure in figures])
    return tuple([total + sign * figure for total, figure in zip(held, figures, strict=True)])


def _folded(span: Span, smaller: Sums) -> Sums:
    found: Sums = {}
    for (start, names), figures in smaller.items():
        place = span.start(start), names[-len(span.names) :]
        found[place] = _sum(found.get(place), figures)
    return found
