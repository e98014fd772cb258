"""redis-py's client of the store: whatever happens to a connection, its users hear of an outage and of nothing else."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from tests.valkey import Valkey


async def test_a_connection_that_was_lost_before_it_was_written_to_is_an_outage(valkey: Valkey) -> None:
    async with open_client(locator(valkey.url), timeout_s=2.0) as redis:
        connection: Any = await redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        lost = connection._writer.transport
        lost.abort()
        while not lost.get_extra_info("socket") or lost.get_extra_info("socket").fileno() != -1:
            await asyncio.sleep(0)
        with pytest.raises(RedisConnectionError):
            await connection.send_command("PING")
        await connection.send_command("PING")
        assert await connection.read_response() == b"PONG"
