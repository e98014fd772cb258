"""Tables come by revisions, alike on both databases; a database of another release is told apart and left alone."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.policy.record import Attempt
from gateway.stores import tenancy_schema
from gateway.stores.database import Reader, Writer
from gateway.stores.engine import Database
from gateway.stores.events import Event
from gateway.stores.migrations import revisions, run
from gateway.stores.reports import DIMENSIONS, LedgerAwayError, Question, Reports
from gateway.stores.schema import ATTEMPTS, EVENTS, METADATA
from gateway.stores.versions import KNOWN, NEWEST, SchemaVersionError, admit, current, upgrade
from tests.integration.stores.test_rollups import added_up, answered

BEFORE_REVISIONS = Path(__file__).parent / "before_revisions.sql"
"""A file as the release wrote it that had no revisions, dumped with what two requests left in it."""


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[AsyncConnection]:
    engine = database.open_to_write()
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


async def execute(database: Database, *statements: str) -> None:
    async with transaction(database) as connection:
        for statement in statements:
            await connection.execute(text(statement))


def test_revisions_are_one_line_in_the_order_of_their_files() -> None:
    chain = [revision.revision for revision in revisions().walk_revisions()]
    assert list(reversed(chain)) == list(KNOWN)


async def test_an_empty_database_becomes_the_newest(empty_url: str) -> None:
    database = Database(empty_url)
    assert await current(database) is None
    assert await upgrade(database) == NEWEST
    assert await current(database) == NEWEST
    await admit(database)


async def test_migrations_lead_to_the_tables_that_the_code_names(url: str) -> None:
    def differences(connection: Connection) -> Sequence[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, METADATA))

    assert tenancy_schema.AUDIT.metadata is METADATA
    async with transaction(Database(url)) as connection:
        assert await connection.run_sync(differences) == []


async def test_several_at_once_migrate_once(empty_url: str) -> None:
    assert await asyncio.gather(*(upgrade(Database(empty_url)) for _ in range(4))) == [NEWEST] * 4


async def test_a_database_of_a_newer_release_is_refused(url: str) -> None:
    database = Database(url)
    await execute(database, "UPDATE alembic_version SET version_num = '9999'")
    for refused in (upgrade(database), admit(database), Writer(url).migrate()):
        with pytest.raises(SchemaVersionError, match="start the newer release"):
            await refused


async def test_a_postgres_waits_for_the_command_and_a_file_does_not(empty_url: str) -> None:
    writer = Writer(empty_url)
    if Database(empty_url).is_sqlite:
        await writer.migrate()
        assert await current(Database(empty_url)) == NEWEST
    else:
        with pytest.raises(SchemaVersionError, match=r"no tables.*tiergate db upgrade"):
            await writer.migrate()
        assert await current(Database(empty_url)) is None
    await writer.close()


async def test_a_file_from_before_the_revisions_is_brought_along(tmp_path: Path) -> None:
    file = tmp_path / "tiergate.db"
    old = sqlite3.connect(file)
    old.executescript(BEFORE_REVISIONS.read_text())
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    url = f"sqlite:///{file}"
    reader = Reader(url)
    with pytest.raises(LedgerAwayError, match="no tables"):
        await Reports(reader).rows(Question())
    await upgrade(Database(url))
    assert old.execute("PRAGMA user_version").fetchone() == (2,)
    old.close()
    rows = await Reports(reader).rows(Question())
    assert [(row["request_id"], row["outcome"], row["attempts"]) for row in rows] == [("req-000001", "ok", 2)]
    assert len(await reader.fetch(ATTEMPTS.select())) == 2
    assert [row["requests"] for row in await Reports(reader).rows(Question(by=("org",)))] == [1]
    await reader.close()


async def test_sums_are_made_of_the_requests_that_are_there(empty_url: str) -> None:
    database = Database(empty_url)
    columns = (
        "request_id, started_unix_ms, key, key_id, org, route, stream, rank, estimated, queued_ms, attempts, outcome, project"
    )
    figures = "input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_nano_usd, own_cost_nano_usd"
    rows = [
        f"('r{n}', {start}, 'ci', 'k1', 'acme', 'chat', false, {rank}, {estimated}, 0, {tried}, {outcome}, 1, 2, 3, 4, {n}, NULL)"
        for n, (start, rank, estimated, tried, outcome) in enumerate(
            [
                (1_796_083_199_999, 2, "false", 2, "'ok', NULL"),
                (1_796_083_200_000, 2, "true", 0, "'ok', 'search'"),
                (1_798_761_600_000, 1, "true", 0, "'abandoned', NULL"),
                (1_798_761_600_001, 0, "false", 0, "NULL, NULL"),
            ]
        )
    ]
    async with transaction(database) as connection:
        await connection.run_sync(run, "0003")
        await connection.execute(text(f"INSERT INTO usage_event ({columns}, {figures}) VALUES {', '.join(rows)}"))
        tried = "('r0', 1, 'm', 'p', 429, 'busy', true, 3), ('r0', 2, 'm', 'q', 200, 'ok', true, 4)"
        attempt = "request_id, n, model, provider, status, outcome, sent, duration_ms"
        await connection.execute(text(f"INSERT INTO usage_attempt ({attempt}) VALUES {tried}"))
    await upgrade(database)
    reader = Reader(empty_url)
    for by in DIMENSIONS:
        assert await answered(reader, (by,), 0, live=False) == await added_up(reader, (by,), 0, live=False)
    attempts = await reader.fetch(select(ATTEMPTS).order_by(ATTEMPTS.c.n))
    assert [(row["started_unix_ms"], row["outcome"]) for row in attempts] == [(1_796_083_199_999, end) for end in ("busy", "ok")]
    assert len(await Reports(reader).rows(Question(live=True))) == 4
    await reader.close()


@pytest.mark.parametrize("change", ["UPDATE audit SET actor = 'b'", "DELETE FROM audit", "TRUNCATE audit", "REPLACE"])
async def test_the_audit_only_grows(url: str, change: str) -> None:
    database = Database(url)
    if change == ("TRUNCATE audit" if database.is_sqlite else "REPLACE"):
        pytest.skip("the other database's word")
    row = "INTO audit (id, at_unix_ms, actor, action, subject, detail) VALUES (1, 0, 'a', 'b', 'c', '{}')"
    await execute(database, f"INSERT {row}")
    with pytest.raises(DBAPIError, match="append-only"):
        await execute(database, f"INSERT OR REPLACE {row}" if change == "REPLACE" else change)


async def test_of_the_keys_that_stand_one_has_a_name(url: str) -> None:
    database = Database(url)
    key = (
        "INSERT INTO api_key (id, name, org, definition, created_unix_ms, updated_unix_ms, revoked_unix_ms, source)"
        " VALUES ('%s', 'ci', 'acme', '{}', 0, 0, %s, 'minted')"
    )
    await execute(database, key % ("a", "1"), key % ("b", "2"), key % ("c", "NULL"))
    with pytest.raises(DBAPIError):
        await execute(database, key % ("d", "NULL"))


def test_events_have_the_columns_of_the_table() -> None:
    assert {*Event.__struct_fields__, "attempts"} - {"tried"} == set(EVENTS.c.keys())


def test_the_columns_stand_in_the_order_of_the_values_fields() -> None:
    assert [column.name for column in EVENTS.c] == ["attempts" if name == "tried" else name for name in Event.__struct_fields__]
    assert [column.name for column in ATTEMPTS.c] == ["request_id", "n", "started_unix_ms", *Attempt.__struct_fields__[:-1]]


@pytest.mark.parametrize("text", ["", "var/tiergate.db", "mysql://u:hush@h/d", "sqlite://", "postgresql://u:hush@h"])
def test_what_is_no_database_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"URL|neither") as refused:
        Database(text)
    assert "hush" not in str(refused.value)
    assert "hush" not in repr(Database("postgresql://u:hush@h/d"))
