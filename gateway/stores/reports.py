"""Questions to the ledger: the requests themselves, or their sums by whatever they have in common.

Rows are plain members for JSON, CSV or a table. Money is micro-USD, rounded up once, at the end; null is a cost that nobody
knows, and `own_cost_micro_usd` is what the operator pays, as far as it is known. Durations are milliseconds. Only requests that
ended count, unless the live ones are asked for. No sum tells a client's own users apart: what is asked of them is added up from
the requests, as far back as those are kept.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gateway.stores import sums
from gateway.stores.database import Reader
from gateway.stores.events import Rank
from gateway.stores.rollups import DAY, DAY_MS, FIGURES, HOUR, HOUR_MS, MONTH, TOKENS
from gateway.stores.schema import EVENTS
from gateway.stores.versions import SchemaVersionError

Row = dict[str, Any]

WHATS = {
    "org": "org",
    "key": "key",
    "project": "project",
    "model": "model_served",
    "provider": "provider",
    "tier": "tier_served",
    "outcome": "outcome",
    "user": "user_hash",
}
"""What requests may have in common, and the column that says it."""

OF_REQUESTS = frozenset({"user"})
"""What no sum is kept of: there may be as many as there are requests."""

WHENS = {"hour": (HOUR, "%Y-%m-%dT%H:00Z"), "day": (DAY, "%Y-%m-%d"), "month": (MONTH, "%Y-%m")}
"""Spans of time, from the finest, and the name of the span that a sum's start lies in (UTC)."""

REQUEST = "request"
DIMENSIONS = (*WHATS, *WHENS)
MONEY = {"cost_nano_usd": "cost_micro_usd", "own_cost_nano_usd": "own_cost_micro_usd"}
SUMS = ("requests", *TOKENS, *MONEY, "unpriced", "estimated")
"""The figures of a sum; `unpriced` and `estimated` count the requests whose cost nobody knows, or whose usage is an estimate."""

SHOWN = (
    *("request_id", "key", "org", "project", "model_requested", "model_served", "provider", "tier_requested", "tier_served"),
    *("outcome", "attempts", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_nano_usd", "estimated"),
    *("queued_ms", "ttft_ms", "duration_ms", "started_unix_ms", "status", "error_code", "route", "stream", "client_request_id"),
    *("own_cost_nano_usd", "price_version", "cache_write_tokens", "user_hash"),
)
"""The columns of a request's row, in order; money and the start change their names with their units."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What to report. `by` is `("request",)` or names of `DIMENSIONS`; times are Unix milliseconds."""

    by: tuple[str, ...] = (REQUEST,)
    since_unix_ms: int = 0
    limit: int | None = None
    request_id: str | None = None
    user_hash: str | None = None
    live: bool = False

    @property
    def is_of_requests(self) -> bool:
        """Return whether only the requests themselves can tell."""
        return self.request_id is not None or self.user_hash is not None or not OF_REQUESTS.isdisjoint(self.by)


def parse_by(text: str) -> tuple[str, ...]:
    """Return the dimensions that a comma-separated list names.

    Raises ValueError, with a sentence for the person who wrote it.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if names == (REQUEST,):
        return names
    for name in names:
        if name not in DIMENSIONS:
            raise ValueError(f"unknown '{name}': use request alone, or any of {', '.join(DIMENSIONS)}")
    return names


def parse_since(text: str, now_unix_ms: int) -> int:
    """Return the instant that `7d`, `24h`, `90m`, `2026-11-01` or `2026-11-01T12:00:00Z` names; without a zone it is UTC.

    Raises ValueError, with a sentence for the person who wrote it.
    """
    ago = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if ago:
        return now_unix_ms - int(ago[1]) * {"m": 60_000, "h": HOUR_MS, "d": DAY_MS}[ago[2]]
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"cannot read '{text}' as a time: write 7d, 24h, 2026-11-01 or 2026-11-01T12:00:00Z") from None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


class LedgerAwayError(Exception):
    """The database cannot be read now, or is of another release."""


class Reports:
    """Answers questions."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def rows(self, question: Question) -> list[Row]:
        """Return the answer's rows: requests newest first; sums by time newest first, then the busiest first.

        Raises MissingLedgerError, see `Reader.fetch`, and LedgerAwayError.
        """
        if question.by == (REQUEST,):
            return [_shown(row) for row in await self._fetch(_requests(question))]
        rows = _folded(question.by, await self._fetch(_sums(question)))
        return rows[: question.limit]

    async def _fetch(self, statement: Select[Any]) -> list[Row]:
        try:
            return await self._reader.fetch(statement)
        except (SchemaVersionError, SQLAlchemyError, OSError) as error:
            raise LedgerAwayError(spoken(error)) from error


def spoken(error: Exception) -> str:
    """Return what a database or its driver says, in its own words alone."""
    return str(error.orig if isinstance(error, DBAPIError) else error) or type(error).__name__


def _requests(question: Question) -> Select[Any]:
    conditions = [EVENTS.c.started_unix_ms >= question.since_unix_ms]
    conditions += _those(question)
    if not question.live:
        conditions.append(EVENTS.c.rank > Rank.OPEN.value)
    newest_first = EVENTS.c.started_unix_ms.desc(), EVENTS.c.request_id.desc()
    shown = select(*(EVENTS.c[name] for name in SHOWN)).where(*conditions)
    return shown.order_by(*newest_first).limit(question.limit)


def _those(question: Question) -> list[ColumnElement[bool]]:
    """Return what is true of the requests that a question names, besides when they began."""
    named = {EVENTS.c.request_id: question.request_id, EVENTS.c.user_hash: question.user_hash}
    return [column == value for column, value in named.items() if value is not None]


def exported(since_unix_ms: int, *, live: bool) -> Select[Any]:
    """Return the statement for every request since then, as it is stored, in the order in which they began."""
    chosen = select(EVENTS).where(EVENTS.c.started_unix_ms >= since_unix_ms)
    chosen = chosen if live else chosen.where(EVENTS.c.rank > Rank.OPEN.value)
    return chosen.order_by(EVENTS.c.started_unix_ms, EVENTS.c.request_id)


def _sums(question: Question) -> Select[Any]:
    spans = [WHENS[name][0] for name in WHENS if name in question.by]
    names = [WHATS[name] for name in question.by if name in WHATS]
    if question.is_of_requests:
        parts = [sums.themselves(question.since_unix_ms, names, _those(question), live=question.live)]
    else:
        parts = sums.ended(question.since_unix_ms, spans[0] if spans else MONTH, names)
        parts += [sums.open_now(question.since_unix_ms, names)] if question.live else []
    return sums.total(names, parts) if spans else sums.busiest(names, parts, question.limit)


def _folded(by: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Add up rows whose spans have one name: a month may be made of days and hours."""
    found: dict[tuple[object, ...], Counter[str]] = {}
    for row in rows:
        total = found.setdefault(tuple(_label(name, row) for name in by), Counter())
        for name in FIGURES:
            total[name] += int(row[name])
    totals = [dict(zip(by, labels, strict=True)) | _known(total) for labels, total in found.items() if total["requests"]]
    spans = [name for name in by if name in WHENS]
    totals.sort(key=lambda total: tuple(str(total[name]) for name in by))
    totals.sort(key=lambda total: (tuple(total[name] for name in spans), total["requests"]), reverse=True)
    return [_in_micro_usd(total) for total in totals]


def _known(total: Counter[str]) -> Row:
    """Return the figures that a report has; a cost that nobody knows of any request is null."""
    unknown = {"cost_nano_usd": "unpriced", "own_cost_nano_usd": "own_unpriced"}
    return {name: None if total["requests"] == total.get(unknown.get(name, "")) else total[name] for name in SUMS}


def _label(name: str, row: Mapping[str, Any]) -> str | None:
    if name in WHATS:
        return row[WHATS[name]] or None
    return datetime.fromtimestamp(row[sums.START] / 1000, UTC).strftime(WHENS[name][1])


def _shown(row: Mapping[str, Any]) -> Row:
    shown = {("started_at" if name == "started_unix_ms" else name): row[name] for name in SHOWN}
    started = datetime.fromtimestamp(row["started_unix_ms"] / 1000, UTC)
    shown["started_at"] = started.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _in_micro_usd(shown)


def _in_micro_usd(row: Row) -> Row:
    return {MONEY.get(name, name): _micro_usd(value) if name in MONEY else value for name, value in row.items()}


def _micro_usd(nano_usd: int | None) -> int | None:
    return None if nano_usd is None else -(-nano_usd // 1000)
