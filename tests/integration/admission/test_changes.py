"""Changes of keys, told through the store: who listens hears each of them, and the count tells who does not."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from gateway.admission.changes import ALL_KEYS, Change, Herald, heed
from gateway.admission.client import THE_CELL, Admission
from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.tasks import Owned
from tests.valkey import Valkey


@pytest.fixture
async def redis(valkey: Valkey) -> AsyncIterator[Redis]:
    client = open_client(locator(valkey.url), timeout_s=2.0)
    await client.flushall()
    yield client
    await client.aclose()


async def test_all_who_listen_hear_each_change_and_its_number(redis: Redis) -> None:
    heard: list[list[Change]] = [[], []]
    listening = [asyncio.get_running_loop().create_task(heed(redis, THE_CELL, each.append)) for each in heard]
    async with asyncio.timeout(5.0):
        while (await redis.pubsub_numsub(f"{THE_CELL}authz"))[0][1] < 2:
            await asyncio.sleep(0.01)
    herald = Herald(redis, THE_CELL)
    assert await herald.tell(["k1"])
    assert await herald.tell(["k2", ALL_KEYS], cuts=True)
    told = [Change("k1", 1), Change("k2", 2, cuts=True), Change(ALL_KEYS, 3, cuts=True)]
    async with asyncio.timeout(5.0):
        while heard != [told, told]:
            await asyncio.sleep(0.01)
    for task in listening:
        task.cancel()
    await asyncio.wait(listening)


async def test_a_tick_tells_the_count_to_who_does_not_listen(redis: Redis, valkey: Valkey) -> None:
    connection = Connection(locator(valkey.url), Owned(), timeout_s=2.0)
    await connection.open()
    admission, shown = Admission(connection), list[int | None]()
    try:
        for _ in range(3):
            await admission.tick("w1", ["nobody"])
            shown.append(admission.epoch)
            await Herald(redis, admission.prefix).tell(["k1"])
    finally:
        await connection.close()
    assert shown == [0, 1, 2]


async def test_a_store_that_is_away_is_not_told() -> None:
    client = open_client(locator("redis://127.0.0.1:1"), timeout_s=1.0)
    assert not await Herald(client, THE_CELL).tell(["k1"])
    await client.aclose()
