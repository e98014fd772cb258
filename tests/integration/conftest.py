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


def flush(server: Valkey) -> None:
    with Redis(unix_socket_path=server.socket) as redis:
        redis.flushall()


@pytest.fixture(scope="module", autouse=True)
def empty(valkey_server: Valkey) -> None:
    """Let each module find the store empty: what gateways of others' tests learned, or left behind when killed, is not there."""
    flush(valkey_server)


@pytest.fixture
def valkey(valkey_server: Valkey) -> Valkey:
    flush(valkey_server)
    return valkey_server
