"""How many rows go into the ledger's tables at once, in either database. Rows are values in the order of a table's columns."""

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any, Protocol

import msgspec
from sqlalchemy import ARRAY, Row, Select, Table, Text, any_, bindparam, column, delete, func, select, text
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


class Conflict(Enum):
    """What becomes of a row whose key is there already."""

    IMPOSSIBLE = 0
    KEEP = 1
    OUTRANK = 2
    """Replaced where the new one knows more of the request's end."""
    ADD = 3
    """Added to, figure by figure."""


Policy = Mapping[Table, Conflict]

LEDGER: Policy = {
    EVENTS: Conflict.OUTRANK,
    ATTEMPTS: Conflict.KEEP,
    **dict.fromkeys((span.table for span in SPANS), Conflict.ADD),
}
"""How the ledger grows."""


def insertion(database: Database, policy: Policy = LEDGER) -> Insertion:
    """Return what puts rows into tables of this database."""
    return _SQLite(policy) if database.is_sqlite else _Postgres(policy)


AnyInsert = sqlite.Insert | postgresql.Insert


def _settled(incoming: AnyInsert, conflict: Conflict) -> AnyInsert:
    table = incoming.table
    if conflict is Conflict.IMPOSSIBLE:
        return incoming
    if conflict is Conflict.KEEP:
        return incoming.on_conflict_do_nothing()
    key = [each.name for each in table.primary_key]
    rest = {each.name: incoming.excluded[each.name] for each in table.c if each.name not in key}
    if conflict is Conflict.ADD:
        return incoming.on_conflict_do_update(index_elements=key, set_={name: table.c[name] + new for name, new in rest.items()})
    if isinstance(incoming, postgresql.Insert):
        key.append("started_unix_ms")  # by which the table is parted
    return incoming.on_conflict_do_update(index_elements=key, set_=rest, where=incoming.excluded.rank > table.c.rank)


class _SQLite:
    def __init__(self, policy: Policy) -> None:
        self._statements = {table: _Statement(_settled(sqlite.insert(table), each)) for table, each in policy.items()}

    async def begin(self, connection: AsyncConnection, events: Sequence[Event] = ()) -> None:
        """Do nothing: the transaction began with the lock of the whole file."""

    async def held(self, connection: AsyncConnection, events: Sequence[Event]) -> Sequence[Row[Any]]:
        # One value, however many there are: a list of them would be a statement of its own for each length.
        ids = msgspec.json.encode([each.request_id for each in events]).decode()
        found: Sequence[Row[Any]] = (await connection.execute(_HELD_AMONG, {"ids": ids})).all()
        return found

    async def put(self, connection: AsyncConnection, table: Table, rows: Sequence[Values]) -> None:
        await self._statements[table].run(connection, rows)


_HELD: Select[Any] = select(*(EVENTS.c[name] for name in COUNTED))
_IDS = func.json_each(bindparam("ids", type_=Text)).table_valued("value")
_HELD_AMONG = _HELD.where(EVENTS.c.request_id.in_(select(_IDS.c.value)))


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

    def __init__(self, policy: Policy) -> None:
        self._filled: set[Table] = set()
        self._statements = {table: _settled(_from_incoming(table), each) for table, each in policy.items()}
        self._places = "".join(
            f"CREATE TEMP TABLE IF NOT EXISTS {_incoming(table)} (LIKE {table.name}) ON COMMIT DELETE ROWS;" for table in policy
        )

    async def begin(self, connection: AsyncConnection, events: Sequence[Event] = ()) -> None:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": WRITING})
        await make_partitions(connection, {each.started_unix_ms for each in events})
        with driven():
            driver = await _driver(connection)
            await driver.execute(self._places)
        self._filled.clear()

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
        if table in self._filled:
            await connection.execute(delete(_table(_incoming(table))))
        self._filled.add(table)
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
