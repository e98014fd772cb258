"""Everything that one database holds, in another: from a SQLite file to a Postgres, or back.

It is one transaction, which ends with a comparison and is kept only where both have the same. So the target was empty, or had
nothing of its own; and copying again, after more has come to the source, brings what is missing. Times are Unix milliseconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, Table, delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import Database
from gateway.stores.insertion import Conflict, Insertion, Policy, insertion
from gateway.stores.partitions import make_partitions
from gateway.stores.rollups import SPANS, TOKENS
from gateway.stores.schema import ATTEMPTS, EVENTS, HORIZON
from gateway.stores.tenancy_schema import AUDIT, KEYS, OPENING_BALANCES, ORGS, PLANS, PROJECTS, SECRETS
from gateway.stores.versions import check, upgrade

AT_ONCE = 5_000

RENEWED = (PLANS, ORGS, PROJECTS, KEYS, SECRETS, OPENING_BALANCES, *(span.table for span in SPANS))
"""Tables that are emptied and filled; each stands behind what it refers to."""

GROWING = (EVENTS, ATTEMPTS, AUDIT)
"""Tables that get what they lack."""

POLICY: Policy = dict.fromkeys((*RENEWED, AUDIT), Conflict.IMPOSSIBLE) | {
    EVENTS: Conflict.OUTRANK,
    ATTEMPTS: Conflict.KEEP,
}


class UnequalError(Exception):
    """The target has something that the source has not."""


class Copied(msgspec.Struct, frozen=True):
    """How many rows a table has, in both."""

    table: str
    rows: int


async def copy(source: Database, target: Database) -> list[Copied]:
    """Bring everything from one database into another. Return what both have.

    Raises UnequalError, having changed nothing, and SchemaVersionError where either is of another release.
    """
    if target.is_sqlite:
        await upgrade(target)
    reading, writing = source.open_to_copy(), target.open_to_migrate()
    try:
        async with reading.connect() as old, writing.begin() as new:
            await old.run_sync(check)
            await new.run_sync(check)
            return await _Copy(old, new, insertion(target, POLICY)).run()
    finally:
        await reading.dispose()
        await writing.dispose()


class _Copy:
    def __init__(self, old: AsyncConnection, new: AsyncConnection, rows: Insertion) -> None:
        self._old = old
        self._new = new
        self._rows = rows
        self._horizon = 0

    async def run(self) -> list[Copied]:
        await self._rows.begin(self._new)
        self._horizon = max([(await each.execute(select(HORIZON.c.unix_ms))).scalar_one() for each in (self._old, self._new)])
        await self._new.execute(update(HORIZON).values(unix_ms=self._horizon))
        for table in reversed(RENEWED):
            await self._new.execute(delete(table))
        for table in (*RENEWED, *GROWING):
            await self._bring(table)
        await self._go_on_counting()
        return [await self._compared(table) for table in (*RENEWED, *GROWING)]

    async def _bring(self, table: Table) -> None:
        chosen = select(table).order_by(*table.primary_key)
        if "started_unix_ms" in table.c:
            chosen = chosen.where(table.c.started_unix_ms >= self._horizon)
        if table is AUDIT:
            last = (await self._new.execute(select(func.max(AUDIT.c.id)))).scalar_one()
            chosen = chosen.where(AUDIT.c.id > (last or 0))
        found = await self._old.stream(chosen)
        async for part in found.partitions(AT_ONCE):
            if self._new.dialect.name == "postgresql" and table is EVENTS:
                await make_partitions(self._new, {row.started_unix_ms for row in part})
            await self._rows.put(self._new, table, [tuple(row) for row in part])

    async def _go_on_counting(self) -> None:
        """Have the next number of the audit come behind the last, as SQLite does by itself."""
        if self._new.dialect.name == "postgresql":
            last = func.coalesce(func.max(AUDIT.c.id), 1)
            is_taken = func.count() > 0
            await self._new.execute(select(func.setval(text("pg_get_serial_sequence('audit', 'id')"), last, is_taken)))

    async def _compared(self, table: Table) -> Copied:
        question = _figures(table, self._horizon)
        old, new = [tuple((await each.execute(question)).one()) for each in (self._old, self._new)]
        if old != new:
            rows = f"{new[0]} rows and the source {old[0]}" if old[0] != new[0] else "other figures than the source"
            raise UnequalError(
                f"the target has something of its own: its table {table.name} would have {rows}; nothing was copied"
            )
        return Copied(table.name, old[0])


def _figures(table: Table, horizon: int) -> Select[Any]:
    """Return what is equal where two databases have the same of a table."""
    counted = select(func.count(), *_sums(table)).select_from(table)
    return counted.where(table.c.started_unix_ms >= horizon) if "started_unix_ms" in table.c else counted


def _sums(table: Table) -> Iterator[ColumnElement[Any]]:
    summed: Sequence[str] = ()
    if table is EVENTS:
        summed = ("rank", *TOKENS, "cost_nano_usd", "own_cost_nano_usd", "attempts")
    elif table is AUDIT:
        summed = ("id",)
        yield from (func.sum(func.length(table.c[name])) for name in ("actor", "action", "subject", "detail"))
    yield from (func.sum(table.c[name]) for name in summed)
