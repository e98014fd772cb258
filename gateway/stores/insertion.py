"""How many rows go into the ledger's tables at once, in either database. Rows are values in the order of a table's columns."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

from sqlalchemy import ARRAY, Row, Select, Table, Text, any_, bindparam, column, select, text
from sqlalchemy import table as _table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import Database
from gateway.stores.events import Event
from gateway.stores.partitions import make_partitions
from gateway.stores.refusals import driven
from gateway.stores.rollups import NAMES, SPANS
from gateway.stores.schema import ATTEMPTS, EVENTS

Values = tuple[object, ...]

MOST_ROWS = 500
"""How many rows one statement holds: their values stay below the 32,766 that SQLite binds."""

WRITING = 0x7469_6572_7772_6974
"""The advisory lock of whoever writes the ledger: a consumer that lost its lease unawares must not count beside the next."""

COUNTED = (
    *("request_id", "started_unix_ms", "rank", *NAMES, "estimated", "input_tokens", "cached_tokens", "cache_write_tokens"),
    *("output_tokens", "reasoning_tokens", "cost_nano_usd", "own_cost_nano_usd"),
)
"""The columns of a request that sums are made of."""


class Insertion(Protocol):
    """Puts rows into the caller's transaction."""

    async def begin(self, connection: AsyncConnection, events: Sequence[Event] = ()) -> None:
        """Have the ledger to oneself until the transaction ends, and room for these events."""
        ...

    async def held(self, connection: AsyncConnection, events: Sequence[Event]) -> Sequence[Row[Any]]:
        """Return what there is of these events' requests, as far as sums are made of it."""
        ...

    async def put(self, connection: AsyncConnection, table: Table, rows: Sequence[Values]) -> None:
        """Insert rows of a table; what is there already is replaced, kept or added to, as the table has it."""
        ...


def insertion(database: Database) -> Insertion:
    """Return what puts rows into this database."""
    return _SQLite() if database.is_sqlite else _Postgres()


AnyInsert = sqlite.Insert | postgresql.Insert


def _replacing(incoming: AnyInsert, key: Sequence[str]) -> AnyInsert:
    held = {each.name: incoming.excluded[each.name] for each in EVENTS.c if each.name not in key}
    return incoming.on_conflict_do_update(index_elements=list(key), set_=held)


def _adding(incoming: AnyInsert, table: Table) -> AnyInsert:
    added = {each.name: each + incoming.excluded[each.name] for each in table.c if not each.primary_key}
    return incoming.on_conflict_do_update(index_elements=list(table.primary_key), set_=added)


class _SQLite:
    def __init__(self) -> None:
        self._statements = {
            EVENTS: _Statement(_replacing(sqlite.insert(EVENTS), ["request_id"])),
            ATTEMPTS: _Statement(sqlite.insert(ATTEMPTS).on_conflict_do_nothing()),
            **{span.table: _Statement(_adding(sqlite.insert(span.table), span.table)) for span in SPANS},
        }

    async def begin(self, connection: AsyncConnection, events: Sequence[Event] = ()) -> None:
        """Do nothing: the transaction began with the lock of the whole file."""

    async def held(self, connection: AsyncConnection, events: Sequence[Event]) -> Sequence[Row[Any]]:
        found: list[Row[Any]] = []
        for start in range(0, len(events), MOST_ROWS):
            ids = [each.request_id for each in events[start : start + MOST_ROWS]]
            found += (await connection.execute(_HELD.where(EVENTS.c.request_id.in_(ids)))).all()
        return found

    async def put(self, connection: AsyncConnection, table: Table, rows: Sequence[Values]) -> None:
        await self._statements[table].run(connection, rows)


_HELD: Select[Any] = select(*(EVENTS.c[name] for name in COUNTED))


class _Statement:
    """A statement for many rows in one call of the driver.

    The driver lets go of the interpreter's lock with each call. Row by row, the writer and a busy event loop would hand the lock
    to and fro for every request.
    """

    def __init__(self, statement: AnyInsert) -> None:
        columns = len(statement.table.c)
        self._head, self._row, self._tail = str(statement.compile(dialect=sqlite.dialect())).partition(
            f"({', '.join('?' * columns)})"
        )

    async def run(self, connection: AsyncConnection, rows: Sequence[Values]) -> None:
        for start in range(0, len(rows), MOST_ROWS):
            chunk = rows[start : start + MOST_ROWS]
            statement = self._head + ", ".join([self._row] * len(chunk)) + self._tail
            await connection.exec_driver_sql(statement, tuple(chain.from_iterable(chunk)))


class _Postgres:
    """Rows are copied into a table of the connection's own, which knows no conflict, and put where they belong from there."""

    def __init__(self) -> None:
        replaced = _replacing(_from_incoming(EVENTS), ["request_id", "started_unix_ms"])
        statements: dict[Table, AnyInsert] = {EVENTS: replaced, ATTEMPTS: _from_incoming(ATTEMPTS).on_conflict_do_nothing()}
        statements |= {span.table: _adding(_from_incoming(span.table), span.table) for span in SPANS}
        self._statements = statements
        self._places = "".join(
            f"CREATE TEMP TABLE IF NOT EXISTS {_incoming(table)} (LIKE {table.name}) ON COMMIT DELETE ROWS;"
            for table in statements
        )

    async def begin(self, connection: AsyncConnection, events: Sequence[Event] = ()) -> None:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": WRITING})
        if events:
            await make_partitions(connection, {each.started_unix_ms for each in events})
            with driven():
                driver = await _driver(connection)
                await driver.execute(self._places)

    async def held(self, connection: AsyncConnection, events: Sequence[Event]) -> Sequence[Row[Any]]:
        starts = [each.started_unix_ms for each in events]
        chosen = _HELD.where(
            EVENTS.c.request_id == any_(bindparam("ids", [each.request_id for each in events], ARRAY(Text))),
            EVENTS.c.started_unix_ms.between(min(starts), max(starts)),  # which leaves the other months alone
        )
        found: Sequence[Row[Any]] = (await connection.execute(chosen)).all()
        return found

    async def put(self, connection: AsyncConnection, table: Table, rows: Sequence[Values]) -> None:
        if not rows:
            return
        with driven():
            driver = await _driver(connection)
            await driver.copy_records_to_table(_incoming(table), records=rows, columns=table.c.keys())
        await connection.execute(self._statements[table])


def _incoming(table: Table) -> str:
    return f"incoming_{table.name}"


def _from_incoming(table: Table) -> postgresql.Insert:
    names = table.c.keys()
    return postgresql.insert(table).from_select(names, select(*map(column, names)).select_from(_table(_incoming(table))))


async def _driver(connection: AsyncConnection) -> Any:
    return (await connection.get_raw_connection()).driver_connection
