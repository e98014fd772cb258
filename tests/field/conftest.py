"""The store that the cases from the field run against."""

from tests.integration.conftest import empty, valkey, valkey_server

__all__ = ["empty", "valkey", "valkey_server"]
