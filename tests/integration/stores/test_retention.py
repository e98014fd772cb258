"""Rows end, sums stay: whatever is forgotten changes no sum, and does not count again when it comes back."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import ColumnElement, func, literal_column, select, text

from gateway.policy.record import Attempt
from gateway.stores.database import Reader, Writer
from gateway.stores.events import Event
from gateway.stores.ledger import Terms
from gateway.stores.refusals import UnstorableError
from gateway.stores.reports import DIMENSIONS, OF_REQUESTS, Question, Reports, Row
from gateway.stores.retention import AT_ONCE
from gateway.stores.schema import ATTEMPTS, EVENTS
from tests.integration.stores.ledger_world import DEAD, Tally, add, at_least, consumer, fields, lying_in
from tests.integration.stores.test_rollups import closed

TRIED = tuple(Attempt(model="m", provider="p", status=429, outcome="busy", sent=True, duration_ms=n) for n in range(2))
MONTHS = [round(datetime(2027, month, day, tzinfo=UTC).timestamp() * 1000) for month, day in ((1, 1), (1, 31), (2, 1), (2, 20))]


def old(n: int, started_unix_ms: int, **changes: Any) -> Event:
    return closed(n, started_unix_ms=started_unix_ms, tried=TRIED, **changes)


async def everything(reader: Reader) -> dict[str, list[Row]]:
    return {by: await Reports(reader).rows(Question(by=(by,))) for by in DIMENSIONS if by not in OF_REQUESTS}


async def counted(reader: Reader) -> tuple[int, int]:
    [events] = await reader.fetch(select(func.count().label("n")).select_from(EVENTS))
    [attempts] = await reader.fetch(select(func.count().label("n")).select_from(ATTEMPTS))
    return events["n"], attempts["n"]


async def test_what_is_forgotten_stays_in_every_sum(writer: Writer, reader: Reader) -> None:
    await writer.write([old(n, started, output_tokens=n) for n, started in enumerate(MONTHS)])
    sums = await everything(reader)
    assert await counted(reader) == (4, 8)
    assert not await writer.forget(MONTHS[2])
    assert await counted(reader) == (2, 4)
    assert await everything(reader) == sums


async def test_users_are_told_apart_as_long_as_requests_are_kept(writer: Writer, reader: Reader) -> None:
    await writer.write([old(n, started, user_hash="u") for n, started in enumerate(MONTHS)])
    await writer.forget(MONTHS[2])
    assert [(row["user"], row["requests"]) for row in await Reports(reader).rows(Question(by=("user",)))] == [("u", 2)]


async def test_what_is_forgotten_never_counts_again(writer: Writer, reader: Reader) -> None:
    await writer.write([old(n, started) for n, started in enumerate(MONTHS)])
    await writer.forget(MONTHS[2])
    sums = await everything(reader)
    with pytest.raises(UnstorableError, match="older than what is kept"):
        await writer.write([old(0, MONTHS[0]), old(9, MONTHS[3])])
    await writer.write([old(2, MONTHS[2])])
    assert await everything(reader) == sums
    assert await counted(reader) == (2, 4)


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_file_is_freed_little_by_little(writer: Writer, reader: Reader) -> None:
    await writer.write([closed(n) for n in range(2 * AT_ONCE + 1)])
    left = []
    more = True
    while more:
        more = await writer.forget(closed(1).started_unix_ms + 1)
        left.append((await counted(reader))[0])
    assert left == [AT_ONCE + 1, 1, 0]


@pytest.mark.parametrize("kind", ["postgres"])
async def test_months_are_there_before_they_begin_and_end_whole(writer: Writer, reader: Reader) -> None:
    async def months() -> list[str]:
        part: ColumnElement[str] = literal_column("inhrelid::regclass::text").label("name")
        parts = select(part).select_from(text("pg_inherits")).where(text("inhparent = 'usage_event'::regclass")).order_by(part)
        return [row["name"].removeprefix("usage_event_") for row in await reader.fetch(parts)]

    await writer.write([old(1, MONTHS[1]), old(2, MONTHS[3])])
    assert await months() == ["2027_01", "2027_02", "2027_03"]
    await writer.forget(MONTHS[2] - 1)
    assert await months() == ["2027_01", "2027_02", "2027_03"]
    await writer.forget(MONTHS[3])
    assert await months() == ["2027_02", "2027_03"]
    assert await counted(reader) == (1, 2)


async def test_the_consumer_sees_to_it_once_nothing_waits(redis: Redis, writer: Writer, reader: Reader) -> None:
    # The world's requests began in September 2026; what is kept begins with the first of the next month but one.
    kept_s = time.time() - datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    tally = Tally()
    ledger = consumer(redis, writer, tally, terms=Terms(batch=3, retention_s=kept_s))
    await add(redis, *(fields("close", n) for n in range(8)))
    assert await ledger.flush(10)
    await tally.until(at_least(8))
    assert await counted(reader) == (0, 0)
    [total] = await Reports(reader).rows(Question(by=("org",)))
    assert total["requests"] == 8
    await add(redis, fields("close", 3))
    assert await ledger.flush(10)
    assert [entry[b"reason"][:23] for _, entry in await lying_in(redis, DEAD)] == [b"older than what is kept"]
    assert [total] == await Reports(reader).rows(Question(by=("org",)))
