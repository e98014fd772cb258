"""A whole gateway in the test's own process: real Valkey, real SQLite, real sockets on loopback; only the process is shared."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
import msgspec
import structlog

from gateway.app import Gateway, Place
from gateway.config import load
from gateway.processes.listening import listen
from gateway.processes.server import Server, Times
from gateway.stores.database import Reader
from gateway.stores.engine import Database
from gateway.stores.reports import Question, Reports
from gateway.stores.versions import upgrade

SECRET = "sk-test-secret-of-the-only-key"
PEPPER = b"test-pepper"
HEADERS = {"authorization": f"Bearer {SECRET}"}


class Store(Protocol):
    """Where a gateway keeps its limits: the tests' Valkey, a cluster, or something on the way to either."""

    @property
    def url(self) -> str: ...


class Running:
    """A gateway that serves; `client` talks to it as the file's key would."""

    def __init__(self, gateway: Gateway, url: str, database: str) -> None:
        self.gateway = gateway
        self.url = url
        self.database = database
        # What a client would need for TLS takes forty milliseconds to read, and no test of a gateway on loopback has any.
        self.client = httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=10, trust_env=False, verify=False)

    async def chat(self, **fields: Any) -> httpx.Response:
        """Ask for a chat completion of the model `m`, with these fields."""
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
        return await self.client.post("/v1/chat/completions", json={k: v for k, v in body.items() if v is not ...})

    async def settled(self) -> None:
        """Wait until every request has ended and is settled."""
        await self.gateway._sweep.empty.wait()
        corridor = self.gateway._corridor
        while len(corridor.tasks) + len(corridor.remainders):
            await asyncio.sleep(0.001)

    async def waiting(self, count: int) -> None:
        """Wait until so many requests wait for a model."""
        async with asyncio.timeout(5.0):
            while len(self.gateway._turns) != count:
                await asyncio.sleep(0.002)

    async def rows(self) -> list[Any]:
        """Return the ledger's rows, newest first, once all is written."""
        await self.settled()
        async with asyncio.timeout(30.0):
            while await self.gateway._redis.xlen(self.gateway._ledger._stream.key):
                await asyncio.sleep(0.02)
        reader = Reader(self.database)
        try:
            return await Reports(reader).rows(Question())
        finally:
            await reader.close()

    async def leases(self) -> int:
        """Return how many leases the store holds."""
        return int(await self.gateway._redis.zcard("tg:v1:{c0}:leases"))


def config(upstreams: Mapping[str, str], models: Mapping[str, Any], **sections: Any) -> dict[str, Any]:
    """Return a configuration: providers by name and base URL, models, one key `test` with every tier."""
    providers = {
        name: {
            "dialect": "openai",
            "base_url": f"{url}/v1",
            "api_key": f"sk-up-{name}",
            "allow_http": True,
            "endpoints": ["chat", "completions"],
        }
        for name, url in upstreams.items()
    }
    return {
        "providers": providers,
        "models": dict(models),
        "plans": {"all": {"tiers": ["priority", "default", "flex"], "models": ["*"], **sections.pop("plan", {})}},
        "orgs": {"acme": {"plan": "all", **sections.pop("org", {})}},
        "keys": [{"name": "test", "org": "acme", "secret": SECRET, **sections.pop("key", {})}],
        "telemetry": {"level": "error"},
        "shutdown": {"delay": "0s", "drain": "5s"},
        **sections,
    }


MADE: list[bytes] = []
"""A database with the tables of this release, once there is one: each test has its own, and to make one takes its time."""


def with_tables(path: Path) -> str:
    """Make a database, unless it is there. Return its URL."""
    url = f"sqlite:///{path}"
    if not path.exists():
        if not MADE:
            asyncio.run(upgrade(Database(url)))
            MADE.append(path.read_bytes())
        path.write_bytes(MADE[0])
    return url


@asynccontextmanager
async def running(settings: Mapping[str, Any], valkey: Store, directory: Path, worker: str = "w0") -> AsyncIterator[Running]:
    """Run a gateway of this configuration until the block ends."""
    database = settings.get("database", {}).get("url") or await asyncio.to_thread(with_tables, directory / "ledger.db")
    path = directory / "gateway.yaml"
    path.write_bytes(msgspec.json.encode({**settings, "state_dir": str(directory), "database": {"url": database}}))
    loaded = load(path, {})
    place = Place(worker=worker, redis_url=valkey.url, state_dir=directory, pepper=PEPPER)
    (directory / "pepper").write_bytes(PEPPER)  # for whoever opens the same configuration beside it
    with logging_as_it_was():
        gateway = Gateway(loaded.config, place)
        listener = listen("api", "127.0.0.1", 0)
        times = Times(keep_alive_s=loaded.config.api.keep_alive_s, receipt_s=loaded.config.api.receipt_s, drain_s=5.0)
        server = Server(gateway.api, times)
        run = Running(gateway, f"http://127.0.0.1:{listener.getsockname()[1]}", database)
        try:
            await gateway.start()
            await server.open(listener)
            yield run
        finally:
            await run.client.aclose()
            server.leave()
            await gateway.drain(5.0)
            await server.close()
            await gateway.stop()


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Undo at the end of the block what a gateway sets up for its process: its log writes to what a test may have captured."""
    root = logging.getLogger()
    handlers, level, events = root.handlers, root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        structlog.configure(**events)
