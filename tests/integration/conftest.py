"""One real Valkey for all integration tests of a session; each test gets it empty."""

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.valkey import Valkey


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
