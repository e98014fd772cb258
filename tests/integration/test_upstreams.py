"""Upstreams in trouble, by two gateways that share what they learn: who is asked, who is left alone, and who is never blamed."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.admission.client import cell_prefix
from gateway.config import load
from gateway.policy.admission import Word
from gateway.processes.desk import open_desk
from tests.fakes.http_server import Call, HttpServer, Script
from tests.fakes.openai import BUSY, SSE, Models, answers, completion, error, event, refuses, silence
from tests.running import Running, config, running
from tests.valkey import Valkey

FAILURES = 5
BREAKER = {"open": "400ms", "failures": FAILURES}


class Pair:
    """Two gateways over one store and one provider, whose script is `models`."""

    def __init__(self, runs: list[Running], models: Models) -> None:
        self.one, self.other = runs
        self.models = models

    async def settled(self) -> None:
        for run in (self.one, self.other):
            await run.settled()


def settings(url: str) -> dict[str, Any]:
    """`free` has no ceiling, `T` two deployments of which the first is tried first; `kin` shares the provider of `m`."""

    def deployment(name: str, **fields: Any) -> dict[str, Any]:
        return {"provider": "p", "model": f"up-{name}", **fields}

    models = {
        "m": {"deployments": [deployment("m", max_concurrency=10)]},
        "kin": {"deployments": [deployment("kin", max_concurrency=10)]},
        "free": {"deployments": [deployment("free")]},
        "T": {"deployments": [deployment("T1", order=1), {**deployment("T2", order=2), "provider": "q"}]},
    }
    tiers = {"default": {"queue": "3s"}, "priority": {"queue": "3s"}}
    return config({"p": url, "q": url}, models, tiers=tiers, plan={"tiers": ["priority", "default"]}, breaker=BREAKER)


@pytest.fixture
async def pair(valkey: Valkey, tmp_path: Path) -> AsyncIterator[Pair]:
    models = Models()
    async with HttpServer(models) as server, AsyncExitStack() as stack:
        runs = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            running_one = running(settings(server.base_url), valkey, tmp_path / name, name)
            runs.append(await stack.enter_async_context(running_one))
        yield Pair(runs, models)
        models.release()


def first(script: Script, *, times: int = 1) -> Script:
    """Make a script that does this so many times, and answers after that."""
    left = [script] * times

    async def act(call: Call) -> None:
        await (left.pop() if left else answers())(call)

    return act


def outcome(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.headers["x-gateway-attempts"]


async def test_a_request_that_had_no_room_waits_for_it_as_long_as_it_was_asked_to(pair: Pair) -> None:
    pair.models.acts["m"] = first(refuses(429, BUSY, retry_after_ms="300"))
    began_s = asyncio.get_running_loop().time()
    assert outcome(await pair.one.chat()) == (200, "m;429, m;200")
    assert asyncio.get_running_loop().time() - began_s >= 0.3
    await pair.settled()
    [row] = await pair.one.rows()
    assert row["queued_ms"] >= 300


@pytest.mark.parametrize(
    ("hint", "fields"), [("300", {"fail_fast": True}), ("9000", {})], ids=["it_will_not_wait", "longer_than_it_may_wait"]
)
async def test_a_request_that_cannot_wait_so_long_is_told_at_once(hint: str, fields: dict[str, Any], pair: Pair) -> None:
    pair.models.acts["m"] = refuses(429, BUSY, retry_after_ms=hint)
    response = await pair.one.chat(**fields)
    assert outcome(response) == (429, "m;429")
    assert response.headers["retry-after-ms"] == hint
    assert pair.models.asked == ["m"]


async def test_what_one_gateway_was_told_the_other_knows(pair: Pair) -> None:
    pair.models.acts["m"] = first(refuses(429, BUSY, retry_after="9"))
    await pair.one.chat(fail_fast=True)
    await pair.settled()
    assert outcome(await pair.other.chat(fail_fast=True)) == (429, "m;429")
    assert pair.models.asked == ["m"], "and does not ask"


async def test_an_account_that_is_out_cools_every_model_that_takes_its_credential(pair: Pair) -> None:
    pair.models.acts["m"] = first(refuses(429, error("Rate limit reached", code="rate_limit_exceeded"), retry_after="9"))
    await pair.one.chat(fail_fast=True)
    await pair.settled()
    assert outcome(await pair.other.chat(model="kin", fail_fast=True)) == (429, "kin;429")
    assert outcome(await pair.other.chat(model="T")) == (200, "T;429, T;200")
    assert pair.models.asked == ["m", "T2"]


async def test_an_account_with_nothing_left_is_not_asked_until_it_has(pair: Pair) -> None:
    left = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "9s"}
    pair.models.acts["m"] = refuses(200, completion(), **left)
    assert (await pair.one.chat()).status_code == 200
    await pair.settled()
    response = await pair.other.chat(model="kin", fail_fast=True)
    assert outcome(response) == (429, "kin;429")
    assert pair.models.asked == ["m"]


async def open_breaker(pair: Pair, script: Script) -> None:
    """Have the first deployment of `T` fail until its breaker opens."""
    pair.models.acts["T1"] = script
    for _ in range(FAILURES):
        assert (await pair.one.chat(model="T")).status_code == 200
    await pair.settled()
    assert pair.models.asked == ["T1", "T2"] * FAILURES
    pair.models.asked.clear()


async def half_open(run: Running) -> None:
    """Wait until a probe may go to the first deployment of `T`."""
    redis = run.gateway._redis
    condition: Any = await redis.get(f"{cell_prefix('tg', 'c0')}up:T/p/up-T1")
    open_until_ms = struct.unpack_from("<12d", condition)[7]
    while True:
        seconds, micros = await redis.time()
        if seconds * 1000 + micros // 1000 >= open_until_ms:
            return
        await asyncio.sleep(0.01)


async def test_a_breaker_that_one_opens_the_other_finds_open(pair: Pair) -> None:
    await open_breaker(pair, refuses(500))
    assert outcome(await pair.other.chat(model="T")) == (200, "T;0, T;200")
    assert pair.models.asked == ["T2"]


async def test_one_request_of_all_gateways_probes_and_two_good_ones_close_it(pair: Pair) -> None:
    pair.models.acts.clear()
    await open_breaker(pair, refuses(500))

    async def slow(call: Call) -> None:
        await release.wait()
        await answers()(call)

    release = asyncio.Event()
    pair.models.acts["T1"] = slow
    await half_open(pair.one)
    asking = [asyncio.create_task(each.chat(model="T")) for each in (pair.one, pair.other) * 5]
    while sum(each.done() for each in asking) < 9:
        await asyncio.sleep(0.01)
    assert sorted(pair.models.asked) == ["T1"] + ["T2"] * 9, "nine go where it is known to work"
    release.set()
    assert {each.status_code for each in await asyncio.gather(*asking)} == {200}
    await pair.settled()
    for _ in range(2):
        assert outcome(await pair.other.chat(model="T")) == (200, "T;200")
        await pair.settled()


async def test_a_stream_that_probes_is_heard_at_its_first_word(pair: Pair) -> None:
    await open_breaker(pair, refuses(500))

    async def long_stream(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "Hello"}))
        await call.gone.wait()

    pair.models.acts["T1"] = long_stream
    await half_open(pair.one)
    body = {"model": "T", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    async with AsyncExitStack() as stack:
        for run in (pair.one, pair.other, pair.one):
            response = await stack.enter_async_context(run.client.stream("POST", "/v1/chat/completions", json=body))
            assert response.headers["x-gateway-attempts"] == "T;200"
            assert await anext(response.aiter_bytes())
            while len(run.gateway._tasks) > run_at_rest(run):
                await asyncio.sleep(0.01)
    assert pair.models.asked == ["T1"] * 3


def run_at_rest(run: Running) -> int:
    """Return how many tasks a gateway has that never end: its loops."""
    return sum(not task.get_name().startswith("admission-report") for task in run.gateway._tasks._tasks)


async def test_clients_who_leave_or_run_out_of_time_blame_nobody(pair: Pair) -> None:
    pair.models.acts["T1"] = silence
    for _ in range(2 * FAILURES):
        response = await pair.one.client.post(
            "/v1/chat/completions",
            json={"model": "T", "messages": [{"role": "user", "content": "hi"}]},
            headers={"x-request-timeout": "0.05"},
        )
        assert response.status_code == 504
    for _ in range(2 * FAILURES):
        with pytest.raises(httpx.ReadTimeout):
            await pair.one.client.post(
                "/v1/chat/completions", json={"model": "T", "messages": [{"role": "user", "content": "hi"}]}, timeout=0.05
            )
    await pair.settled()
    pair.models.acts.clear()
    assert outcome(await pair.other.chat(model="T")) == (200, "T;200")


async def test_congestion_gives_a_deployment_without_a_ceiling_one_of_what_was_running(pair: Pair) -> None:
    body = {"model": "free", "user": "holder", "messages": [{"role": "user", "content": "hi"}]}
    holding = [asyncio.create_task(pair.one.client.post("/v1/chat/completions", json=body)) for _ in range(4)]
    while await pair.one.leases() < 4:
        await asyncio.sleep(0.01)
    pair.models.acts["free"] = first(refuses(429, BUSY, retry_after_ms="1"))
    assert (await pair.one.chat(model="free", fail_fast=True)).status_code == 429
    while await pair.one.leases() > 4:
        await asyncio.sleep(0.01)
    assert outcome(await pair.other.chat(model="free", fail_fast=True)) == (429, "free;429"), "3 of the 5 that ran"
    assert pair.models.asked == ["free"]
    pair.models.release()
    assert {each.status_code for each in await asyncio.gather(*holding)} == {200}
    await pair.settled()
    assert (await pair.other.chat(model="free", fail_fast=True)).status_code == 200


async def test_an_outage_is_not_multiplied_by_retries(valkey: Valkey, tmp_path: Path) -> None:
    models = Models()
    models.acts["T1"] = refuses(500)
    async with HttpServer(models) as server:
        forgiving = {**settings(server.base_url), "breaker": {"failures": 10_000, "window": "1ms"}}
        async with running(forgiving, valkey, tmp_path) as run:
            responses = [await run.chat(model="T") for _ in range(40)]
            refused = [each for each in responses if each.status_code != 200]
            assert 5 <= len(refused) <= 10, "30 may be repeated in ten seconds"
            for each in refused:
                assert outcome(each) == (502, "T;500")
                assert each.headers["x-gateway-retry"] == "budget"


async def test_what_the_operator_takes_out_of_service_is_asked_by_nobody(pair: Pair, valkey: Valkey, tmp_path: Path) -> None:
    first, second = "T/p/up-T1", "T/q/up-T2"
    async with open_desk(load(tmp_path / "one" / "gateway.yaml", {}).config, valkey.url) as desk:
        await desk.say(Word.DISABLE, [first])
        assert outcome(await pair.other.chat(model="T")) == (200, "T;0, T;200")
        await desk.say(Word.DISABLE, [second])
        answer = await pair.other.chat(model="T")
        assert outcome(answer) == (502, "T;0, T;0")
        assert answer.json()["error"]["code"] == "upstream_unavailable"
        await desk.say(Word.ENABLE, [first])
        assert outcome(await pair.other.chat(model="T")) == (200, "T;200")
    assert pair.models.asked == ["T2", "T1"]
