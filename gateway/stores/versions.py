"""Which tables a database has, told by the number of the last revision that it has seen.

A SQLite file is brought along by whoever opens it first. A Postgres, which others may be using, waits for `tiergate db upgrade`.
"""

import pkgutil
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import Database

KNOWN = tuple(sorted(path.stem[1:5] for path in (Path(__file__).parent / "migrations" / "versions").glob("r[0-9]*.py")))
"""The revisions of this release."""

NEWEST = KNOWN[-1]

UPGRADE = "run `tiergate db upgrade --config FILE`"

LOCK = 0x7469_6572_6761_7465
"""Of all that may take advisory locks in a Postgres, the number that is ours."""


class SchemaVersionError(Exception):
    """The database was written by another release: a newer one, or an older one that nobody migrated yet."""


def version_of(connection: Connection) -> str | None:
    """Return the last revision that the database has seen, None where it is not ours yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def check(connection: Connection) -> None:
    """Raise SchemaVersionError unless the database has the tables of this release."""
    found = version_of(connection)
    if found == NEWEST:
        return
    _refuse_newer(found)
    raise SchemaVersionError(f"the database has {_named(found)}, this release needs schema {NEWEST}: {UPGRADE}")


def check_newer(connection: Connection) -> None:
    """Raise SchemaVersionError when a newer release has been here: its tables are not ours to guess."""
    _refuse_newer(version_of(connection))


def _refuse_newer(found: str | None) -> None:
    if found is not None and found not in KNOWN:
        raise SchemaVersionError(f"the database has {_named(found)}, which this release does not know: start the newer release")


def _named(version: str | None) -> str:
    return "no tables" if version is None else f"schema {version}"


async def upgrade(database: Database) -> str:
    """Bring the database to this release, in one transaction. Safe to call from several processes at once. Return the version.

    Raises SchemaVersionError when the database is newer than this release.
    """
    engine = database.open_to_migrate()
    try:
        async with engine.begin() as connection:
            await _upgrade(connection)
    finally:
        await engine.dispose()
    return NEWEST


async def _upgrade(connection: AsyncConnection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite's lock was taken when the transaction began
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    found = await connection.run_sync(version_of)
    _refuse_newer(found)
    if found != NEWEST:
        run: Callable[[Connection], None] = pkgutil.resolve_name("gateway.stores.migrations:run")
        await connection.run_sync(run)


async def current(database: Database) -> str | None:
    """Return the version that the database says it has, None where it is not there or not ours yet."""
    if database.file is not None and not database.file.exists():
        return None
    engine = database.open_to_read(1)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(version_of)
    finally:
        await engine.dispose()


async def admit(database: Database) -> None:
    """Raise SchemaVersionError where a gateway must not start on this database."""
    if database.file is not None and not database.file.exists():
        return
    engine = database.open_to_read(1)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(check_newer if database.is_sqlite else check)
    finally:
        await engine.dispose()
