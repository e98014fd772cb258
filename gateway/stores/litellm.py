"""LiteLLM's database as it is: the rows of its tables, read without a change in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.engine import Database

_PRISMAS = (
    "connection_limit",
    "pool_timeout",
    "pgbouncer",
    "socket_timeout",
    "sslaccept",
    "sslidentity",
    "sslpassword",
    "statement_cache_size",
    "connect_timeout",
)
"""What its own driver reads of a URL, and a Postgres knows nothing of."""

_SCHEMA = "schema"


class NotThereError(Exception):
    """The database has no such table where it has to be."""


def database_of(url: str) -> tuple[Database, str]:
    """Return the database of a URL as it stands in `database_url`, and the schema of its tables. Raises ValueError."""
    database = Database(url)
    if database.is_sqlite:
        raise ValueError("expected the URL of a Postgres, such as postgresql://…")
    query = dict(database.url.query)
    schema = query.pop(_SCHEMA, "public")
    for name in _PRISMAS:
        query.pop(name, None)
    stripped = make_url(url).set(query=query)
    return Database(stripped.render_as_string(hide_password=False)), schema if isinstance(schema, str) else schema[-1]


async def tables(url: str, wanted: Mapping[str, str], needed: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the rows of each table, none where a release has no such table. `wanted` says which rows, in SQL.

    Raises ValueError for a URL that is none, `NotThereError` where the `needed` table is not there, and what the database says.
    """
    database, schema = database_of(url)
    engine = database.open_to_read(1)
    try:
        async with engine.connect() as connection:
            found = {name: await _rows(connection, (schema, name), which) for name, which in wanted.items()}
    finally:
        await engine.dispose()
    if found[needed] is None:
        raise NotThereError(f"there is no table {needed} in the schema {schema}")
    return {name: rows or [] for name, rows in found.items()}


async def _rows(connection: AsyncConnection, path: Sequence[str], which: str) -> list[Mapping[str, Any]] | None:
    table = ".".join(map(connection.dialect.identifier_preparer.quote_identifier, path))
    known = await connection.execute(text("SELECT to_regclass(:name)"), {"name": table})
    if known.scalar() is None:
        return None
    # As JSON all columns come in one way, whatever their types and however many a release has.
    query = f"SELECT row_to_json(t)::text FROM {table} AS t {which}"  # noqa: S608  # names are quoted, the rest is our own
    return [msgspec.json.decode(row) for row in (await connection.execute(text(query))).scalars()]
