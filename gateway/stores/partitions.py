"""The months that a Postgres keeps requests and attempts in, each a table of its own: to forget a month is to drop its tables.

A month is there before its first request: whoever stores a request makes its month and the next. Times are Unix milliseconds.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.stores.rollups import DAY_MS, start_of_month
from gateway.stores.schema import ATTEMPTS, EVENTS

PARTED = (ATTEMPTS.name, EVENTS.name)

LONGEST_MONTH_MS = 31 * DAY_MS

_MISSING = text("SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NULL")
_PRESENT = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = CAST(:parent AS regclass)")


def next_month(start: int) -> int:
    """Return when the month begins after one that began at `start`."""
    return start_of_month(start + LONGEST_MONTH_MS)


async def make_partitions(connection: AsyncConnection, starts: Iterable[int]) -> None:
    """Make the months that these instants lie in, and those after them, where they are not."""
    months = {start_of_month(each) for each in starts}
    months |= {next_month(each) for each in months}
    wanted = {_name(parent, month): (parent, month) for month in sorted(months) for parent in PARTED}
    missing = (await connection.execute(_MISSING, {"names": list(wanted)})).scalars().all()
    for name in missing:
        parent, month = wanted[name]
        # Attached, not made as a part: that would wait for every report, and have all others wait for it.
        await connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {parent} INCLUDING DEFAULTS INCLUDING INDEXES)")
        bounds = f"FROM ({month}) TO ({next_month(month)})"
        await connection.exec_driver_sql(f"ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES {bounds}")


async def drop_partitions(connection: AsyncConnection, before: int) -> int | None:
    """Drop the months that ended by then. Return when the last of them ended, None where there was none."""
    ended = None
    for parent in PARTED:
        present = (await connection.execute(_PRESENT, {"parent": parent})).scalars().all()
        for name in present:
            end = next_month(_month(name))
            if end <= before:
                await connection.exec_driver_sql(f"DROP TABLE {name}")
                ended = max(ended or 0, end)
    return ended


def _name(parent: str, month: int) -> str:
    return f"{parent}_{datetime.fromtimestamp(month / 1000, UTC):%Y_%m}"


def _month(name: str) -> int:
    return round(datetime.strptime(name[-7:], "%Y_%m").replace(tzinfo=UTC).timestamp()) * 1000
