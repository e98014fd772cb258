"""What requests have in common, added up by hour, day and month as they are stored: reports need not look at the requests.

A request counts once it has ended, for the hour in which it began. A row that is replaced by one that knows more takes back what
it counted; one that is stored again counts nothing. So sums equal the rows at every commit, and stay when rows are deleted.
Does no IO.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import add, attrgetter
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
    hours = _counted(stored)
    for place, figures in _counted(replaced).items():
        hours[place] = _sum(hours.get(place), tuple([-figure for figure in figures]))
    sums = {HOUR: hours}
    for span, smaller in MADE_OF:
        sums[span] = _folded(span, sums[smaller])
    return {span: {place: figures for place, figures in found.items() if any(figures)} for span, found in sums.items()}


def rows_of(sums: Sums) -> Sequence[tuple[int | str, ...]]:
    """Return sums as rows of their table, in the order of its key: writers that take rows in one order cannot deadlock."""
    return [(start, *names, *sums[start, names]) for start, names in sorted(sums)]


_names = attrgetter(*NAMES)
_figures = attrgetter(*TOKENS, "estimated", "cost_nano_usd", "own_cost_nano_usd")
"""Read in one go: there is a row for each request."""


def _counted(rows: Iterable[Any]) -> Sums:
    """Return the sums by hour of the rows whose end is known."""
    alike: defaultdict[tuple[int, Any], list[Any]] = defaultdict(list)
    for row in rows:
        if row.rank:
            alike[start_of_hour(row.started_unix_ms), _names(row)].append(_figures(row))
    found: Sums = {}
    for (start, names), figures in alike.items():
        place = start, tuple([name or "" for name in names])
        found[place] = _sum(found.get(place), _added(figures))
    return found


def _added(figures: Sequence[Any]) -> Figures:
    """Return what these come to, in the order of `FIGURES`."""
    *tokens, estimated, costs, own_costs = zip(*figures, strict=True)
    known, own_known = ([cost for cost in each if cost is not None] for each in (costs, own_costs))
    unpriced, own_unpriced = len(costs) - len(known), len(costs) - len(own_known)
    return (len(costs), *map(sum, tokens), sum(known), sum(own_known), unpriced, own_unpriced, sum(estimated))


def _sum(held: Figures | None, figures: Figures) -> Figures:
    return figures if held is None else tuple(map(add, held, figures))


def _folded(span: Span, smaller: Sums) -> Sums:
    found: Sums = {}
    for (start, names), figures in smaller.items():
        place = span.start(start), names[-len(span.names) :]
        found[place] = _sum(found.get(place), figures)
    return found
