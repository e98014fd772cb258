"""A gateway in processes of its own that is told to leave while clients are at it."""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import msgspec

from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, answers, event
from tests.fakes.wire import Wire, post
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import LONGEST_START_S, until
from tests.running import HEADERS
from tests.valkey import Valkey

HELLO, FINISH = event({"content": "Hello"}), event({}, "stop")


class Holding:
    """An upstream that says hello to a stream, and no more until it is let go; a user `quick` is answered at once."""

    def __init__(self) -> None:
        self.held = 0
        self.go_on = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        if body.get("user") == "quick":
            await answers()(call)
            return
        self.held += 1
        if not body.get("stream"):
            await self._wait(call)
            await answers()(call)
            return
        call.head(200, SSE, chunked=True)
        call.piece(HELLO)
        await self._wait(call)
        call.piece(FINISH)
        call.piece(DONE)
        call.end()

    async def holds(self, count: int) -> None:
        """Wait until it holds so many requests."""
        await until(lambda: self._has(count))

    async def _has(self, count: int) -> bool:
        return self.held == count

    async def _wait(self, call: Call) -> None:
        waits = [asyncio.create_task(each.wait()) for each in (self.go_on, call.gone)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()


class Leaving(Served):
    """`async with Leaving(...) as gateway`: one gateway over `upstream`, with these sections of its configuration."""

    def __init__(self, upstream: HttpServer, valkey: Valkey, directory: Path, **sections: Any) -> None:
        shutdown = {"delay": "0s", "drain": "10s", **sections.pop("shutdown", {})}
        slots = sections.pop("slots", None)
        models = {
            "m": {"deployments": [{"provider": "p", "model": "up-m"}]},
            "full": {"deployments": [{"provider": "p", "model": "up-full", **({"max_concurrency": slots} if slots else {})}]},
        }
        whole = settings(
            {"p": upstream.base_url},
            models,
            directory,
            redis=sections.pop("redis", {"url": valkey.url}),
            keys_pepper="a-pepper-that-is-long-enough",
            shutdown=shutdown,
            **sections,
        )
        super().__init__("leaving", whole, directory)
        self._database = f"sqlite:///{directory / 'ledger.db'}"
        self.client = httpx.AsyncClient(
            headers=HEADERS, timeout=30, trust_env=False, verify=False, limits=httpx.Limits(max_connections=None)
        )

    async def _comes_up(self) -> None:
        await until(self.has_come_up, within_s=LONGEST_START_S)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.client.aclose()
        await super().__aexit__(kind, error, trace)

    @property
    def ops(self) -> str:
        started = next(line for line in self.lines() if line["event"] == "started")
        return f"http://{started['ops']}"

    async def readiness(self) -> tuple[int, str]:
        """Return what /readyz says: its status and its word."""
        answer = await self.client.get(f"{self.ops}/readyz")
        return answer.status_code, answer.json()["status"]

    async def has_come_up(self) -> bool:
        """Return whether a worker answers, ready or not."""
        answer = await self.client.get(f"{self.ops}/readyz")
        return all(worker["state"] != "unreachable" for worker in answer.json()["workers"])

    async def is_ready(self) -> bool:
        return await self.readiness() == (200, "ready")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the supervisor."""
        self.process.send_signal(number)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    async def exit_code(self, *, within_s: float = 15.0) -> int:
        """Wait for the end. Return the exit code."""
        return await asyncio.to_thread(self.process.wait, within_s)

    async def rows(self) -> Sequence[Any]:
        """Return the ledger as it was left."""
        reader = Reader(self._database)
        try:
            return await Reports(reader).rows(Question(live=True))
        finally:
            await reader.close()

    async def ask(self, **fields: Any) -> httpx.Response:
        """Ask for a chat completion of `m`."""
        return await self.client.post(f"{self.url}/v1/chat/completions", json=chat(**fields))

    async def refuses_connections(self) -> bool:
        try:
            async with Wire(self.url):
                return False
        except OSError:
            return True

    def connected(self) -> socket.socket:
        """Return a connection that reads nothing by itself."""
        return socket.create_connection(("127.0.0.1", self.port))


def chat(**fields: Any) -> dict[str, Any]:
    """Return a chat body."""
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def asked(**fields: Any) -> bytes:
    """Return the bytes of a request for a chat completion."""
    return post(msgspec.json.encode(chat(**fields)), *HEADERS.items(), ("content-type", "application/json"))
