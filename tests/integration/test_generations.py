"""One worker that goes from one reading of its configuration to the next: what stays open, what is closed, and when."""

import asyncio
from pathlib import Path
from typing import Any

import trustme
from msgspec.structs import replace

from gateway.config import Config, Edition, load
from gateway.generation import CLEAR_EVERY_S
from gateway.snapshots import Transports
from gateway.upstream.transport import Outgoing
from tests.catalogues import catalogue, deployment, model, provider
from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, Models, event
from tests.field.counting import counted, moved, total
from tests.integration.minting import fleet
from tests.integration.scene import Scene, scene
from tests.running import config
from tests.valkey import Valkey

MODELS: dict[str, Any] = {
    name: {"deployments": [{"provider": "p", "model": f"up-{name}"}]} for name in ("stays", "goes", "changes")
}


def settings() -> dict[str, Any]:
    return config({"p": "{upstream}"}, MODELS)


def read(directory: Path) -> Config:
    return load(directory / "gateway.yaml", {}).config


async def test_connections_stay_with_deployments_that_stay_as_they_were(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as at:
        for name in MODELS:
            assert (await at.ask(model=name)).status_code == 200
        corridor = at.run.gateway._corridor
        before, now = dict(corridor.snapshot.transports), read(tmp_path)
        changes = replace(now.models["changes"], timeouts=replace(now.models["changes"].timeouts, connect_s=9.0))
        await at.run.gateway.take(Edition(2, replace(now, models={"stays": now.models["stays"], "changes": changes})))
        after = corridor.snapshot.transports
        assert corridor.snapshot.generation == 2
        assert after["stays/p/up-stays"] is before["stays/p/up-stays"]
        assert after["stays/p/up-stays"].occupancy().idle == 1
        assert after["changes/p/up-changes"] is not before["changes/p/up-changes"]
        async with asyncio.timeout(10):
            while any(before[name].occupancy().idle for name in ("goes/p/up-goes", "changes/p/up-changes")):
                await asyncio.sleep(0.01)
        assert (await at.ask(model="stays")).status_code == 200
        assert (await at.ask(model="goes")).status_code == 404


async def test_what_a_deployment_has_under_way_ends_before_its_connections_are_closed(valkey: Valkey, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(call: Call) -> None:
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "Hello"}))
        await go_on.wait()
        call.piece(event({}, "stop"))
        call.piece(DONE)
        call.end()

    async with scene(Models(), settings(), valkey, tmp_path) as at:
        at.models.acts["goes"] = slow
        stream = asyncio.create_task(at.ask(model="goes", stream=True))
        await at.server.until(lambda: len(at.server.requests) == 1)
        await take_out(at, tmp_path, "goes", 2)
        await take_out(at, tmp_path, "changes", 3)
        await asyncio.sleep(0.5)
        go_on.set()
        assert (await stream).text.endswith("data: [DONE]\n\n")
        async with asyncio.timeout(10):
            while len(at.run.gateway._generations.transports):
                await asyncio.sleep(0.01)


async def take_out(at: Scene, directory: Path, name: str, number: int) -> None:
    now = read(directory)
    await at.run.gateway.take(Edition(number, replace(now, models={each: m for each, m in now.models.items() if each != name})))


async def test_an_earlier_reading_that_comes_late_is_not_taken(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as at:
        now = read(tmp_path)
        await asyncio.gather(at.run.gateway.take(Edition(3, now)), at.run.gateway.take(Edition(2, replace(now, models={}))))
        assert at.run.gateway.status()["generation"] == 3
        assert (await at.ask(model="stays")).status_code == 200


async def test_a_new_model_and_new_bounds_count_at_once_and_old_counts_stay(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as at:
        assert (await at.ask(model="goes")).status_code == 200
        before, now = await counted(at.run), read(tmp_path)
        models = {"stays": now.models["stays"], "new": now.models["goes"]}
        await at.run.gateway.take(Edition(2, replace(now, models=models, limits=replace(now.limits, body_bytes=200))))
        assert (await at.ask(model="new")).status_code == 200
        assert (await at.ask(model="new", user="x" * 200)).status_code == 413
        after = moved(before, await counted(at.run))
        assert total(after, "tiergate_upstream_attempts_total", model="new") == 1
        assert total(await counted(at.run), "tiergate_upstream_attempts_total", model="goes") == 1


async def test_keys_of_the_database_mean_what_the_new_file_says(valkey: Valkey, tmp_path: Path) -> None:
    async with fleet(1, valkey, f"sqlite:///{tmp_path}/tenants.db", tmp_path) as gates:
        secret, _ = await gates.mint("ci")
        assert await gates.statuses(secret) == [200]
        now = read(tmp_path / "w0")
        narrow = replace(now.plans["all"], models=("other",))
        await gates.runs[0].gateway.take(Edition(2, replace(now, plans={**now.plans, "all": narrow})))
        assert await gates.statuses(secret) == [404]
        assert (await gates.ask(0, secret, model="other")).status_code == 200


def test_connections_are_made_anew_where_what_they_trust_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    trusting = provider(ca_file=str(path))
    trusting = replace(trusting, base_url="https://127.0.0.1:1/v1")
    asked = catalogue(model("m", deployment("m", trusting)))
    transports = Transports()
    trustme.CA().cert_pem.write_to_path(path)
    first = transports.of(asked)
    assert (transports.of(asked), transports.leave()) == (first, ())
    trustme.CA().cert_pem.write_to_path(path)
    second = transports.of(asked)
    assert second["m/p"] is not first["m/p"]
    assert transports.leave() == (first["m/p"],)


async def test_who_has_yet_to_use_a_connection_keeps_it_open(valkey: Valkey, tmp_path: Path) -> None:
    async with scene(Models(), settings(), valkey, tmp_path) as at:
        gateway, now = at.run.gateway, read(tmp_path)
        before = gateway._corridor.snapshot.transports["goes/p/up-goes"]
        watch = gateway._sweep.open()  # a request that has come, and was not sent anywhere yet
        await gateway.take(Edition(2, replace(now, models={"stays": now.models["stays"]})))
        await asyncio.sleep(3 * CLEAR_EVERY_S)
        assert len(gateway._generations.transports) == 2
        reply = await before.open(Outgoing(path="/chat/completions", headers=(), body=b'{"model": "up-goes"}'))
        await reply.read(10_000)
        gateway._sweep.close(watch)
        async with asyncio.timeout(10):
            while len(gateway._generations.transports):
                await asyncio.sleep(0.01)
