"""An operations port over two workers that answer on real sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from socket import socket
from typing import Any

import httpx
import msgspec
import pytest

from gateway.config import Config
from gateway.config.parse import parse
from gateway.config.references import Sources
from gateway.processes.operations import operations
from gateway.processes.server import Server
from gateway.stores.database import Reader, Writer
from gateway.stores.events import decode
from gateway.stores.reports import Reports
from gateway.telemetry.reloads import Standing
from gateway.web.control import build_control
from tests.integration.stores.ledger_world import fields
from tests.valkey import Valkey

NORTH, SOUTH = "m/north/big", "m/south/big"
ROOM: Mapping[str, Mapping[str, int]] = {"north": {"max_concurrency": 8}, "south": {}}


STANDING = Standing(generation=3, hash="abc", path="gateway.yaml", since_unix_ms=1_000, findings=(), read_unix_ms=2_000)


class Worker:
    """One worker as the supervisor sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ready = True
        self.degraded = False
        self.started = 1
        self.requests = 0
        self.taken: list[bytes] = []
        self._server: Server | None = None

    async def start(self) -> None:
        self._server = Server(build_control(self.status, self.metrics, self.take), unix_path=self.path)
        await self._server.open()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None
        self.path.unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        redis = "unavailable" if self.degraded else "ok"
        return {"worker": "w", "ready": self.ready, "degraded": self.degraded, "redis": redis, "inflight": 0, "generation": 3}

    async def take(self, edition: bytes) -> None:
        self.taken.append(edition)

    async def metrics(self) -> bytes:
        head = "# HELP tiergate_start_time_seconds Start.\n# TYPE tiergate_start_time_seconds gauge\n"
        counter = "# HELP tiergate_requests Requests.\n# TYPE tiergate_requests counter\n"
        counter += f"tiergate_requests_total {self.requests}\n"
        return f"{head}tiergate_start_time_seconds {self.started}\n{counter}# EOF\n".encode()


class View:
    """The supervisor as the operations port sees it."""

    def __init__(self, workers: list[Worker]) -> None:
        self.draining = False
        self.workers = workers
        self.standing = STANDING
        self.redis_url = ""
        self.config: Config

    def control_sockets(self) -> list[str]:
        return [str(worker.path) for worker in self.workers]


@pytest.fixture
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A gateway whose workers are down."""
    run_dir = tmp_path_factory.mktemp("run")
    return View([Worker(run_dir / f"w{number}.sock") for number in range(2)])


@pytest.fixture
async def live(view: View) -> AsyncIterator[View]:
    """The same with its workers up."""
    for worker in view.workers:
        await worker.start()
    yield view
    for worker in view.workers:
        await worker.stop()


@pytest.fixture
async def reports(tmp_path: Path) -> AsyncIterator[Reports]:
    url = f"sqlite:///{tmp_path}/tiergate.db"
    writer, reader = Writer(url), Reader(url)
    await writer.migrate()
    await writer.write([decode({name.encode(): part for name, part in fields("close", n).items()}) for n in range(3)])
    yield Reports(reader)
    await reader.close()
    await writer.close()


Serve = Callable[..., Awaitable[httpx.AsyncClient]]
"""Serves the port with this `ops.admin_token` and these other settings of `ops`; its answer is a client of it."""


@pytest.fixture
async def serve(view: View, reports: Reports, valkey: Valkey, tmp_path: Path) -> AsyncIterator[Serve]:
    view.redis_url = valkey.url
    async with AsyncExitStack() as stack:

        async def start(token: str, database: str = "", **ops: Any) -> httpx.AsyncClient:
            listener = socket()
            listener.bind(("127.0.0.1", 0))
            config = config_of(tmp_path, {"admin_token": token, **ops}, database)
            view.config = config
            server = Server(await stack.enter_async_context(operations(view, config)))
            await server.open(listener)
            stack.push_async_callback(server.close)
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", trust_env=False, verify=False)
            return await stack.enter_async_context(client)

        yield start


def config_of(directory: Path, ops: Mapping[str, Any], database: str = "") -> Config:
    """Return a configuration of two deployments; whether its secrets are good ones is nobody's question here."""
    providers = {name: {"base_url": "http://127.0.0.1:9", "allow_http": True} for name in ROOM}
    deployments = [{"provider": name, "model": "big", **room} for name, room in ROOM.items()]
    document = {
        "providers": providers,
        "models": {"m": {"deployments": deployments}},
        "database": {"url": database or f"sqlite:///{directory}/tiergate.db"},
        "state_dir": str(directory),
        "ops": ops,
    }
    return parse(msgspec.json.encode(document), Sources({}, lambda name: Path(name).read_bytes())).config
