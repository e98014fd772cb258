"""A gateway whose database is a Postgres: the same rows and reports; without the server requests go on, and rows come later."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.fakes.openai import Models, answers
from tests.integration.databases import MIGRATED
from tests.integration.scene import Scene, scene
from tests.postgres import Postgres
from tests.running import config
from tests.valkey import Valkey

SETTINGS = config(
    {"p": "{upstream}"}, {"m": {"deployments": [{"provider": "p", "model": "m"}], "price": {"input": 1, "output": 2}}}
)


@pytest.fixture
async def place(postgres: Postgres, valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    models = Models()
    models.acts["m"] = answers()
    database = {"url": postgres.create(MIGRATED), "pool": 2}
    async with scene(models, {**SETTINGS, "database": database}, valkey, tmp_path) as running:
        yield running


async def test_each_request_has_its_row(place: Scene) -> None:
    for _ in range(3):
        assert (await place.ask(model="m")).status_code == 200
    rows = await place.run.rows()
    assert [(row["outcome"], row["model_served"], row["org"]) for row in rows] == [("ok", "m", "acme")] * 3
    assert all(row["cost_micro_usd"] is not None for row in rows)
    reader = Reader(place.run.database)
    [sums] = await Reports(reader).rows(Question(by=("org", "month")))
    await reader.close()
    assert sums["requests"] == 3


async def test_requests_go_on_without_the_server_and_rows_come_when_it_is_back(place: Scene, postgres: Postgres) -> None:
    assert (await place.ask(model="m")).status_code == 200
    assert len(await place.run.rows()) == 1
    postgres.stop()
    try:
        assert (await place.ask(model="m")).status_code == 200
        await place.run.settled()
        await asyncio.sleep(0.5)
    finally:
        postgres.start()
    assert len(await place.run.rows()) == 2
