"""Traces on a real Valkey: found by id, bounded in number and age, and never waited for."""

from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.admission.client import traces_key
from gateway.policy.record import Attempt, Record
from gateway.stores.traces import AT_ONCE, KEPT_MS, MOST_PENDING, TraceReader, Traces, TracesAwayError, first_id
from gateway.telemetry.health import LedgerHealth
from tests.valkey import Valkey

NOW_MS = 1_790_000_000_000
KEY = traces_key()


def id_of(number: int, unix_ms: int = NOW_MS) -> str:
    return f"{first_id(unix_ms)}-7{number % 4096:03x}-8000-{number:012x}"


def record(number: int, unix_ms: int = NOW_MS, **fields: Any) -> Record:
    return Record(request_id=id_of(number, unix_ms), route="/v1/chat/completions", started_s=0, started_unix_ms=unix_ms, **fields)


def traces(redis: Redis, health: LedgerHealth, **bounds: int) -> Traces:
    return Traces(redis, KEY, lambda: NOW_MS, health, **bounds)


async def test_a_request_is_found_by_its_whole_id_alone(redis: Redis) -> None:
    health = LedgerHealth()
    writer, reader = traces(redis, health), TraceReader(redis, KEY)
    tried = Attempt(model="m", provider="p", status=200, outcome="ok", sent=True)
    count = 2 * AT_ONCE + 1
    for number in range(count):
        writer.add(record(number, attempts=[tried], status=number))
    assert await reader.find(id_of(7)) is None
    await writer.flush()
    for number in (0, 7, count - 1):
        found = await reader.find(id_of(number))
        assert found is not None
        assert (found.request_id, found.status, found.attempts) == (id_of(number), number, [tried])
    for stranger in (id_of(count), id_of(7)[:-1], "", "\xff" * 36, id_of(7) + "0"):
        assert await reader.find(stranger) is None
    assert health.dropped_count == 0


async def test_the_newest_are_kept_and_none_for_longer_than_an_hour(redis: Redis) -> None:
    writer, reader = traces(redis, LedgerHealth(), kept=3), TraceReader(redis, KEY)
    writer.add(record(1, NOW_MS - KEPT_MS - 1))
    writer.add(record(2, NOW_MS - KEPT_MS))
    await writer.flush()
    assert await reader.find(id_of(1, NOW_MS - KEPT_MS - 1)) is None
    assert await reader.find(id_of(2, NOW_MS - KEPT_MS)) is not None
    for number in (5, 3, 4):
        writer.add(record(number, NOW_MS + number))
    await writer.flush()
    assert await redis.zcard(KEY) == 3
    assert await reader.find(id_of(2, NOW_MS - KEPT_MS)) is None
    assert await reader.find(id_of(3, NOW_MS + 3)) is not None
    assert 0 < await redis.pttl(KEY) <= KEPT_MS


async def test_what_a_store_that_is_away_does_not_take_is_dropped_and_counted(redis: Redis, valkey: Valkey) -> None:
    health = LedgerHealth()
    writer, reader = traces(redis, health), TraceReader(redis, KEY)
    for number in range(MOST_PENDING + 5):
        writer.add(record(number))
    assert health.dropped_count == 5
    valkey.stop()
    try:
        await writer.flush()
        assert health.dropped_count == 5 + MOST_PENDING
        assert health.redis_errors["traces"] == 1
        with pytest.raises(TracesAwayError):
            await reader.find(id_of(1))
    finally:
        valkey.start()
    writer.add(record(1))
    await writer.flush()
    assert await reader.find(id_of(1)) is not None
