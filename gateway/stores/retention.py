"""The end of requests' rows: their sums stay, and what was deleted is never counted again. Times are Unix milliseconds."""

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.partitions import drop_partitions
from gateway.stores.schema import ATTEMPTS, EVENTS, HORIZON

AT_ONCE = 1_000
"""Requests that one transaction deletes from SQLite's file, so that nobody waits for it for long."""


async def forget(connection: AsyncConnection, before: int) -> bool:
    """Delete some of what began before then. Return whether there may be more. The caller has the ledger to itself."""
    if connection.dialect.name == "postgresql":
        ended = await drop_partitions(connection, before)
        if ended is not None:
            await _count_no_more(connection, ended)
        return False
    oldest = (
        select(EVENTS.c.request_id).where(EVENTS.c.started_unix_ms < before).order_by(EVENTS.c.started_unix_ms).limit(AT_ONCE)
    )
    ids = (await connection.execute(oldest)).scalars().all()
    if ids:
        await _count_no_more(connection, before)
        await connection.execute(delete(ATTEMPTS).where(ATTEMPTS.c.request_id.in_(ids)))
        await connection.execute(delete(EVENTS).where(EVENTS.c.request_id.in_(ids)))
    return len(ids) == AT_ONCE


async def _count_no_more(connection: AsyncConnection, before: int) -> None:
    await connection.execute(update(HORIZON).where(HORIZON.c.unix_ms < before).values(unix_ms=before))
