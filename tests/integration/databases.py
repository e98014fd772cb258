"""A fresh database for each test, of either kind: `empty_url` has no tables yet, `url` has this release's."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.stores.engine import Database
from gateway.stores.versions import upgrade
from tests.postgres import Postgres

MIGRATED = "migrated"
"""The database that those of tests are copies of: a copy takes a tenth of a migration's time."""

KINDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        server.psql(f"CREATE DATABASE {MIGRATED}")
        with ThreadPoolExecutor(1) as beside:  # whoever asks for this first may be in a loop of its own
            beside.submit(lambda: asyncio.run(upgrade(Database(server.url(MIGRATED))))).result()
        yield server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return which database a test runs on: each that asks for one runs on both."""
    return str(request.param)


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/state/tiergate.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()


@pytest.fixture
async def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        file = f"sqlite:///{tmp_path}/state/tiergate.db"
        await upgrade(Database(file))
        return file
    server: Postgres = request.getfixturevalue("postgres")
    return server.create(template=MIGRATED)
