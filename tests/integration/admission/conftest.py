"""The admission scripts on a real Valkey, emptied before each test, with a clock that tests drive."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.admission.spool import Spool
from gateway.tasks import Owned
from tests.integration.admission.rows import Clock
from tests.valkey import Valkey


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
async def redis(valkey: Valkey) -> AsyncIterator[Redis]:
    client = open_client(locator(valkey.url), timeout_s=5.0)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def connection(valkey: Valkey, redis: Redis) -> AsyncIterator[Connection]:
    connection = Connection(locator(valkey.url), Owned(), timeout_s=5.0)
    assert await connection.open()
    yield connection
    await connection.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def admission(connection: Connection, clock: Clock) -> Admission:
    return Admission(connection, clock=clock)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    found = Spool(tmp_path / "spool" / "own.ndjson", 1 << 20)
    yield found
    found.close()
