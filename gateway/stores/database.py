"""The ledger's database: one writer, readers beside it, rows replaced only by rows that know more.

What is on disk when a write returns stays there, in SQLite as in Postgres. Knows nothing of streams.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog
from msgspec.structs import astuple
from sqlalchemy import Select, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import BUSY_TIMEOUT_S, POOL, Database
from gateway.stores.events import Event, Rank, merged
from gateway.stores.insertion import insertion
from gateway.stores.refusals import UnstorableError, refusals
from gateway.stores.retention import forget
from gateway.stores.rollups import changes, rows_of
from gateway.stores.schema import ATTEMPTS, EVENTS, HORIZON
from gateway.stores.versions import admit, check, current, upgrade
from gateway.tasks import Owned

Answer = TypeVar("Answer")

PLAIN = "ok"
"""The end of an attempt that needs no row of its own where it was the only one: the request's row says it all."""

AT_ONCE = 1_000
"""Rows that a stream of them has in memory."""

TRIED = Event.__struct_fields__.index("tried")
"""The one field that is rows of another table; how many there are has its column."""

log = structlog.get_logger(__name__)


class MissingLedgerError(Exception):
    """The database file is not there: no gateway has run with this configuration yet."""


class _Unhurried:
    """Runs statements to their end whatever becomes of the caller.

    A cancelled statement leaves a connection behind that still holds its transaction, and with it the lock of the whole file.
    """

    def __init__(self) -> None:
        self._work = Owned()

    async def finish(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Await `work`; the caller's cancellation does not reach it."""
        return await asyncio.shield(self._work.spawn(work, name="ledger statement"))

    async def drain(self) -> None:
        """Wait for what callers left behind."""
        await self._work.drain(2 * BUSY_TIMEOUT_S)


class Writer:
    """The one connection that changes the ledger."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._work = _Unhurried()
        self._engine = self._database.open_to_write()
        self._insertion = insertion(self._database)
        self._checked = False

    async def migrate(self) -> None:
        """Bring a SQLite file to this release, or make sure that a Postgres has been.

        Safe to call from several processes at once. A Postgres that cannot be reached now is looked at before the first row is
        written. Raises SchemaVersionError.
        """
        if self._database.is_sqlite:
            before = await current(self._database)
            if (schema := await upgrade(self._database)) != before:
                log.info("database_upgraded", before=before, schema=schema)
            return
        try:
            await admit(self._database)
        except (SQLAlchemyError, OSError) as error:
            log.warning("database_unreachable", error=type(error).__name__)

    async def write(self, events: Sequence[Event]) -> None:
        """Store events in one transaction: all are on disk when this returns, or none. Writing one again changes nothing.

        Raises UnstorableError where there are events among them that no database of this release takes.
        """
        best = merged(events)
        if best:
            await self._work.finish(self._write(best))

    async def _write(self, best: Sequence[Event]) -> None:
        with refusals():
            async with self._engine.begin() as connection:
                if not self._checked:
                    await connection.run_sync(check)
                await self._put(connection, best)
        self._checked = True

    async def _put(self, connection: AsyncConnection, best: Sequence[Event]) -> None:
        rows = self._insertion
        await rows.begin(connection, best)
        horizon_unix_ms = (await connection.execute(select(HORIZON.c.unix_ms))).scalar_one()
        if any(each.started_unix_ms < horizon_unix_ms for each in best):
            raise UnstorableError("older than what is kept: it was counted, or cannot be told from what was")
        held = {row.request_id: row for row in await rows.held(connection, best)}
        fresh = [each for each in best if each.request_id not in held or each.rank > held[each.request_id].rank]
        tried = [row for each in fresh if each.rank == Rank.CLOSED for row in _attempt_rows(each)]
        await rows.put(connection, EVENTS, [_row(each) for each in fresh])
        await rows.put(connection, ATTEMPTS, tried)
        replaced = [held[each.request_id] for each in fresh if each.request_id in held]
        for span, sums in changes(replaced, fresh).items():
            await rows.put(connection, span.table, rows_of(sums))

    async def forget(self, before_unix_ms: int) -> bool:
        """Delete some of the requests that began before then. Their sums stay. Return whether there may be more."""
        return await self._work.finish(self._forget(before_unix_ms))

    async def _forget(self, before_unix_ms: int) -> bool:
        async with self._engine.begin() as connection:
            await self._insertion.begin(connection)
            return await forget(connection, before_unix_ms)

    async def close(self) -> None:
        """Finish what is being written and close the connection."""
        await self._work.drain()
        await self._engine.dispose()


def _row(each: Event) -> tuple[object, ...]:
    # The tables' columns stand in the order of the values' fields.
    values = astuple(each)
    return (*values[:TRIED], len(each.tried), *values[TRIED + 1 :])


def _attempt_rows(each: Event) -> list[tuple[object, ...]]:
    if len(each.tried) == 1 and each.tried[0].outcome == PLAIN:
        return []
    # The table keeps what was tried; why a candidate was passed over is an hour's matter (gateway.stores.traces).
    return [(each.request_id, n, each.started_unix_ms, *astuple(attempt)[:-1]) for n, attempt in enumerate(each.tried, start=1)]


class Reader:
    """Connections that only read, no more than `pool`; they never wait for the writer, nor the writer for them."""

    def __init__(self, url: str, pool: int = POOL) -> None:
        self.database = Database(url)
        self._work = _Unhurried()
        self._engine = self.database.open_to_read(pool)
        self._checked = False

    async def fetch(self, statement: Select[Any]) -> list[dict[str, Any]]:
        """Return all rows of one query.

        Raises MissingLedgerError where there is no file, SchemaVersionError where it has another version than this release reads.
        """
        return await self._work.finish(self._fetch(statement))

    async def _fetch(self, statement: Select[Any]) -> list[dict[str, Any]]:
        async with self._connection() as connection:
            return [dict(row) for row in (await connection.execute(statement)).mappings()]

    async def stream(self, statement: Select[Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the rows of one query, few of them at a time in memory. To be read to its end. Raises as `fetch` does."""
        async with self._connection() as connection:
            found = await connection.stream(statement)
            async for part in found.mappings().partitions(AT_ONCE):
                for row in part:
                    yield dict(row)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection]:
        file = self.database.file
        if file is not None and not file.exists():
            raise MissingLedgerError(f"no ledger at {file}: no gateway has run with this configuration yet")
        async with self._engine.connect() as connection:
            # Once: a newer release that migrates while this one still runs leaves it what it reads.
            if not self._checked:
                await connection.run_sync(check)
                self._checked = True
            yield connection

    async def close(self) -> None:
        """Close the connections."""
        await self._work.drain()
        await self._engine.dispose()
