"""A Valkey for the room's tests, emptied before each, and a fresh database file."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.stores.database import Reader, Writer
from tests.valkey import Valkey


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
async def redis(valkey: Valkey) -> AsyncIterator[Redis]:
    client = Redis(unix_socket_path=valkey.socket, socket_timeout=1.0, retry=Retry(NoBackoff(), 0))
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def writer(url: str) -> AsyncIterator[Writer]:
    writer = Writer(url)
    yield writer
    await writer.close()


@pytest.fixture
async def reader(url: str) -> AsyncIterator[Reader]:
    reader = Reader(url)
    yield reader
    await reader.close()
