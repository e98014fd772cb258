"""The admin API of `tiergate serve` with two workers: what it changes holds for both, and it shows what was started."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec

from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.fakes.wire import Wire, post
from tests.integration.load.served import HERE, Served, settings
from tests.integration.processes.conditions import until

TOKEN = "secret-token-of-the-admin"
WITHIN_S = 2.0
"""Every worker goes by a change of a key by then (decision 29)."""

BODY = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    async with HttpServer(Models()) as server:
        models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1, "output": 1}}}
        whole = settings({"p": server.base_url}, models, directory)
        whole |= {"workers": 2, "ops": {**HERE, "admin_token": TOKEN}}
        async with Served("gateway", whole, directory) as served:
            [started] = [line for line in served.lines() if line["event"] == "started"]
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(
                base_url=f"http://{started['ops']}", headers=headers, trust_env=False, verify=False
            ) as admin:

                async def both_are_up() -> bool:
                    return [each["state"] for each in (await admin.get("/readyz")).json()["workers"]] == ["ready", "ready"]

                await until(both_are_up, within_s=30.0)
                yield served, admin
            await served.stop()


async def statuses(served: Served, secret: str) -> set[int]:
    """Return what a key is answered on connections of their own, which the kernel shares out between the workers."""
    found = set()
    for _ in range(12):
        async with Wire(served.url) as wire:
            await wire.send(post(BODY, ("authorization", f"Bearer {secret}"), ("content-type", "application/json")))
            found.add((await wire.answer()).status)
    return found


async def comes_to_answer(served: Served, secret: str, status: int) -> None:
    """Wait until this is all that a key is answered."""

    async def is_answered() -> bool:
        return await statuses(served, secret) == {status}

    await until(is_answered, within_s=WITHIN_S)


async def test_a_key_of_the_admin_api_is_good_and_gone_at_both_workers(tmp_path: Path) -> None:
    async with serving(tmp_path) as (served, admin):
        made = (await admin.post("/admin/keys", json={"name": "ci", "org": "acme"})).json()
        assert await statuses(served, made["key"]) == {200}
        limits = {"definition": {"limits": {"rpd": 1}}}
        assert (await admin.patch(f"/admin/keys/{made['id']}", json=limits)).json()["told"]
        await comes_to_answer(served, made["key"], 429)
        assert (await admin.post(f"/admin/keys/{made['id']}/revoke", json={})).json()["told"]
        await comes_to_answer(served, made["key"], 401)
        told = (await admin.get("/admin/config")).json()
        path = tmp_path / "gateway.yaml"
        assert (told["path"], told["generation"], len(told["hash"])) == (str(path), 1, 16)
        assert 0 < told["read_unix_ms"] <= time.time() * 1000
        assert (told["document"]["workers"], told["document"]["ops"]["admin_token"]) == (2, "***")
        counted = [line for line in (await admin.get("/metrics")).text.splitlines() if line.startswith("tiergate_requests_total")]
        assert {worker for worker in ("0", "1") for line in counted if f'worker="{worker}"' in line} == {"0", "1"}
        logged = (tmp_path / "gateway.log").read_text()
    assert made["key"][-49:] not in logged
    assert TOKEN not in logged
