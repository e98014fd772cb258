"""One real Valkey, and a Postgres where one is asked for, for all integration tests of a session; each test gets them empty."""

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.integration.databases import empty_url, kind, postgres, url
from tests.valkey import Valkey

__all__ = ["empty_url", "kind", "postgres", "url"]


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
def valkey(valkey_server: Valkey) -> Valkey:
    client = Redis(unix_socket_path=valkey_server.socket)
    client.flushall()
    client.close()
    return valkey_server
