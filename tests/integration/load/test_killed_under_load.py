"""Workers and a whole gateway killed under load: what was answered is billed once, all else has one honest end, nothing stays."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from gateway.admission.client import cell_prefix
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.demo.provider import Provider
from gateway.demo.serving import serving
from gateway.policy.record import Outcome
from tests.integration.load.served import Served, rows_of, settings
from tests.integration.processes.conditions import LONGEST_START_S, until, until_gone
from tests.running import HEADERS

WORKERS = 2
CALLERS = 16
BETWEEN_KILLS = 30
"""How many answers are to be complete before the next kill."""

GONE_S = 5.0
"""Nothing of a killed gateway lives longer than this."""

PAUSE_S = 0.05
"""How long a caller waits that found nobody there."""


class Callers:
    """Clients that ask again and again, and remember what they got by the id that they gave each request."""

    def __init__(self, gateway: Served) -> None:
        self.completed: set[str] = set()
        self.admitted: set[str] = set()
        """Those whose answer has begun, whole or not."""
        self._gateway = gateway
        self._asked = 0
        self._leaving = False

    async def more(self) -> None:
        """Wait until some more answers are complete."""
        goal = len(self.completed) + BETWEEN_KILLS

        async def reached() -> bool:
            return len(self.completed) >= goal

        await until(reached, within_s=LONGEST_START_S)

    async def call(self, client: httpx.AsyncClient) -> None:
        while not self._leaving:
            self._asked += 1
            try:
                await self._ask(client, f"call-{self._asked}", stream=bool(self._asked % 2))
            except httpx.TransportError:
                await asyncio.sleep(PAUSE_S)

    async def _ask(self, client: httpx.AsyncClient, own_id: str, *, stream: bool) -> None:
        body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
        url = f"{self._gateway.url}/v1/chat/completions"
        async with client.stream("POST", url, json=body, headers={"x-request-id": own_id}) as response:
            if response.status_code != 200:
                await asyncio.sleep(PAUSE_S)
                return
            self.admitted.add(own_id)
            text = (await response.aread()).decode()
            if not stream or text.endswith("data: [DONE]\n\n"):
                self.completed.add(own_id)

    def leave(self) -> None:
        """Ask no more; what is under way is waited for."""
        self._leaving = True


@asynccontextmanager
async def calling(gateway: Served) -> AsyncIterator[Callers]:
    callers = Callers(gateway)
    async with (
        httpx.AsyncClient(headers=HEADERS, timeout=20, trust_env=False, verify=False) as client,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(CALLERS):
            group.create_task(callers.call(client))
        yield callers
        callers.leave()


async def kill_a_worker(gateway: Served) -> None:
    """Kill one, and wait until another has taken its place."""
    victim = gateway.workers()[0]
    os.kill(victim, signal.SIGKILL)
    await until_gone([victim])

    async def replaced() -> bool:
        return len(gateway.workers()) == WORKERS

    await until(replaced, within_s=LONGEST_START_S)


async def all_settled(state_dir: Path) -> None:
    """Wait until no lease is left and the ledger has everything, what the dead have written down for others to tell included."""
    prefix = cell_prefix("tg", "c0")
    redis = open_client(locator(f"unix://{(state_dir / 'valkey.lock').read_text()}"), timeout_s=5.0)

    async def done() -> bool:
        spooled = any(path.stat().st_size for path in (state_dir / "spool").glob("*.ndjson"))
        return not spooled and not await redis.zcard(f"{prefix}leases") and not await redis.xlen(f"{prefix}ledger")

    await until(done, within_s=30.0)
    await redis.aclose()


async def test_a_gateway_that_is_killed_again_and_again(tmp_path: Path) -> None:
    model = {
        "deployments": [{"provider": "p", "model": "demo-fast?first_ms=50&word_ms=10"}],
        "price": {"input": 1.0, "output": 1.0},
    }
    async with serving(Provider("p")) as url:
        configured = settings(
            {"p": url.removesuffix("/v1")}, {"m": model}, tmp_path, workers=WORKERS, leases={"ttl": "2s", "heartbeat": "500ms"}
        )
        async with Served("gateway", configured, tmp_path) as gateway:
            async with calling(gateway) as callers:
                for _ in range(2):
                    await callers.more()
                    await kill_a_worker(gateway)
                await callers.more()
                members = gateway.members()
                gateway.kill()
                await until_gone(members, within_s=GONE_S)
                await gateway.start()
                await callers.more()
            await all_settled(tmp_path / "state")
            assert await gateway.stop() == 0
    rows = await rows_of(tmp_path, live=True)
    assert rows == await rows_of(tmp_path, live=False), "every request has ended, or was given up"
    ends = {row["client_request_id"]: row["outcome"] for row in rows}
    assert len(ends) == len(rows), "one row each"
    assert Outcome.ABANDONED in ends.values(), "the kills have hit requests under way"
    lines = gateway.requests()
    assert callers.admitted | {line["client_request_id"] for line in lines if line["opened"]} <= ends.keys()
    settled = {line["client_request_id"] for line in lines if line["settled_ms"] is not None}
    assert {ends[own_id] for own_id in callers.completed & settled} == {Outcome.OK}
    # Between an answer's last byte and its settlement its worker may be killed, or the store that dies with the supervisor.
    assert {ends[own_id] for own_id in callers.completed - settled} <= {Outcome.OK, Outcome.ABANDONED}
