"""At most one candidate leads, and the next one need not wait longer than it must."""

import asyncio

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.stores.election import Election
from tests.valkey import Valkey

KEY = "tg:v1:{main}:lease"


def candidate(redis: Redis, ttl_s: float = 10.0) -> Election:
    return Election(redis, KEY, "w0", ttl_s)


async def test_of_many_candidates_one_is_elected(redis: Redis) -> None:
    candidates = [candidate(redis) for _ in range(8)]
    assert sum(await asyncio.gather(*(each.hold() for each in candidates))) == 1
    assert sum(each.elected for each in candidates) == 1


async def test_who_resigns_is_followed_at_once_and_resigns_nobody_else(redis: Redis) -> None:
    first, second = candidate(redis), candidate(redis)
    assert await first.hold()
    await first.resign()
    assert await second.hold()
    await first.resign()
    assert await redis.exists(KEY) == 1
    assert not await candidate(redis).hold()


async def test_the_lease_ends_by_itself_and_a_late_holder_finds_out(redis: Redis) -> None:
    late = candidate(redis, ttl_s=0.0)
    with pytest.raises(RedisError):
        await late.hold()
    assert not late.elected
    first, second = candidate(redis, ttl_s=0.2), candidate(redis)
    assert await first.hold()
    await redis.delete(KEY)  # as its end does
    assert await second.hold()
    async with asyncio.timeout(5):
        while await first.hold():
            await asyncio.sleep(0.01)
    assert not first.elected


async def test_a_holder_is_known_again_after_its_store_was_away(valkey: Valkey, redis: Redis) -> None:
    holder = candidate(redis, ttl_s=0.5)
    assert await holder.hold()
    await redis.connection_pool.disconnect()
    async with asyncio.timeout(5):
        while await redis.pttl(KEY) > 350:
            await asyncio.sleep(0.01)
    assert await holder.hold()
    assert await redis.pttl(KEY) > 350
