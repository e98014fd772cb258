"""A month of requests in a real database: how long its report takes, and how fast the gateway's writer adds to it.

The requests are spread evenly over 2,000 keys of 200 orgs, 40 models, 720 hours and three tiers: the worst that sums can be made
of, for hardly two requests share an hour's. They are put into the tables of the revision before there were sums, and migrated.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import asyncpg
import msgspec
from msgspec.structs import astuple
from sqlalchemy import func, select, text

from gateway.policy.record import Attempt
from gateway.stores.database import TRIED, Reader, Writer
from gateway.stores.engine import Database
from gateway.stores.events import Event, decode
from gateway.stores.migrations import run
from gateway.stores.reports import Question, Reports
from gateway.stores.rollups import SPANS, TOKENS
from gateway.stores.schema import EVENTS
from gateway.stores.versions import upgrade
from tests.integration.stores.ledger_world import fields
from tests.postgres import Postgres

BEFORE_SUMS = "0003"
MONTH_UNIX_MS = 1_793_491_200_000
"""November 2026, which has 720 hours."""

MONTH_MS = 720 * 3_600_000
BATCH = 500
ADDED = 20_000
"""Requests whose storing is timed."""

BYTES_A_ROW = 2_000
"""What a request takes at most, with its sums and indexes, what the migration copies, and the log of it all."""

BY = ("month", "model", "tier")
REPORTS = 5
SETTINGS = ("shared_buffers=256MB", "max_wal_size=4GB", "work_mem=256MB", "maintenance_work_mem=256MB", "max_connections=20")
ANSWERED = (Attempt(model="m", provider="p", status=200, outcome="ok", sent=True, duration_ms=70),)

COLUMNS = """
request_id, started_unix_ms, "key", key_id, org, model_requested, route, stream, rank, outcome, status, model_served, provider,
tier_served, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_nano_usd, estimated, queued_ms, ttft_ms,
duration_ms, attempts, own_cost_nano_usd
"""
FILL = """
INSERT INTO usage_event ({columns})
WITH {numbers}, drawn AS (
    SELECT i, i * 48271 % 2147483647 % 2000 AS k, i * 69621 % 2147483647 / 53687092 % 40 AS model,
        i * 16807 % 2147483647 % 3 AS tier
    FROM numbers
)
SELECT {request_id}, {month} + i * {length} / {rows}, 'key-' || k, 'k' || k, 'org-' || k / 10, 'model-' || model, 'chat', false,
    2, CASE WHEN i % 50 = 0 THEN 'cancelled' ELSE 'ok' END, 200, 'model-' || model, 'provider-' || model % 5,
    CASE tier WHEN 0 THEN 'default' WHEN 1 THEN 'priority' ELSE 'flex' END, 900 + i % 200, 300, 200 + i % 100, 50,
    1000000 + i % 1000, false, 1, 200, 1500, 1, 800000
FROM drawn
"""


class Found(msgspec.Struct, kw_only=True):
    """What was measured of one database: seconds, bytes, requests a second, and the rows of each size of sums."""

    database: str
    migration_s: float
    report_s: float
    raw_s: float
    sums: tuple[int, ...]
    size_bytes: int
    writer_per_s: float
    bare_per_s: float


class Kind(Protocol):
    """What differs between the two."""

    name: str
    database: Database
    numbers: str
    """A common table expression of the numbers below `{rows}`, and how a number becomes an id."""

    request_id: str

    def size_bytes(self) -> int:
        """Return what it all takes."""
        ...

    async def bare(self, batches: Sequence[Sequence[tuple[object, ...]]]) -> None:
        """Store rows as fast as the driver can, a batch a transaction, where nothing else is kept."""
        ...


class File:
    """SQLite."""

    name = "SQLite"
    numbers = "RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < {rows} - 1)"
    request_id = "printf('r%012d', i)"

    def __init__(self, directory: Path) -> None:
        self._path = directory / "tiergate.db"
        self.database = Database(f"sqlite:///{self._path}")

    def size_bytes(self) -> int:
        """Return what the file takes."""
        return self._path.stat().st_size

    async def bare(self, batches: Sequence[Sequence[tuple[object, ...]]]) -> None:
        """Call executemany."""
        marks = ", ".join("?" * len(EVENTS.c))
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            for batch in batches:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(f"INSERT INTO bare_event VALUES ({marks})", batch)
                connection.execute("COMMIT")


class Server:
    """Postgres."""

    name = "Postgres"
    numbers = "numbers AS (SELECT i FROM generate_series(0, CAST({rows} - 1 AS bigint)) AS s(i))"
    request_id = "'r' || lpad(CAST(i AS text), 12, '0')"

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._url = server.create()
        self.database = Database(self._url)

    def size_bytes(self) -> int:
        """Return what the database takes."""
        return int(self._server.psql(f"SELECT pg_database_size('{self.database.url.database}')"))

    async def bare(self, batches: Sequence[Sequence[tuple[object, ...]]]) -> None:
        """Call COPY."""
        connection: Any = await asyncpg.connect(self._url)
        for batch in batches:
            await connection.copy_records_to_table("bare_event", records=batch)
        await connection.close()


async def measured(kind: Kind, rows: int) -> Found:
    """Return one database's figures."""
    await filled(kind, rows)
    began_s = time.perf_counter()
    await upgrade(kind.database)
    migration_s = time.perf_counter() - began_s
    reader = Reader(url_of(kind.database))
    report_s, raw_s = await told(reader)
    sums = tuple([(await reader.fetch(select(func.count().label("n")).select_from(each.table)))[0]["n"] for each in SPANS])
    await reader.close()
    size_bytes = kind.size_bytes()
    return Found(
        database=kind.name,
        migration_s=migration_s,
        report_s=report_s,
        raw_s=raw_s,
        sums=sums,
        size_bytes=size_bytes,
        writer_per_s=await written(kind, rows),
        bare_per_s=await written_bare(kind, rows + ADDED),
    )


async def filled(kind: Kind, rows: int) -> None:
    """Make a month of requests."""
    numbers = kind.numbers.format(rows=rows)
    bounds = {"month": MONTH_UNIX_MS, "length": MONTH_MS, "rows": rows}
    statement = FILL.format(columns=COLUMNS, numbers=numbers, request_id=kind.request_id, **bounds)
    engine = kind.database.open_to_migrate()
    async with engine.begin() as connection:
        await connection.run_sync(run, BEFORE_SUMS)
        await connection.execute(text(statement))
    await engine.dispose()


async def told(reader: Reader) -> tuple[float, float]:
    """Return how long a month's report takes, and how long the same takes by the requests.

    Raises AssertionError where they differ.
    """
    took = []
    report = []
    for _ in range(REPORTS):
        began_s = time.perf_counter()
        report = await Reports(reader).rows(Question(by=BY))
        took.append(time.perf_counter() - began_s)
    columns = EVENTS.c
    figures = [func.sum(columns[name]).label(name) for name in (*TOKENS, "cost_nano_usd", "own_cost_nano_usd")]
    names = columns.model_served.label("model"), columns.tier_served.label("tier")
    ended = columns.rank > 0, columns.started_unix_ms >= MONTH_UNIX_MS
    began_s = time.perf_counter()
    raw = await reader.fetch(select(*names, func.count().label("requests"), *figures).where(*ended).group_by(*names))
    raw_s = time.perf_counter() - began_s
    if sorted(map(comparable, report)) != sorted(map(comparable, raw)):
        raise AssertionError("the sums are not those of the requests")
    return sorted(took)[REPORTS // 2], raw_s


def comparable(row: dict[str, Any]) -> tuple[object, ...]:
    """Return what both have of a sum, money as it is shown."""
    shown = {
        name: row.get(f"{name}_micro_usd", -(-int(row.get(f"{name}_nano_usd") or 0) // 1000)) for name in ("cost", "own_cost")
    }
    return (row["model"], row["tier"], row["requests"], *(int(row[name]) for name in TOKENS), *shown.values())


async def written(kind: Kind, rows: int) -> float:
    """Return how many requests a second the gateway's writer stores, after the rows that are there."""
    writer = Writer(url_of(kind.database))
    batches = [[event(rows + start + n) for n in range(BATCH)] for start in range(0, ADDED, BATCH)]
    began_s = time.perf_counter()
    for batch in batches:
        await writer.write(batch)
    took_s = time.perf_counter() - began_s
    await writer.close()
    return ADDED / took_s


async def written_bare(kind: Kind, rows: int) -> float:
    """Return how many the driver alone stores, into a table of the same columns and key."""
    engine = kind.database.open_to_write()
    columns = ", ".join(f'"{column.name}" {column.type.compile(engine.dialect)}' for column in EVENTS.c)
    without = "WITHOUT ROWID" if kind.database.is_sqlite else ""
    async with engine.begin() as connection:
        await connection.execute(text(f"CREATE TABLE bare_event ({columns}, PRIMARY KEY (request_id)) {without}"))
    await engine.dispose()
    batches = [[row_of(event(rows + start + n)) for n in range(BATCH)] for start in range(0, ADDED, BATCH)]
    began_s = time.perf_counter()
    await kind.bare(batches)
    return ADDED / (time.perf_counter() - began_s)


def event(n: int) -> Event:
    """Return one more request, of a key and a model as the others have them."""
    changes = {"request_id": f"r{n:012}", "started_unix_ms": MONTH_UNIX_MS + MONTH_MS - 1, "tried": ANSWERED}
    key, model = n * 48271 % 2147483647 % 2000, n * 69621 % 2147483647 // 53687092 % 40
    names = {"key": f"key-{key}", "key_id": f"k{key}", "org": f"org-{key // 10}", "model_served": f"model-{model}"}
    return msgspec.structs.replace(CLOSED, **changes, **names)


CLOSED = decode({name.encode(): part for name, part in fields("close", 0).items()})


def row_of(each: Event) -> tuple[object, ...]:
    """Return an event as its table has it."""
    values = astuple(each)
    return (*values[:TRIED], len(each.tried), *values[TRIED + 1 :])


def url_of(database: Database) -> str:
    """Return where it is."""
    return database.url.render_as_string(hide_password=False)


async def on_file(rows: int) -> Found:
    """Measure SQLite."""
    with TemporaryDirectory(prefix="tgb") as directory:
        return await measured(File(Path(directory)), rows)


async def on_server(rows: int) -> Found:
    """Measure Postgres, as it comes but for its memory: every commit waits for the disk."""
    with Postgres(*SETTINGS) as server:
        return await measured(Server(server), rows)


MEASURES = {"sqlite": on_file, "postgres": on_server}
