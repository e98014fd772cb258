"""How many rows go into the ledger's tables at once, in either database, and what one says of rows that it will never take."""

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import asyncpg
from sqlalchemy import Insert, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import Database
from gateway.stores.schema import ATTEMPTS, EVENTS

Row = tuple[object, ...]

MOST_ROWS = 500
"""How many rows one statement holds: their values stay below the 32,766 that SQLite binds."""


class UnstorableError(Exception):
    """Something that no database of this release will ever take. Everything else that one says is about itself, and passes."""


UNSTORABLE = (DataError, IntegrityError, OverflowError)

DATA_EXCEPTION, INTEGRITY_VIOLATION = "22", "23"
"""The classes of Postgres' error codes that are about the rows."""


def refused(error: DBAPIError) -> bool:
    """Return whether Postgres, or its driver, says of the rows that it will never take them."""
    cause = error.orig.__cause__ if error.orig is not None else None
    if isinstance(cause, asyncpg.PostgresError):
        return (cause.sqlstate or "")[:2] in (DATA_EXCEPTION, INTEGRITY_VIOLATION)
    # The driver takes a value that does not fit its column's type for a wrong argument.
    return isinstance(cause, asyncpg.InterfaceError) and isinstance(cause, ValueError)


class Insertion(Protocol):
    """Puts rows, whose values stand in the order of the columns, into the caller's transaction."""

    async def events(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        """Insert requests; one that is there is replaced where the new row's rank is higher."""
        ...

    async def attempts(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        """Insert attempts; one that is there stays."""
        ...


def insertion(database: Database) -> Insertion:
    """Return what puts rows into this database."""
    return _SQLite() if database.is_sqlite else _Postgres()


class _Statement:
    """A statement for many rows in one call of the driver.

    The driver lets go of the interpreter's lock with each call. Row by row, the writer and a busy event loop would hand the lock
    to and fro for every request.
    """

    def __init__(self, statement: Insert) -> None:
        columns = len(statement.table.c)
        self._head, self._row, self._tail = str(statement.compile(dialect=sqlite.dialect())).partition(
            f"({', '.join('?' * columns)})"
        )

    async def run(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), MOST_ROWS):
            chunk = rows[start : start + MOST_ROWS]
            text = self._head + ", ".join([self._row] * len(chunk)) + self._tail
            await connection.exec_driver_sql(text, tuple(chain.from_iterable(chunk)))


def _upsert(incoming: sqlite.Insert | postgresql.Insert) -> Insert:
    return incoming.on_conflict_do_update(
        index_elements=[EVENTS.c.request_id],
        set_={column.name: incoming.excluded[column.name] for column in EVENTS.c if not column.primary_key},
        where=incoming.excluded.rank > EVENTS.c.rank,
    )


class _SQLite:
    def __init__(self) -> None:
        self._events = _Statement(_upsert(sqlite.insert(EVENTS)))
        self._attempts = _Statement(sqlite.insert(ATTEMPTS).on_conflict_do_nothing())

    async def events(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        await self._events.run(connection, rows)

    async def attempts(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        await self._attempts.run(connection, rows)


class _Postgres:
    def __init__(self) -> None:
        self._events = _upsert(postgresql.insert(EVENTS))
        self._attempts = postgresql.insert(ATTEMPTS).on_conflict_do_nothing()

    async def events(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        await connection.execute(self._events, _named(EVENTS, rows))

    async def attempts(self, connection: AsyncConnection, rows: Sequence[Row]) -> None:
        if rows:
            await connection.execute(self._attempts, _named(ATTEMPTS, rows))


def _named(table: Table, rows: Sequence[Row]) -> list[dict[str, object]]:
    names = table.c.keys()
    return [dict(zip(names, row, strict=True)) for row in rows]
