"""A gateway of several workers whose configuration is changed while it serves."""

import asyncio
import copy
import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.fakes.http_server import HttpServer
from tests.field.leaving import Holding, Leaving, chat
from tests.integration.processes.conditions import until
from tests.valkey import Valkey

CHEAP, DEAR = {"input": 1, "output": 1}, {"input": 900, "output": 900}
WITHIN_S = 30.0
"""For all workers of a machine that does much else to be on another configuration."""

OTHER = "sk-test-secret-of-another-key"


class Mounted(Leaving):
    """A gateway whose configuration is mounted as orchestrators do it: links to a directory that is swapped as a whole."""

    def __init__(self, upstream: HttpServer, holding: Holding, valkey: Valkey, directory: Path, workers: int) -> None:
        super().__init__(upstream, valkey, directory, workers=workers)
        self.count = workers
        self.holding = holding
        self.settings: dict[str, Any] = msgspec.json.decode(self._config.read_bytes())
        self.settings["models"]["m"].update(price=CHEAP, timeouts={"idle": "10m"})
        self.client.timeout = httpx.Timeout(120)
        self.mount = directory / "mount"
        self.mount.mkdir()
        self._versions = itertools.count()
        self.put(msgspec.json.encode(self.settings))
        for name in ("gateway.yaml", "secret"):
            (self.mount / name).symlink_to(f"..data/{name}")
        self._config = self.mount / "gateway.yaml"

    def put(self, text: bytes | None, secret: str = OTHER) -> None:
        """Swap what is mounted; None leaves the file out."""
        version = self.mount / f"..v{next(self._versions)}"
        version.mkdir()
        if text is not None:
            (version / "gateway.yaml").write_bytes(text)
        (version / "secret").write_text(secret)
        link = self.mount / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.mount / "..data")

    def copy(self) -> dict[str, Any]:
        """Return the configuration that it was started with, to be changed."""
        return copy.deepcopy(self.settings)

    async def change(self, settings: dict[str, Any], *, by_itself: bool = False) -> int:
        """Swap the file, and wait until all workers go by the new one, by itself or told at once. Return its generation."""
        before = (await self.ready())["config"]["generation"]
        self.put(msgspec.json.encode(settings))
        if not by_itself:
            self.signal(signal.SIGHUP)
        return await self.comes_to(before + 1)

    async def refuses(self, text: bytes | None) -> dict[str, Any]:
        """Swap the file for one that cannot be used, and have it read at once. Return what is logged of it."""
        refused = len(self.logged("config_refused"))
        self.put(text)
        self.signal(signal.SIGHUP)
        await self.logs("config_refused", refused + 1)
        return self.logged("config_refused")[refused]

    async def comes_to(self, generation: int) -> int:
        """Wait until the supervisor and every worker are on this generation."""

        async def all_are() -> bool:
            said = await self.ready()
            own = [worker["generation"] for worker in said["workers"]]
            return said["config"]["generation"] == generation and own == [generation] * self.count

        await until(all_are, within_s=WITHIN_S)
        return generation

    async def ready(self) -> Any:
        return (await self.client.get(f"{self.ops}/readyz")).json()

    async def metric(self, name: str) -> float:
        lines = (await self.client.get(f"{self.ops}/metrics")).text.splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])

    async def by(self, secret: str, **fields: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {secret}"}
        return await self.client.post(f"{self.url}/v1/chat/completions", json=chat(user="quick", **fields), headers=headers)

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]

    async def serves_on_all(self) -> bool:
        return [worker["state"] for worker in (await self.ready())["workers"]] == ["ready"] * self.count

    async def logs(self, event: str, times: int) -> None:
        async def has() -> bool:
            return len(self.logged(event)) >= times

        await until(has, within_s=WITHIN_S)


@asynccontextmanager
async def mounted_gateway(valkey: Valkey, directory: Path, workers: int) -> AsyncIterator[Mounted]:
    """Run one, all of whose workers serve."""
    holding = Holding()
    async with HttpServer(holding) as upstream, Mounted(upstream, holding, valkey, directory, workers) as gateway:
        await until(gateway.serves_on_all, within_s=WITHIN_S)
        yield gateway


async def costs(mounted: Mounted, wanted: set[str]) -> dict[str, int]:
    """Return what requests cost, once the ledger has all of them."""

    async def found() -> dict[str, int]:
        lines = {line["request_id"]: line["cost_nano_usd"] for line in mounted.requests() if line["request_id"] in wanted}
        return lines if lines.keys() == wanted else {}

    return await until(found)


async def holds_on(mounted: Mounted, count: int) -> list["asyncio.Task[httpx.Response]"]:
    """Begin so many streams at the price and in the tier that there are now; they go on once `go_on` is set."""
    held = mounted.holding.held
    streams = [asyncio.create_task(mounted.ask(stream=True, service_tier="priority")) for _ in range(count)]
    await mounted.holding.holds(held + count)
    return streams


async def assert_kept_what_they_began_with(mounted: Mounted, streams: list["asyncio.Task[httpx.Response]"]) -> None:
    """Let streams end that began while all was cheap and priority was there: a request of now is dear and has no priority."""
    after = await mounted.ask(user="quick")
    asked_late = await mounted.ask(user="quick", service_tier="priority")
    assert asked_late.headers.get("x-gateway-service-tier") != "priority"
    mounted.holding.go_on.set()
    ends = await asyncio.gather(*streams)
    mounted.holding.go_on.clear()
    assert all(answer.text.endswith("data: [DONE]\n\n") and '"service_tier":"priority"' in answer.text for answer in ends)
    rows = await costs(mounted, {after.headers["x-request-id"], *(answer.headers["x-request-id"] for answer in ends)})
    dear = rows.pop(after.headers["x-request-id"])
    assert dear > 100 * max(rows.values()) > 0
