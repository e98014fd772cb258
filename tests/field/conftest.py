"""The store that the cases from the field run against."""

import pytest
from redis import Redis

from tests.integration.conftest import valkey, valkey_server
from tests.valkey import Valkey

__all__ = ["valkey", "valkey_server"]


@pytest.fixture(scope="module", autouse=True)
def empty(valkey_server: Valkey) -> None:
    """Let each module find the store empty: what others' gateways learned of models of the same name is not there."""
    with Redis(unix_socket_path=valkey_server.socket) as redis:
        redis.flushall()
