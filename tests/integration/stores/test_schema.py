import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, StaticPool, create_engine

from gateway.policy.record import Attempt
from gateway.stores.events import Event
from gateway.stores.schema import ATTEMPTS, EVENTS, VERSION, SchemaVersionError, migrate, version_of


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:"), poolclass=StaticPool)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_an_empty_database_becomes_the_newest(connection: Connection) -> None:
    assert version_of(connection) == 0
    migrate(connection)
    migrate(connection)
    assert version_of(connection) == VERSION
    assert connection.exec_driver_sql("SELECT count(*) FROM usage_event").scalar_one() == 0


def test_a_database_of_a_newer_release_is_refused(connection: Connection) -> None:
    connection.exec_driver_sql(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(SchemaVersionError, match="start the newer release"):
        migrate(connection)


def test_events_have_the_columns_of_the_table() -> None:
    assert {*Event.__struct_fields__, "attempts"} - {"tried"} == set(EVENTS.c.keys())


def test_the_columns_stand_in_the_order_of_the_values_fields() -> None:
    assert [column.name for column in EVENTS.c] == [*Event.__struct_fields__[:-1], "attempts"]
    assert [column.name for column in ATTEMPTS.c] == ["request_id", "n", *Attempt.__struct_fields__[:-1]]
