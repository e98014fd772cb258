"""A gateway for the cases about what is counted: what each request was noted as, and what was posted to its key's buckets."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gateway.admission.codec import PLACES
from gateway.policy.charges import Dimension
from gateway.telemetry.access import AccessLog, as_json
from gateway.wire.request import Endpoint, parse
from tests.fakes.openai import Models
from tests.integration.admission.state import PREFIX
from tests.integration.fallback.chain import FORGIVING
from tests.integration.scene import Scene, scene
from tests.running import Running, config
from tests.valkey import Valkey

COUNTERS = 2
"""What a scope's packed figures begin with, before those of its buckets."""

FIRST_PLACE = 9
"""Where the figures of buckets begin, counted as `PLACES` does."""

MINUTE_MS = 60_000
PATIENT = {"timeout": "2s"}
"""A store that is only slow is not away: on a busy machine it may be."""

SLOW = {"tpm": 1_000, "burst_ratio": 100}
"""A bucket for any case that hardly leaks while it lasts."""

PRICE = {"input": 10_000, "cached_input": 1_000, "output": 20_000}
"""USD per million tokens: the figures of the cases, which are per thousand."""

INPUT_NANO_USD, CACHED_NANO_USD, OUTPUT_NANO_USD = (1_000 * usd for usd in PRICE.values())
"""The same for one token."""


class Notes:
    """The access lines of a running gateway since it was last forgotten what there was."""

    def __init__(self, run: Running) -> None:
        self._written: list[bytes] = []
        self._run = run
        soon = asyncio.get_running_loop().call_soon
        run.gateway._observer._access = AccessLog(self._written.append, soon, as_json)

    async def lines(self) -> list[dict[str, Any]]:
        """Return the lines of all requests so far, once these have ended and are settled."""
        await self._run.settled()
        await asyncio.sleep(0)
        return [msgspec.json.decode(line) for line in b"".join(self._written).splitlines()]

    async def line(self) -> dict[str, Any]:
        """Return the one line of the one request."""
        [line] = await self.lines()
        return line

    def forget(self) -> None:
        self._written.clear()


class Metered(Scene):
    """A scene that keeps books."""

    def __init__(self, found: Scene) -> None:
        super().__init__(found.run, found.server, found.models)
        self.notes = Notes(found.run)

    async def rest(self) -> None:
        await super().rest()
        self.notes.forget()
        self.server.requests.clear()

    async def line(self) -> dict[str, Any]:
        return await self.notes.line()

    async def posted(self, key: str, dimension: Dimension = Dimension.TPM) -> int:
        """Return the units in a key's bucket; of a key that nobody had used before, those are all that were ever posted."""
        await self.run.settled()
        return await posted(self.run, f"k:{key}", dimension)


async def posted(run: Running, scope: str, dimension: Dimension) -> int:
    """Return the units in a bucket of one minute, as the last script left it."""
    debt, _ = await figures(run, scope, dimension)
    return -(-debt // MINUTE_MS)


async def figures(run: Running, scope: str, dimension: Dimension) -> tuple[int, int]:
    """Return what a bucket's debt weighs, and how many units are held in it."""
    packed: Any = await run.gateway._redis.get(PREFIX + scope)
    if packed is None:
        return 0, 0
    numbers = struct.unpack(f"<{len(packed) // 8}d", packed)[COUNTERS:]
    debt, _, held = numbers[PLACES[dimension] - FIRST_PLACE :][:3]
    return int(debt), int(held)


def prompt_tokens(name: str) -> int:
    """Return what the usual prompt is taken for by who has learned nothing of this model yet."""
    body = {"messages": [{"role": "user", "content": "hi"}], "model": name}
    return parse(Endpoint.CHAT, msgspec.json.encode(body)).prompt_tokens


def secret(name: str) -> str:
    return f"sk-test-secret-of-{name}"


def key(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "org": "acme", "secret": secret(name), **fields}


def model(name: str, *providers: str, **fields: Any) -> dict[str, Any]:
    """One model at these providers, asked in this order."""
    deployments = [
        {"provider": provider, "model": f"up-{name}", "order": place} for place, provider in enumerate(providers or ("p",), 1)
    ]
    return {"deployments": deployments, "price": PRICE, **fields}


def settings(*keys: Mapping[str, Any], models: Mapping[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    """Return a configuration of one model `m` and more, with these keys beside the usual one."""
    sections = {"breaker": FORGIVING, "redis": PATIENT, **sections}
    found = config({"p": "{upstream}", "q": "{upstream}"}, {"m": model("m"), **(models or {})}, **sections)
    return {**found, "keys": [*found["keys"], *keys]}


@asynccontextmanager
async def metered(settings: Mapping[str, Any], valkey: Valkey, directory: Path) -> AsyncIterator[Metered]:
    async with scene(Models(), settings, valkey, directory) as found:
        yield Metered(found)
