"""Deployments behind balancers and probes: idle connections, pools of cancelled requests, what liveness and readiness look at."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from redis import Redis

from gateway.config.structs.serving import Api
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, Models, answers, event
from tests.fakes.wire import Wire, post
from tests.field.leaving import Holding, Leaving, chat
from tests.integration.edge.bad import AUTH, TYPE
from tests.integration.fallback.chain import FORGIVING
from tests.integration.processes.conditions import until
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

POOL = 20
TRANSPORTS = ("http1", "httpx")
KEEP_ALIVE_S = 0.15
BALANCERS_S = 60.0
"""After this long common balancers close an idle connection to a server."""

PROBE_S = 1.0
"""So long an orchestrator waits for an answer, unless it is told otherwise."""


def settings() -> dict[str, Any]:
    """One model for each transport, with a pool of `POOL`, and one without a bound."""
    models: dict[str, Any] = {
        name: {"deployments": [{"provider": name, "model": f"up-{name}", "max_concurrency": POOL - 8}]} for name in TRANSPORTS
    }
    models["wide"] = {"deployments": [{"provider": "http1", "model": "up-wide"}]}
    api = {"keep_alive": f"{KEEP_ALIVE_S * 1000:.0f}ms"}
    found = config(dict.fromkeys(TRANSPORTS, "{upstream}"), models, api=api, breaker=FORGIVING)
    found["providers"]["httpx"]["transport"] = "httpx"
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with scene(Models(), settings(), valkey_server, tmp_path_factory.mktemp("dep")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def dep(shared: Scene) -> AsyncIterator[Scene]:
    yield shared
    await shared.rest()


@pytest.mark.asyncio(loop_scope="module")
async def test_dep_04_an_idle_connection_outlives_a_balancers_patience(dep: Scene) -> None:
    assert Api().keep_alive_s > BALANCERS_S
    good = post(msgspec.json.encode(chat(model="http1")), AUTH, TYPE)
    async with Wire(dep.run.url) as wire:
        for _ in range(5):
            await asyncio.sleep(KEEP_ALIVE_S / 5)
            await wire.send(good)
            answer = await wire.answer()
            assert (answer.status, answer.headers.get("connection")) == (200, None)
        began_s = time.monotonic()
        assert await wire.ended()
        assert time.monotonic() - began_s > KEEP_ALIVE_S / 2


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", TRANSPORTS)
async def test_dep_06_requests_that_are_cancelled_while_they_connect_leave_the_pool_whole(name: str, dep: Scene) -> None:
    async def once(call: Call) -> None:
        call.head(200, SSE)  # without a length: each request needs a connection of its own
        call.piece(event({"content": "Hello"}) + event({}, "stop") + DONE)
        await asyncio.sleep(0)
        call.close()

    dep.models.acts[name] = once
    chance, ends_s, patience_s = Random(6), time.monotonic() + 0.5, 0.05

    async def leave_again_and_again() -> None:
        nonlocal patience_s
        while time.monotonic() < ends_s or not dep.models.asked:
            async with Wire(dep.run.url) as wire:
                await wire.send(post(msgspec.json.encode(chat(model=name, stream=True)), AUTH, TYPE))
                await asyncio.sleep(chance.uniform(0.0, patience_s))
            # Some have to come as far as the provider, however slow the machine is.
            patience_s = patience_s if dep.models.asked else min(patience_s * 1.05, 0.2)

    await asyncio.gather(*(leave_again_and_again() for _ in range(POOL)))
    await dep.run.settled()
    dep.models.acts[name] = answers()
    plain = [await dep.ask(model=name) for _ in range(POOL)]
    assert [answer.status_code for answer in plain] == [200] * POOL
    transports = dep.run.gateway._corridor.snapshot.transports
    occupied = {deployment: transport.occupancy() for deployment, transport in transports.items()}
    assert {(each.busy, each.waiting) for each in occupied.values()} == {(0, 0)}
    assert await dep.run.leases() == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_dep_06_a_hundred_and_fifty_streams_are_no_end_of_a_pool(dep: Scene) -> None:
    held = asyncio.Semaphore(0)

    async def hold(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "Hello"}))
        held.release()
        await dep.models.released()
        call.piece(event({}, "stop") + DONE)
        call.end()

    dep.models.acts["wide"] = hold
    wires = [Wire(dep.run.url) for _ in range(150)]
    for wire in wires:
        await wire.__aenter__()
        await wire.send(post(msgspec.json.encode(chat(model="wide", stream=True)), AUTH, TYPE))
    for _ in wires:
        await held.acquire()
    del dep.models.acts["wide"]
    assert (await dep.ask(model="wide")).status_code == 200
    dep.models.release()
    for wire in wires:
        assert (await wire.answer()).body.endswith(b"data: [DONE]\n\n")
        await wire.__aexit__(None, None, None)


async def probe(gateway: Leaving, path: str) -> tuple[int, Any]:
    """Return what a probe hears, which it waits for no longer than probes do."""
    async with asyncio.timeout(PROBE_S):
        answer = await gateway.client.get(f"{gateway.ops}{path}")
    return answer.status_code, answer.json()


async def is_degraded(gateway: Leaving) -> bool:
    """Return whether it is ready all the same, and says what it does without."""
    status, found = await probe(gateway, "/readyz")
    assert (status, found["status"]) == (200, "ready"), "it serves by its own share"
    return bool(found["workers"] == [{"worker": 0, "state": "degraded", "redis": "unavailable", "generation": 1}])


async def is_whole(gateway: Leaving) -> bool:
    return bool(
        (await probe(gateway, "/readyz"))[1]["workers"] == [{"worker": 0, "state": "ready", "redis": "ok", "generation": 1}]
    )


STREAMS = 10


async def test_dep_07_08_a_store_that_is_lost_ends_nothing_and_a_worker_that_hangs_is_found_out(tmp_path: Path) -> None:
    holding = Holding()
    with Valkey() as valkey:
        async with HttpServer(holding) as upstream, Leaving(upstream, valkey, tmp_path) as gateway:
            await until(gateway.is_ready)
            streams = [asyncio.create_task(gateway.ask(stream=True)) for _ in range(STREAMS)]
            await holding.holds(STREAMS)
            [worker] = gateway.workers()
            valkey.stop()
            await until(lambda: is_degraded(gateway))
            for _ in range(5):
                assert await probe(gateway, "/livez") == (200, {"status": "ok"})
                assert await is_degraded(gateway)
            os.kill(worker, signal.SIGSTOP)
            try:
                assert await probe(gateway, "/livez") == (200, {"status": "ok"})
                status, found = await probe(gateway, "/readyz")
                assert (status, found["status"], found["workers"][0]["state"]) == (503, "not_ready", "unreachable")
            finally:
                os.kill(worker, signal.SIGCONT)
            await until(lambda: is_degraded(gateway))
            holding.go_on.set()
            assert {answer.text.endswith("data: [DONE]\n\n") for answer in await asyncio.gather(*streams)} == {True}
            valkey.start()
            await until(lambda: is_whole(gateway))
            assert gateway.workers() == [worker]
            assert len(upstream.requests) == STREAMS
            gateway.signal()
            assert await gateway.exit_code() == 0
            assert Counter(row["outcome"] for row in await gateway.rows()) == {"ok": STREAMS}


PASSWORD = "a-password-that-nobody-told"


async def test_dep_08_a_gateway_is_not_ready_before_it_could_serve(tmp_path: Path) -> None:
    with Valkey() as valkey, Redis(unix_socket_path=valkey.socket, password=PASSWORD) as redis:
        with Redis(unix_socket_path=valkey.socket) as open_one:
            open_one.config_set("requirepass", PASSWORD)
        closed = {"redis": {"url": valkey.url, "on_failure": {"rates": "closed"}}}
        async with HttpServer(Holding()) as upstream, Leaving(upstream, valkey, tmp_path, **closed) as gateway:
            for _ in range(5):
                status, found = await probe(gateway, "/readyz")
                assert (status, found["status"]) == (503, "not_ready")
                assert found["workers"][0]["redis"] == "unavailable"
                assert (await probe(gateway, "/livez"))[0] == 200
            refused = await gateway.ask(user="quick")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "limiter_unavailable")
            redis.config_set("requirepass", "")
            await until(gateway.is_ready)
            assert upstream.requests == [], "a probe costs nothing"
            assert (await gateway.ask(user="quick")).status_code == 200
            redis.execute_command("REPLICAOF", "127.0.0.1", "1")  # it answers PING, and takes no writes
            await until(lambda: fails(gateway))


async def fails(gateway: Leaving) -> bool:
    """Return whether it says that its store is no good, though it can be reached: a reason to look, none to restart."""
    status, found = await probe(gateway, "/readyz")
    return (status, found["workers"][0]["state"], found["workers"][0]["redis"]) == (200, "degraded", "failing")
