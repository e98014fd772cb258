"""The configuration's fallbacks behind a busy model: its own queue comes first, and what its end leads to."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.admission.client import cell_prefix
from tests.fakes.openai import Models, refuses
from tests.integration.fallback.chain import chain, model
from tests.integration.scene import Scene, scene
from tests.valkey import Valkey

PATIENCE_S = 0.4

BREAKER = {"failures": 1, "open": "2s", "max_open": "2s"}


@pytest.fixture
async def walk(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Scene]:
    """Yield models with B behind them; requests of flex wait for `PATIENCE_S`, those of priority never."""
    models = {
        "A": model("A", fallbacks=["B"]),
        "small": model("small", fallbacks=["B"], queue={"max_waiters": 1}),
        "weak": model("weak", fallbacks=["B"]),
    }
    tiers = {"priority": {"queue": "0s"}, "default": {"queue": "5s"}, "flex": {"queue": f"{int(1000 * PATIENCE_S)}ms"}}
    tiers |= {"over-limit": {"queue": "0s"}, "no-limit": {"queue": "0s"}}
    settings = chain(models=models, tiers=tiers, breaker=BREAKER)
    settings["providers"]["p"]["quirks"] = {"fail_fast": True}
    async with scene(Models(), settings, valkey, tmp_path) as found:
        yield found


def asking(walk: Scene, **fields: Any) -> "asyncio.Task[httpx.Response]":
    return asyncio.create_task(walk.ask(**{"model": "A", "service_tier": "default", **fields}))


async def nothing_is_left(walk: Scene) -> None:
    redis = walk.run.gateway._redis
    assert await walk.run.leases() == 0
    assert await redis.keys(cell_prefix("tg", "c0") + "line:*") == []


async def test_the_model_asked_for_serves_when_its_turn_comes_in_time(walk: Scene) -> None:
    async with walk.filled("A"):
        waiting = asking(walk)
        await walk.run.waiting(1)
    response = await waiting
    assert (response.json()["model"], response.headers["x-gateway-attempts"]) == ("A", "A;200")
    assert walk.models.asked == ["A"]


async def test_a_provider_that_can_fail_fast_is_asked_to_while_fallbacks_remain(walk: Scene) -> None:
    for name, told in (("A", True), ("B", False)):
        assert (await walk.ask(model=name, service_tier="default")).json()["model"] == name
        assert (b'"fail_fast":true' in walk.server.requests[-1].body) is told


async def test_after_a_wait_in_vain_the_fallback_serves_and_the_row_tells_both(walk: Scene) -> None:
    async with walk.filled("A"):
        response = await walk.ask(model="A", service_tier="flex")
        assert (response.json()["model"], response.headers["x-gateway-attempts"]) == ("B", "A;429, B;200")
        assert response.json()["service_tier"] == "flex"
    served, _ = sorted(await walk.run.rows(), key=lambda row: str(row["model_served"]), reverse=True)
    assert (served["model_served"], served["outcome"], served["attempts"]) == ("B", "ok", 2)
    assert served["queued_ms"] >= 1000 * PATIENCE_S
    await nothing_is_left(walk)


async def test_where_nothing_has_room_the_wait_ends_as_a_busy_model_and_leaves_no_row(walk: Scene) -> None:
    async with walk.filled("A", "B"):
        response = await walk.ask(model="A", service_tier="flex")
        assert (response.status_code, response.json()["error"]["code"]) == (429, "flex_no_capacity")
        assert response.headers["x-gateway-attempts"] == "A;429, B;429"
    assert [row["outcome"] for row in await walk.run.rows()] == ["ok", "ok"]
    await nothing_is_left(walk)


@pytest.mark.parametrize(
    "fields",
    [{"fail_fast": True}, {"service_tier": "priority"}, {"models": ["A", "B"]}],
    ids=["fails fast", "a tier that never waits", "the client's own list"],
)
async def test_who_does_not_wait_for_the_model_asked_for_has_the_next_at_once(fields: dict[str, Any], walk: Scene) -> None:
    async with walk.filled("A"):
        response = await walk.ask(**{"model": "A", "service_tier": "default", **fields})
        assert (response.json()["model"], response.headers["x-gateway-attempts"]) == ("B", "A;429, B;200")


async def test_a_queue_that_is_full_leads_on_at_once_and_the_last_model_is_waited_for(walk: Scene) -> None:
    async with walk.filled("small", "B"):
        first = asking(walk, model="small")
        await walk.run.waiting(1)
        second = asking(walk, model="small")
        await walk.run.waiting(2)
    answers = await asyncio.gather(first, second)
    assert [answer.headers["x-gateway-attempts"] for answer in answers] == ["small;200", "small;429, B;200"]


async def test_a_fault_and_the_breaker_that_it_opens_lead_on_at_once(walk: Scene) -> None:
    walk.models.acts["weak"] = refuses(500)
    for attempts in ("weak;500, B;200", "weak;0, B;200"):
        response = await walk.ask(model="weak", service_tier="default")
        assert (response.json()["model"], response.headers["x-gateway-attempts"]) == ("B", attempts)
    assert [row["queued_ms"] for row in await walk.run.rows()] == [0, 0]
    await nothing_is_left(walk)


async def test_a_client_whose_time_is_up_in_the_queue_is_told_that_the_model_is_busy(walk: Scene) -> None:
    body = {"model": "A", "messages": [{"role": "user", "content": "hi"}], "service_tier": "default"}
    async with walk.filled("A"):
        response = await walk.run.client.post("/v1/chat/completions", json=body, headers={"x-request-timeout": "0.3"})
        assert (response.status_code, response.json()["error"]["code"]) == (429, "engine_overloaded")
        assert walk.models.asked == []


async def test_a_client_that_leaves_the_queue_has_one_row_and_nothing_is_tried_for_it(walk: Scene) -> None:
    async with walk.filled("A"):
        leaving = asking(walk)
        await walk.run.waiting(1)
        leaving.cancel()
        await walk.run.waiting(0)
    assert sorted(row["outcome"] for row in await walk.run.rows()) == ["cancelled", "ok"]
    assert walk.models.asked == []
    await nothing_is_left(walk)
