"""Connections to the database: a SQLite file of this host, or a Postgres that many gateways share.

What the two need done differently before a statement can run is done here. Durations are seconds; no error shows a password.
"""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

BUSY_TIMEOUT_S = 3.0
"""How long a statement waits for another process's lock, for SQLite's file or a table of a Postgres.

Well below the consumer's lease, which must outlive a full wait.
"""

MIGRATION_S = 600.0
"""How long one waits for another that migrates the same file: of many workers at start, one does it for all."""

CONNECT_TIMEOUT_S = 3.0
STATEMENT_TIMEOUT_S = 30.0
"""The longest that a Postgres works on one statement: a report that takes longer is given up, by both ends."""

POOL = 10
SQLITE_READERS = 2

POSTGRES = ("postgresql", "postgres")


class Database:
    """Where the database is, by its URL: `sqlite:///path`, or what libpq calls a connection URI (`postgresql://…`)."""

    def __init__(self, url: str) -> None:
        """Raises ValueError, without any of the URL's secrets, for what is neither."""
        try:
            self.url = make_url(url)
        except ArgumentError:
            raise ValueError("not a URL of a database") from None
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if not self.url.database or not (self.is_sqlite or self.url.drivername in POSTGRES):
            raise ValueError(f"neither a SQLite file nor a Postgres: {self}")

    @property
    def file(self) -> Path | None:
        """Return SQLite's file."""
        return Path(self.url.database or "") if self.is_sqlite else None

    def __repr__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def open_to_write(self, pool: int = 1) -> AsyncEngine:
        """Return connections whose transactions may change anything; SQLite has one, whose lock is taken at the beginning."""
        if self.file is None:
            return self._postgres(pool)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        engine = _sqlite(str(self.file), pool_size=1, query={})
        event.listen(engine.sync_engine, "connect", _durable)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
        return engine

    def open_to_migrate(self) -> AsyncEngine:
        """Return a connection that may take as long as it likes, and may rebuild a table that others refer to."""
        if self.file is None:
            return self._postgres(1, statement_timeout_s=0)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        engine = _sqlite(str(self.file), pool_size=1, query={}, timeout_s=MIGRATION_S)
        event.listen(engine.sync_engine, "connect", _written_ahead)
        event.listen(engine.sync_engine, "begin", _begin_immediate)
        return engine

    def open_to_read(self, pool: int = POOL) -> AsyncEngine:
        """Return connections that change nothing; they never wait for a writer, nor a writer for them."""
        return self._to_read(pool, STATEMENT_TIMEOUT_S)

    def open_to_copy(self) -> AsyncEngine:
        """Return a connection that reads the rows of one moment, for as long as its transaction takes."""
        engine = self._to_read(1, statement_timeout_s=0)
        return engine if self.is_sqlite else engine.execution_options(isolation_level="REPEATABLE READ")

    def _to_read(self, pool: int, statement_timeout_s: float) -> AsyncEngine:
        if self.file is None:
            return self._postgres(pool, statement_timeout_s).execution_options(postgresql_readonly=True)
        engine = _sqlite(f"file:{self.file}", pool_size=SQLITE_READERS, query={"mode": "ro", "uri": "true"})
        event.listen(engine.sync_engine, "begin", _begin)
        return engine

    def _postgres(self, pool: int, statement_timeout_s: float = STATEMENT_TIMEOUT_S) -> AsyncEngine:
        settings = {
            "application_name": "tiergate",
            "timezone": "UTC",
            "lock_timeout": _ms(BUSY_TIMEOUT_S if statement_timeout_s else 0),
            "statement_timeout": _ms(statement_timeout_s),
            # A gateway that was suspended in a transaction must not keep its locks from all others.
            "idle_in_transaction_session_timeout": _ms(statement_timeout_s),
        }
        connect = partial(
            asyncpg.connect,
            # The driver reads the URI itself, with every option that libpq's users know.
            self.url.render_as_string(hide_password=False),
            timeout=CONNECT_TIMEOUT_S,
            # A server that vanished from the network ends nothing by itself.
            command_timeout=statement_timeout_s + CONNECT_TIMEOUT_S if statement_timeout_s else None,
            server_settings=settings,
        )
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=connect,
            pool_size=pool,
            max_overflow=0,
            pool_pre_ping=True,  # a connection that the server has closed since is found out here, not by a request
            pool_timeout=CONNECT_TIMEOUT_S,
            hide_parameters=True,
        )


def _ms(duration_s: float) -> str:
    return f"{duration_s * 1000:.0f}"


def _sqlite(database: str, *, pool_size: int, query: dict[str, str], timeout_s: float = BUSY_TIMEOUT_S) -> AsyncEngine:
    url = URL.create("sqlite+aiosqlite", database=database, query=query)
    # isolation_level None: the driver's own idea of when a transaction begins would fight ours.
    connect_args = {"timeout": timeout_s, "isolation_level": None}
    return create_async_engine(url, pool_size=pool_size, max_overflow=0, connect_args=connect_args, hide_parameters=True)


def _begin_immediate(connection: Connection) -> None:
    # A deferred transaction that later writes can fail at once with SQLITE_BUSY, whatever the time-out says.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _written_ahead(connection: Any, _record: object) -> None:
    _set(connection, "journal_mode = WAL", "synchronous = FULL")


def _durable(connection: Any, _record: object) -> None:
    _set(connection, "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")


def _set(connection: Any, *pragmas: str) -> None:
    cursor: sqlite3.Cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
