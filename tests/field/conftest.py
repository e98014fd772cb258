"""The store that the cases from the field run against."""

from tests.integration.conftest import valkey, valkey_server

__all__ = ["valkey", "valkey_server"]
