"""Requests that wait for a busy model: who is served when, what a wait that ends without a turn comes to, what is left of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.admission.client import cell_prefix
from tests.fakes.openai import Models
from tests.integration.scene import Scene, bearer, scene
from tests.running import config, running
from tests.valkey import Valkey

OTHER = "sk-test-secret-of-the-other-org"
PATIENCE_S = 0.3


def settings() -> dict[str, object]:
    """One model with one slot; requests of every tier wait for it, those of the model `brief` not for long."""
    deployment = {"provider": "p", "model": "up-m", "max_concurrency": 1}
    models = {"m": {"deployments": [deployment]}, "small": {"deployments": [deployment], "queue": {"max_waiters": 2}}}
    found = config({"p": "{upstream}"}, models)
    return {
        **found,
        "keys": [*found["keys"], {"name": "other", "org": "other", "secret": OTHER, "over_limit": {"rpm": 60}}],
        "orgs": {**found["orgs"], "other": {"plan": "all"}},
        "tiers": {
            "priority": {"queue": "5s"},
            "default": {"queue": "5s"},
            "over-limit": {"queue": "0s"},
            "flex": {"queue": f"{int(1000 * PATIENCE_S)}ms"},
        },
    }


@pytest.fixture
async def busy(valkey_server: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path) as found:
        yield found


def asking(scene: Scene, **fields: Any) -> "asyncio.Task[httpx.Response]":
    return asyncio.create_task(scene.ask(**{"model": "m", **fields}))


async def held(scene: Scene) -> int:
    """Return how many leases and waiters the store knows."""
    redis = scene.run.gateway._redis
    lanes = [await redis.zcard(key) for key in await redis.keys(cell_prefix("tg", "c0") + "line:*")]
    return await scene.run.leases() + sum(lanes)


async def test_who_waits_is_served_when_the_slot_is_free_and_its_row_tells_how_long_that_took(busy: Scene) -> None:
    async with busy.filled("m"):
        waiting = asking(busy)
        await busy.run.waiting(1)
    response = await waiting
    assert (response.status_code, response.headers["x-gateway-attempts"]) == (200, "m;200")
    row = (await busy.run.rows())[0]
    assert row["outcome"] == "ok"
    assert 0 < row["queued_ms"] <= row["duration_ms"]
    assert await held(busy) == 0


async def test_priority_is_served_before_those_who_came_earlier(busy: Scene) -> None:
    served: list[str] = []

    async def ask(tier: str, key: str | None = None) -> None:
        response = await busy.ask(model="m", service_tier=tier, key=key)
        served.append(response.json()["service_tier"])

    async with busy.filled("m"):
        tasks = []
        for number, tier in enumerate(("default", "default", "priority"), 1):
            tasks.append(asyncio.create_task(ask(tier)))
            await busy.run.waiting(number)
    await asyncio.gather(*tasks)
    assert served == ["priority", "default", "default"]


async def test_orgs_take_turns(busy: Scene) -> None:
    served: list[str] = []

    async def ask(key: str | None) -> None:
        assert (await busy.ask(model="m", key=key)).status_code == 200
        served.append("other" if key else "acme")

    async with busy.filled("m"):
        tasks = []
        for number, key in enumerate((None, None, None, OTHER), 1):
            tasks.append(asyncio.create_task(ask(key)))
            await busy.run.waiting(number)
    await asyncio.gather(*tasks)
    assert served == ["acme", "other", "acme", "acme"]


@pytest.mark.parametrize(
    ("fields", "timeout", "code"),
    [({"service_tier": "flex"}, None, "flex_no_capacity"), ({"service_tier": "default"}, "0.3", "engine_overloaded")],
    ids=["its tier's time", "its client's time"],
)
async def test_whose_time_is_up_is_told_that_the_model_is_busy_and_has_no_row(
    fields: dict[str, str], timeout: str | None, code: str, busy: Scene
) -> None:
    headers = {"x-request-timeout": timeout} if timeout else {}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    async with busy.filled("m"):
        response = await busy.run.client.post("/v1/chat/completions", json=body, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (429, code)
        assert int(response.headers["retry-after"]) >= 1
        assert response.headers["x-gateway-attempts"] == "m;429"
    assert [row["outcome"] for row in await busy.run.rows()] == ["ok"]
    assert await held(busy) == 0


async def test_a_client_that_fails_fast_does_not_wait(busy: Scene) -> None:
    async with busy.filled("m"):
        response = await busy.ask(model="m", fail_fast=True)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded")


async def test_a_client_that_leaves_the_queue_has_one_row_and_costs_nobody_a_turn(busy: Scene) -> None:
    async with busy.filled("m"):
        leaving = asking(busy)
        await busy.run.waiting(1)
        staying = asking(busy)
        await busy.run.waiting(2)
        leaving.cancel()
        await busy.run.waiting(1)
    assert (await staying).status_code == 200
    rows = await busy.run.rows()
    assert sorted(row["outcome"] for row in rows) == ["cancelled", "ok", "ok"]
    [left] = [row for row in rows if row["outcome"] == "cancelled"]
    assert (left["status"], left["cost_micro_usd"], left["model_served"]) == (499, None, None)
    assert await held(busy) == 0


async def test_no_more_wait_than_the_models_queue_holds(busy: Scene) -> None:
    async with busy.filled("small"):
        first = asking(busy, model="small")
        await busy.run.waiting(1)
        response = await busy.ask(model="small")
        assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded"), "an org has half of it"
        second = asyncio.create_task(busy.ask(model="small", key=OTHER))
        await busy.run.waiting(2)
    assert [each.status_code for each in await asyncio.gather(first, second)] == [200, 200]


async def test_a_turn_comes_to_another_gateways_waiter(valkey_server: Valkey, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with scene(Models(), settings(), valkey_server, here) as one:
        providers = config({"p": one.server.base_url}, {})["providers"]
        async with running({**settings(), "providers": providers}, valkey_server, there, worker="w1") as other:
            async with one.filled("m", key=OTHER):
                waiting = asyncio.create_task(other.client.post("/v1/chat/completions", json=BODY, headers=bearer(OTHER)))
                await other.waiting(1)
            assert (await waiting).status_code == 200


BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def test_who_waits_shows_in_the_metrics(busy: Scene) -> None:
    async def waiting_at() -> dict[str, float]:
        lines = (await busy.run.gateway._exposition.render()).decode().splitlines()
        depths = [line.split('tier="')[1] for line in lines if line.startswith('tiergate_queue_depth{model="m"')]
        return {line.partition('"')[0]: float(line.rpartition(" ")[2]) for line in depths}

    none = {"priority": 0, "default": 0, "flex": 0}
    assert await waiting_at() == none
    async with busy.filled("m"):
        tasks = [asking(busy, service_tier="priority"), asking(busy, service_tier="auto", key=OTHER)]
        await busy.run.waiting(2)
        assert await waiting_at() == {**none, "priority": 1, "default": 1}
    assert [each.status_code for each in await asyncio.gather(*tasks)] == [200, 200]
    assert await waiting_at() == none
