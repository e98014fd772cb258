"""The store of the gateways whose metrics are read."""

from tests.integration.conftest import valkey_server

__all__ = ["valkey_server"]
