"""The ledger's database: one writer, readers beside it, rows replaced only by rows that know more.

SQLite in WAL mode with an fsync at every commit; statements are such that Postgres takes them too. Knows nothing of streams.
"""

import asyncio
import sqlite3
from collections.abc import Coroutine, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import astuple
from sqlalchemy import URL, Connection, Select, event, make_url
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.stores.events import Event, Rank, merged
from gateway.stores.schema import ATTEMPTS, EVENTS, VERSION, SchemaVersionError, migrate, version_of
from gateway.tasks import Owned

Answer = TypeVar("Answer")

PLAIN = "ok"
"""The end of an attempt that needs no row of its own where it was the only one: the request's row says it all."""

BUSY_TIMEOUT_S = 3.0
"""How long a statement waits for another process's lock; well below the consumer's lease, which must outlive a full wait."""


MOST_ROWS = 500
"""How many rows one statement holds: their values stay below the 32,766 that SQLite binds."""


class _Insert:
    """A statement for many rows in one call of the driver.

    The driver lets go of the interpreter's lock with each call. Row by row, the writer and a busy event loop would hand the lock
    to and fro for every request.
    """

    def __init__(self, statement: Insert) -> None:
        columns = len(statement.table.c)
        self._head, self._row, self._tail = str(statement.compile(dialect=sqlite_dialect())).partition(
            f"({', '.join('?' * columns)})"
        )

    async def run(self, connection: AsyncConnection, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert rows."""
        for start in range(0, len(rows), MOST_ROWS):
            chunk = rows[start : start + MOST_ROWS]
            text = self._head + ", ".join([self._row] * len(chunk)) + self._tail
            await connection.exec_driver_sql(text, tuple(chain.from_iterable(chunk)))


_incoming = insert(EVENTS)
_UPSERT_EVENT = _Insert(
    _incoming.on_conflict_do_update(
        index_elements=[EVENTS.c.request_id],
        set_={column.name: _incoming.excluded[column.name] for column in EVENTS.c if not column.primary_key},
        where=_incoming.excluded.rank > EVENTS.c.rank,
    )
)
_INSERT_ATTEMPT = _Insert(insert(ATTEMPTS).on_conflict_do_nothing())


class MissingLedgerError(Exception):
    """The database file is not there: no gateway has run with this configuration yet."""


def _path(url: str) -> Path:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise ValueError(f"not a SQLite file: {parsed.render_as_string(hide_password=True)}")
    return Path(parsed.database)


def _begin_immediate(connection: Connection) -> None:
    # A deferred transaction that later writes can fail at once with SQLITE_BUSY, whatever the time-out says.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _durable(connection: Any, _record: object) -> None:
    cursor: sqlite3.Cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _engine(database: str, *, pool_size: int, query: dict[str, str]) -> AsyncEngine:
    url = URL.create("sqlite+aiosqlite", database=database, query=query)
    # isolation_level None: the driver's own idea of when a transaction begins would fight ours.
    connect_args = {"timeout": BUSY_TIMEOUT_S, "isolation_level": None}
    return create_async_engine(url, pool_size=pool_size, max_overflow=0, connect_args=connect_args)


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
        path = _path(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._work = _Unhurried()
        self._engine = _engine(str(path), pool_size=1, query={})
        event.listen(self._engine.sync_engine, "connect", _durable)
        event.listen(self._engine.sync_engine, "begin", _begin_immediate)

    async def migrate(self) -> None:
        """Create the tables, or bring them to this release. Safe to call from several processes at once.

        Raises SchemaVersionError when the database is newer than this release.
        """
        async with self._engine.begin() as connection:
            await connection.run_sync(migrate)

    async def write(self, events: Sequence[Event]) -> None:
        """Store events in one transaction: all are on disk when this returns, or none. Writing one again changes nothing."""
        best = merged(events)
        if best:
            await self._work.finish(self._write(best))

    async def _write(self, best: Sequence[Event]) -> None:
        tried = [row for each in best if each.rank == Rank.CLOSED for row in _attempt_rows(each)]
        async with self._engine.begin() as connection:
            await _UPSERT_EVENT.run(connection, [_row(each) for each in best])
            await _INSERT_ATTEMPT.run(connection, tried)

    async def close(self) -> None:
        """Finish what is being written and close the connection."""
        await self._work.drain()
        await self._engine.dispose()


def _row(each: Event) -> tuple[object, ...]:
    # The tables' columns stand in the order of the values' fields.
    return (*astuple(each)[:-1], len(each.tried))


def _attempt_rows(each: Event) -> list[tuple[object, ...]]:
    if len(each.tried) == 1 and each.tried[0].outcome == PLAIN:
        return []
    # The table keeps what was tried; why a candidate was passed over is an hour's matter (gateway.stores.traces).
    return [(each.request_id, n, *astuple(attempt)[:-1]) for n, attempt in enumerate(each.tried, start=1)]


class Reader:
    """Connections that only read; they never wait for the writer, nor the writer for them."""

    def __init__(self, url: str) -> None:
        self._file = _path(url)
        self._work = _Unhurried()
        self._engine = _engine(f"file:{self._file}", pool_size=2, query={"mode": "ro", "uri": "true"})
        event.listen(self._engine.sync_engine, "begin", _begin)

    async def fetch(self, statement: Select[Any]) -> list[dict[str, Any]]:
        """Return all rows of one query.

        Raises MissingLedgerError where there is no file, SchemaVersionError where it has another version than this release reads.
        """
        return await self._work.finish(self._fetch(statement))

    async def _fetch(self, statement: Select[Any]) -> list[dict[str, Any]]:
        if not self._file.exists():
            raise MissingLedgerError(f"no ledger at {self._file}: no gateway has run with this configuration yet")
        async with self._engine.connect() as connection:
            found = await connection.run_sync(version_of)
            if found != VERSION:
                raise SchemaVersionError(f"the ledger has schema version {found}, this release reads {VERSION}")
            return [dict(row) for row in (await connection.execute(statement)).mappings()]

    async def close(self) -> None:
        """Close the connections."""
        await self._work.drain()
        await self._engine.dispose()
