"""Cases RL-09 to RL-13: a store that is a cluster, goes away, is far away, or is not heard any more."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.policy.charges import Dimension
from tests.clusters import Cluster
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.fakes.wire import Wire, post
from tests.field.metering import figures, key, model, posted, secret, settings
from tests.field.way import Way
from tests.running import Running, Store, running
from tests.valkey import Valkey

ONCE = {"burst_ratio": 10}
"""Ten at once, one a minute: nothing comes back while a test lasts."""


@asynccontextmanager
async def served(keys: list[dict[str, Any]], store: Store, directory: Path, **sections: Any) -> AsyncIterator[Running]:
    async with HttpServer(Models()) as server:
        found = settings(*keys, **sections)
        found["providers"] = {name: {**each, "base_url": f"{server.base_url}/v1"} for name, each in found["providers"].items()}
        async with running(found, store, directory) as run:
            run.client = httpx.AsyncClient(
                base_url=run.url, timeout=10, trust_env=False, limits=httpx.Limits(max_connections=None)
            )
            yield run


async def ask(run: Running, name: str, **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return await run.client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {secret(name)}"})


async def test_rl_09_all_limits_hold_on_a_cluster(tmp_path: Path) -> None:
    everything = {"rpm": 60, "tpm": 60_000, "rpd": 100, "concurrency": 5, "per_model": {"m": {"rpm": 1, **ONCE}}}
    keys = [key("whole", limits=everything, budget={"usd": 100})]
    org = {"limits": everything, "budget": {"usd": 1_000}}
    models = {"m": model("m", "p", limits={"rpm": 1_000, "tpm": 1_000_000, "concurrency": 50})}
    async with Cluster() as cluster, served(keys, cluster, tmp_path, org=org, models=models) as run:
        answered = [await ask(run, "whole", max_tokens=10) for _ in range(12)]
        assert [answer.status_code for answer in answered] == [200] * 10 + [429] * 2
        assert {answer.json()["error"]["code"] for answer in answered[10:]} == {"rate_limit_exceeded"}
        assert [row["outcome"] for row in await run.rows()] == ["ok"] * 10
        assert await run.leases() == 0
        assert not run.gateway.status()["degraded"]


LOCAL, CLOSED = {"on_failure": {"rates": "local"}}, {"on_failure": {"rates": "closed"}}


@pytest.mark.parametrize("way", ["paused", "killed"])
@pytest.mark.parametrize("policy", [LOCAL, CLOSED], ids=["local", "closed"])
async def test_rl_10_without_its_store_a_gateway_does_what_its_file_says(
    policy: dict[str, Any], way: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = [key("usual", limits={"rpm": 6, **ONCE}), key("spender", budget={"usd": 1})]
    logs = {"telemetry": {"level": "info", "log": "json"}}
    with Valkey() as valkey:
        gone, back = (valkey.pause, valkey.resume) if way == "paused" else (valkey.stop, valkey.start)
        async with served(keys, valkey, tmp_path, redis=policy, **logs) as run:
            assert await redis_up(run) == 1
            assert (await ask(run, "usual")).status_code == 200
            gone()
            answered = [await ask(run, "usual") for _ in range(20)]
            assert {answer.status_code for answer in answered} == ({200} if policy is LOCAL else {503})
            flex, dear = await ask(run, "usual", service_tier="flex"), await ask(run, "spender")
            assert (flex.status_code, dear.status_code) == (429 if policy is LOCAL else 503, 503)
            refused = [answer for answer in (*answered, flex, dear) if answer.status_code == 503]
            assert {answer.json()["error"]["code"] for answer in refused} == {"limiter_unavailable"}
            assert {answer.headers["retry-after"] for answer in refused} == {"1"}
            assert all(answer.elapsed.total_seconds() < 2 for answer in answered), "none hangs"
            assert await redis_up(run) == 0
            assert (await run.client.get("/health")).status_code == 200
            await asyncio.to_thread(back)
            async with asyncio.timeout(10.0):
                while not await redis_up(run):
                    await asyncio.sleep(0.02)
            # What was served without the store counts when it is back.
            answer = await ask(run, "usual")
            assert answer.status_code == 200
            await run.settled()
            assert await posted(run, "k:usual", Dimension.RPM) >= (20 if policy is LOCAL else 1)
    events = Counter(msgspec.json.decode(line)["event"] for line in capfd.readouterr().out.splitlines())
    assert (events["admission_alone"], events["admission_shared_again"]) == (1, 1)


async def redis_up(run: Running) -> float:
    """Return what the metrics say of it."""
    page = (await run.gateway._exposition.render()).decode()
    return float(page.partition("\ntiergate_redis_up ")[2].partition("\n")[0])


async def test_rl_11_many_at_once_wait_for_a_store_that_is_far_away(tmp_path: Path, valkey: Valkey) -> None:
    async with Way(valkey) as way, served([key("many")], way, tmp_path) as run:
        way.delay_s = 0.05
        answered = await asyncio.gather(*(ask_alone(run, "many") for _ in range(150)))
        assert Counter(answered) == {200: 150}
        assert not run.gateway.status()["degraded"]


async def ask_alone(run: Running, name: str) -> int:
    """Ask on a connection of its own, and return the status."""
    headers = (("authorization", f"Bearer {secret(name)}"), ("content-type", "application/json"))
    async with Wire(run.url) as wire:
        await wire.send(post(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}', *headers))
        return (await wire.answer()).status


async def test_rl_12_a_call_that_is_given_up_shifts_nobodys_reply(tmp_path: Path, valkey: Valkey) -> None:
    dice = random.Random(12)
    limits = {f"caller{number}": 1_000 + number for number in range(5)}
    keys = [key(name, limits={"rpm": rpm}) for name, rpm in limits.items()]
    heard: Counter[str] = Counter()

    async def call(run: Running, name: str, patience_s: float | None) -> None:
        try:
            async with asyncio.timeout(patience_s):
                answer = await ask(run, name)
        except TimeoutError:
            return
        assert (answer.status_code, answer.headers["x-ratelimit-limit-requests"]) == (200, f"{limits[name]}")
        heard[name] += 1

    async with Way(valkey) as way, served(keys, way, tmp_path) as run:
        way.delay_s = 0.02
        for _ in range(3):
            calls = [(name, dice.choice([None, dice.uniform(0.0, 0.08)])) for name in limits for _ in range(10)]
            dice.shuffle(calls)
            await asyncio.gather(*(call(run, name, patience_s) for name, patience_s in calls))
        assert heard.keys() == limits.keys()
        await run.settled()
        by_key = Counter(row["key"] for row in await run.rows() if row["outcome"] == "ok")
        assert all(by_key[name] >= count for name, count in heard.items())
        assert await run.leases() == 0


@pytest.mark.parametrize("policy", [LOCAL, CLOSED], ids=["local", "closed"])
async def test_rl_13_a_call_whose_reply_is_lost_counts_once(policy: dict[str, Any], tmp_path: Path, valkey: Valkey) -> None:
    cut: list[bytes] = []

    def first_words(data: bytes) -> bool:
        """Cut each of the first calls that name the key's bucket: those that admit."""
        if b"k:unheard" not in data or len(cut) == 2:
            return False
        cut.append(data)
        return True

    async with Way(valkey) as way, served([key("unheard", limits={"rpm": 1, **ONCE})], way, tmp_path, redis=policy) as run:
        way.cuts = first_words
        answered = []
        for _ in range(5):
            answered.append(await ask(run, "unheard"))
            async with asyncio.timeout(5.0):
                while run.gateway.status()["degraded"]:
                    await asyncio.sleep(0.01)
        await run.settled()
        served_count = Counter(answer.status_code for answer in answered)
        assert served_count == ({200: 5} if policy is LOCAL else {200: 3, 503: 2})
        assert len(cut) == 2
        assert await posted(run, "k:unheard", Dimension.RPM) == served_count[200]
        assert (await figures(run, "k:unheard", Dimension.RPM))[1] == 0
        assert await run.leases() == 0
