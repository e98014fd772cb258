"""Gateways on one store and one database, and the registry by which an operator makes and unmakes their keys."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from gateway.config import load
from gateway.processes.registry import Registry, open_registry
from gateway.stores.minted import Draft
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.integration.scene import HOLDER, bearer
from tests.running import Running, config, running
from tests.valkey import Valkey

ACTOR = "test:operator"
PRICE = {"input": 1, "output": 2}

PATIENT = {"timeout": "2s"}
"""A store that is only slow is not away: on a busy machine it may be."""


class Fleet:
    """`runs` are the gateways, `registry` the operator's; `models` decides what the provider answers."""

    def __init__(self, runs: Sequence[Running], models: Models, registry: Registry) -> None:
        self.runs = runs
        self.models = models
        self.registry = registry

    @property
    def everywhere(self) -> range:
        return range(len(self.runs))

    async def ask(self, at: int, secret: str, **fields: Any) -> httpx.Response:
        """Ask one gateway with this key."""
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
        return await self.runs[at].client.post("/v1/chat/completions", json=body, headers=bearer(secret))

    async def statuses(self, secret: str) -> list[int]:
        """Return what each gateway answers to a key."""
        return [(await self.ask(at, secret)).status_code for at in self.everywhere]

    async def mint(self, name: str, **fields: Any) -> tuple[str, str]:
        """Make a key; return its secret and its id."""
        made = await self.registry.keys.create(ACTOR, Draft(name=name, org="acme", **fields))
        assert made.told
        return made.secret or "", made.key.id

    def deafen(self, at: int) -> None:
        """Cut a gateway off from messages about keys."""
        self.runs[at].gateway._keys._loops[0].cancel()

    async def settled(self) -> None:
        for run in self.runs:
            await run.settled()

    async def comes(self, at: int, secret: str, status: int, within_s: float = 10.0) -> None:
        """Wait until a gateway answers so to a key."""
        async with asyncio.timeout(within_s):
            while (await self.ask(at, secret)).status_code != status:
                await asyncio.sleep(0.02)


def settings(url: str, database: str, **sections: Any) -> dict[str, Any]:
    """Return a configuration of the models `m`, `other`, and `narrow`, which has one slot."""
    models: Mapping[str, Any] = {
        name: {"deployments": [{"provider": "p", "model": f"up-{name}", **more}], "price": PRICE}
        for name, more in (("m", {}), ("other", {}), ("narrow", {"max_concurrency": 1}))
    }
    found = config({"p": url}, models, tiers={"default": {"queue": "20s"}, "priority": {}, "flex": {}}, **sections)
    found["keys"].append(HOLDER)
    found["orgs"]["others"] = {}
    return {**found, "redis": {**found.get("redis", {}), **PATIENT}, "database": {"url": database}}


@asynccontextmanager
async def fleet(count: int, valkey: Valkey, database: str, directory: Path, **sections: Any) -> AsyncIterator[Fleet]:
    """Run so many gateways."""
    models = Models()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(HttpServer(models))
        whole = settings(server.base_url, database, **sections)
        places = [directory / f"w{number}" for number in range(count)]
        for place in places:
            place.mkdir()
        runs = [await stack.enter_async_context(running(whole, valkey, place, place.name)) for place in places]
        found = load(places[0] / "gateway.yaml", {}).config
        yield Fleet(runs, models, await stack.enter_async_context(open_registry(found, valkey.url)))
