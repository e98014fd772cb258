"""A gateway, the scripted provider behind it, and requests that hold its slots while others come."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.running import Running, running
from tests.valkey import Valkey

HOLDER = {"name": "holder", "org": "others", "secret": "sk-test-secret-of-the-holder"}
"""A key whose requests hold slots; what it consumes is nobody else's."""

ASKED: Mapping[str, Mapping[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "embeddings": {"input": "hi"},
    "completions": {"prompt": "hi"},
    "responses": {"input": "hi"},
    "messages": {"max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]},
}
"""What is asked where nothing else is, by a word of the path."""


class Scene:
    """`models` decides what each model answers; `asked` in it tells who was asked, in order."""

    def __init__(self, run: Running, server: HttpServer, models: Models) -> None:
        self.run = run
        self.server = server
        self.models = models

    async def ask(self, *, key: str | None = None, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
        """Ask with these fields, of chat unless `path` says otherwise; `...` leaves a field out."""
        asked = next(found for word, found in ASKED.items() if word in path)
        body = {name: value for name, value in {**asked, **fields}.items() if value is not ...}
        headers = {} if key is None else bearer(key)
        return await self.run.client.post(path, json=body, headers=headers)

    @asynccontextmanager
    async def filled(self, *models: str, key: str = HOLDER["secret"]) -> AsyncIterator[None]:
        """Hold one slot of each of these models for the length of the block, by requests of this key."""
        before = len(self.server.requests)
        body = {"messages": [{"role": "user", "content": "hold"}], "user": "holder"}
        holding = [
            asyncio.create_task(self.run.client.post("/v1/chat/completions", json={**body, "model": model}, headers=bearer(key)))
            for model in models
        ]
        await self.server.until(lambda: len(self.server.requests) == before + len(models))
        try:
            yield
        finally:
            self.models.release()
            for answer in await asyncio.gather(*holding):
                assert answer.status_code == 200
            await self.run.settled()

    async def rest(self) -> None:
        """Wait until all is settled, then forget who was asked and what models do."""
        await self.run.settled()
        self.models.forget()


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@asynccontextmanager
async def scene(models: Models, settings: Mapping[str, Any], valkey: Valkey, directory: Path) -> AsyncIterator[Scene]:
    """Run the gateway of these settings over a provider of these models; `{upstream}` in a base URL is where it listens."""
    async with HttpServer(models) as server:
        providers = {
            name: {**each, "base_url": each["base_url"].replace("{upstream}", server.base_url)}
            for name, each in settings["providers"].items()
        }
        whole = {
            **settings,
            "providers": providers,
            "keys": [*settings["keys"], HOLDER],
            "orgs": {**settings["orgs"], "others": {}},
        }
        async with running(whole, valkey, directory) as run:
            yield Scene(run, server, models)


def sent(at: Scene) -> dict[str, Any]:
    """Return the last body that a provider got."""
    found: dict[str, Any] = msgspec.json.decode(at.server.requests[-1].body)
    return found


def refused(answer: httpx.Response) -> tuple[int, str, str]:
    """Return how a request was refused: the status, the code and the field."""
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]
