"""The store dies, stops or refuses under load: the gateway serves on by its own share, and loses no row of the ledger."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.integration.load.rest import comes_to_rest
from tests.running import Running, config, running
from tests.valkey import Valkey

RPM = 12
LONGEST_S = 0.3
"""A call waits for the store for a tenth of a second; the rest is the machine's."""

RECOVERY_S = 8.0

WAITING = {tier: {"queue": "9s"} for tier in ("priority", "default", "flex")} | {"over-limit": {"queue": "0s"}}


@asynccontextmanager
async def gateway(valkey: Valkey, directory: Path, **sections: object) -> AsyncIterator[Running]:
    models = {
        "m": {"deployments": [{"provider": "p", "model": "up-m", "max_concurrency": 4}], "price": {"input": 1, "output": 2}}
    }
    plan = {"limits": {"rpm": RPM}, "tiers": ["default", "flex"]}
    async with HttpServer(Models()) as server:
        settings = config({"p": server.base_url}, models, plan=plan, **sections)
        async with running(settings, valkey, directory) as run:
            yield run


async def served_alone(run: Running) -> int:
    """Ask until the share is used up. Return how many requests were served."""
    for count in range(2 * RPM):
        began_s = time.monotonic()
        answer = await run.chat(service_tier="default")
        assert time.monotonic() - began_s < LONGEST_S
        assert answer.status_code in (200, 429), answer.text
        if answer.status_code == 429:
            assert answer.json()["error"]["code"] == "rate_limit_exceeded"
            return count
        assert answer.headers["x-ratelimit-limit-requests"] == str(RPM)
    raise AssertionError("its share has no end")


@pytest.mark.parametrize("way", ["paused", "killed"])
async def test_requests_are_served_and_limited_without_a_store_and_each_has_its_row(way: str, tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with gateway(valkey, tmp_path) as run:
            assert (await run.chat(service_tier="default")).status_code == 200
            assert len(await run.rows()) == 1, "what only the store knows goes with it"
            valkey.pause() if way == "paused" else valkey.stop()
            served = await served_alone(run)
            flex = await run.chat(service_tier="flex")
            assert (flex.status_code, flex.json()["error"]["code"]) == (429, "flex_no_capacity")
            status = run.gateway.status()
            assert (status["ready"], status["degraded"]) == (True, True)
            valkey.resume() if way == "paused" else valkey.start()
            await comes_to_rest(run, within_s=RECOVERY_S)
            assert (await run.chat(service_tier="default")).status_code == 429, "what was served alone counts"
            assert RPM <= served <= RPM + 1
            rows = await run.rows()
            assert [row["outcome"] for row in rows] == ["ok"] * (served + 1)


async def test_a_store_that_takes_no_writes_is_as_good_as_none(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with gateway(valkey, tmp_path) as run:
            await run.gateway._redis.config_set("maxmemory", "1")
            assert (await run.chat(service_tier="default")).status_code == 200
            await run.gateway._redis.config_set("maxmemory", "0")
            await comes_to_rest(run, within_s=RECOVERY_S)
            assert [row["outcome"] for row in await run.rows()] == ["ok"]


async def test_a_store_that_comes_and_goes_is_worth_one_burst(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with gateway(valkey, tmp_path) as run:
            valkey.stop()
            assert await served_alone(run) >= RPM
            valkey.start()
            await comes_to_rest(run, within_s=RECOVERY_S)
            assert (await run.chat(service_tier="default")).status_code == 429, "not one burst more, though it is empty"
            await run.settled()
            valkey.stop()
            assert await served_alone(run) < RPM / 2, "what has leaked meanwhile, and no second burst"
            valkey.start()
            await comes_to_rest(run, within_s=RECOVERY_S)


async def test_what_runs_alone_counts_against_its_share_until_it_ends(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with gateway(valkey, tmp_path) as run:
            valkey.stop()
            holding = [asyncio.create_task(run.chat(service_tier="default", user="holder")) for _ in range(4)]
            transports = run.gateway._corridor.snapshot.transports.values()
            while len(run.gateway._sweep) < 4 or sum(t.occupancy().busy for t in transports) < 4:
                await asyncio.sleep(0.005)
            full = await run.chat(service_tier="default")
            assert (full.status_code, full.json()["error"]["code"]) == (429, "engine_overloaded")
            for task in holding:
                task.cancel()
            await asyncio.wait(holding)
            await run.gateway._sweep.empty.wait()
            assert (await run.chat(service_tier="default")).status_code == 200
            valkey.start()
            await comes_to_rest(run, within_s=RECOVERY_S)


@pytest.mark.parametrize(("usd", "alone"), [(0.9, False), (500, True)])
async def test_who_has_hardly_anything_left_of_a_budget_is_refused_until_the_store_is_back(
    usd: float, alone: bool, tmp_path: Path
) -> None:
    with Valkey() as valkey:
        async with gateway(valkey, tmp_path, key={"budget": {"usd": usd}}) as run:
            assert (await run.chat(service_tier="default")).status_code == 200
            await run.settled()
            valkey.pause()
            answer = await run.chat(service_tier="default")
            if alone:
                assert answer.status_code == 200
            else:
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "limiter_unavailable")
                assert int(answer.headers["retry-after"]) >= 1
            valkey.resume()
            await comes_to_rest(run, within_s=RECOVERY_S)
            assert (await run.chat(service_tier="default")).status_code == 200
            assert [row["outcome"] for row in await run.rows() if row["outcome"] != "rejected"] == ["ok"] * (2 + alone)


async def test_who_waits_when_the_store_goes_away_waits_no_more(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with gateway(valkey, tmp_path, tiers=WAITING, leases={"heartbeat": "1s"}) as run:
            holding = [asyncio.create_task(run.chat(service_tier="default", user="holder")) for _ in range(4)]
            while sum(t.occupancy().busy for t in run.gateway._corridor.snapshot.transports.values()) < 4:
                await asyncio.sleep(0.005)
            waiting = [asyncio.create_task(run.chat(service_tier=tier)) for tier in ("default", "default", "flex")]
            await run.waiting(3)
            valkey.stop()
            async with asyncio.timeout(RECOVERY_S):
                answers = await asyncio.gather(*waiting)
            assert [each.status_code for each in answers] == [200, 200, 429]
            assert answers[2].json()["error"]["code"] == "flex_no_capacity"
            valkey.start()
            while await run.leases() < 4:
                await asyncio.sleep(0.02)
            full = await run.chat(service_tier="default", fail_fast=True)
            assert (full.status_code, full.json()["error"]["code"]) == (429, "engine_overloaded"), "what runs counts again"
            for task in holding:
                task.cancel()
            await asyncio.wait(holding)
            await comes_to_rest(run, within_s=RECOVERY_S)
            rows = Counter(row["outcome"] for row in await run.rows())
            assert rows == {"ok": 2, "cancelled": 4}
