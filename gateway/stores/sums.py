"""The sums that answer a question, read from what `gateway.stores.rollups` keeps: as few of them, and as large ones, as will do.

A question that begins in the middle of a month takes days up to the next, and hours up to the first of those days; one that asks
for nothing of callers takes the days of all of them. It begins with the hour that its instant lies in. Requests themselves are
looked at only where they are open, are named, or are asked for by what no sum has.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, case, desc, func, literal_column, select, union_all

from gateway.stores.events import Rank
from gateway.stores.partitions import next_month
from gateway.stores.rollups import DAY, DAY_MS, DAY_SERVED, FIGURES, HOUR, HOUR_MS, MONTH, TOKENS, Span
from gateway.stores.schema import EVENTS

START = "start_unix_ms"
LAST_UNIX_MS = 4_102_444_800_000 * 10
"""An instant so far ahead that nothing lies behind it, and whose month can still be told."""


def total(names: Sequence[str], parts: Sequence[Select[Any]]) -> Select[Any]:
    """Return the sums of `parts` by their starts and these names."""
    return _by([START, *names], parts)


def busiest(names: Sequence[str], parts: Sequence[Select[Any]], limit: int | None) -> Select[Any]:
    """Return the sums of `parts` by these names: of ever so many users, so many need be told."""
    return _by(names, parts).order_by(desc("requests"), *names).limit(limit)


def _by(names: Sequence[str], parts: Sequence[Select[Any]]) -> Select[Any]:
    whole = union_all(*parts).subquery() if len(parts) > 1 else parts[0].subquery()
    groups = [whole.c[name] for name in names]
    return select(*groups, *(func.sum(whole.c[name]).label(name) for name in FIGURES)).group_by(*groups)


def ended(since_unix_ms: int, finest: Span, names: Sequence[str]) -> list[Select[Any]]:
    """Return the sums by these names of all that began since then and ended, in spans no larger than `finest`."""
    hours = HOUR.start(min(max(since_unix_ms, 0), LAST_UNIX_MS))
    days = hours if finest is HOUR else -(-hours // DAY_MS) * DAY_MS
    months = days if MONTH.start(days) == days else next_month(MONTH.start(days))
    bounds: list[tuple[Span, int, int | None]]
    if finest is HOUR:
        bounds = [(HOUR, hours, None)]
    elif {*names} <= {*DAY_SERVED.names}:
        bounds = [(HOUR, hours, days), (DAY_SERVED, days, None)]
    elif finest is DAY:
        bounds = [(HOUR, hours, days), (DAY, days, None)]
    else:
        bounds = [(HOUR, hours, days), (DAY, days, months), (MONTH, months, None)]
    return [_between(names, *each) for each in bounds if each[1] != each[2]]


def open_now(since_unix_ms: int, names: Sequence[str]) -> Select[Any]:
    """Return what began since then and has not ended, as sums of one."""
    return _themselves(since_unix_ms, names, [EVENTS.c.rank == Rank.OPEN.value])


def themselves(since_unix_ms: int, names: Sequence[str], those: Sequence[ColumnElement[bool]], *, live: bool) -> Select[Any]:
    """Return those requests that began since then, as sums of one; such as have not ended only where `live`."""
    return _themselves(since_unix_ms, names, [*those, EVENTS.c.rank >= (Rank.OPEN.value if live else Rank.ABANDONED.value)])


def _between(names: Sequence[str], span: Span, begin: int, end: int | None) -> Select[Any]:
    columns = span.table.c
    chosen = select(*(columns[name] for name in (START, *names, *FIGURES))).where(columns[START] >= begin)
    return chosen if end is None else chosen.where(columns[START] < end)


def _themselves(since_unix_ms: int, names: Sequence[str], those: Sequence[ColumnElement[bool]]) -> Select[Any]:
    figures: dict[str, ColumnElement[Any]] = {
        "requests": literal_column("1"),
        **{name: EVENTS.c[name] for name in TOKENS},
        "cost_nano_usd": func.coalesce(EVENTS.c.cost_nano_usd, 0),
        "own_cost_nano_usd": func.coalesce(EVENTS.c.own_cost_nano_usd, 0),
        "unpriced": case((EVENTS.c.cost_nano_usd.is_(None), 1), else_=0),
        "own_unpriced": case((EVENTS.c.own_cost_nano_usd.is_(None), 1), else_=0),
        "estimated": case((EVENTS.c.estimated, 1), else_=0),
    }
    return select(
        (EVENTS.c.started_unix_ms - EVENTS.c.started_unix_ms % HOUR_MS).label(START),
        *(func.coalesce(EVENTS.c[name], "").label(name) for name in names),
        *(figures[name].label(name) for name in FIGURES),
    ).where(EVENTS.c.started_unix_ms >= HOUR.start(since_unix_ms), *those)
