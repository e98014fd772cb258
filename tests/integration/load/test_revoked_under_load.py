"""Four gateways on one store and one database, one of them deaf to messages: a revocation reaches all of them under load.

The bound is two seconds from the command's return; what waits in the queue is bound by it too.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.openai import answers
from tests.integration.minting import ACTOR, Fleet, fleet
from tests.integration.scene import HOLDER
from tests.valkey import Valkey

REPLICAS = 4
DEAF = 3
BOUND_S = 2.0
CLIENTS = 12


class Load:
    """Clients that use keys on all gateways all the time; `seen` is when each request began, its key, and what came of it."""

    def __init__(self, gates: Fleet, *secrets: str) -> None:
        self._gates = gates
        self._over = asyncio.Event()
        self.seen: list[tuple[float, str, int]] = []
        self._clients = [asyncio.create_task(self._use(n % REPLICAS, secrets[n % len(secrets)])) for n in range(CLIENTS)]

    async def _use(self, at: int, secret: str) -> None:
        while not self._over.is_set():
            began_s = time.monotonic()
            answer = await self._gates.ask(at, secret)
            self.seen.append((began_s, secret, answer.status_code))

    async def until(self, moment_s: float) -> None:
        while time.monotonic() < moment_s:
            await asyncio.sleep(0.02)

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._clients)


async def test_no_200_begins_two_seconds_after_the_command_returned(url: str, valkey: Valkey, tmp_path: Path) -> None:
    async with fleet(REPLICAS, valkey, url, tmp_path) as gates:
        leaked, leaked_id = await gates.mint("leaked")
        steady, _ = await gates.mint("steady")
        gates.deafen(DEAF)
        gates.models.acts["narrow"] = silent_until_told = Gate()
        holding = asyncio.create_task(gates.ask(0, HOLDER["secret"], model="narrow"))
        await silent_until_told.entered.wait()
        # One of the revoked key's and one of the other's wait at each gateway for the one slot.
        waiting = {
            secret: [asyncio.create_task(gates.ask(at, secret, model="narrow")) for at in gates.everywhere]
            for secret in (leaked, steady)
        }
        for run in gates.runs:
            await run.waiting(2)
        load = Load(gates, leaked, steady, steady)
        await load.until(time.monotonic() + 0.5)
        await gates.registry.keys.revoke(ACTOR, leaked_id)
        returned_s = time.monotonic()
        await load.until(returned_s + BOUND_S + 0.5)
        silent_until_told.open()
        assert (await holding).status_code == 200
        queued = {secret: [answer.status_code for answer in await asyncio.gather(*asked)] for secret, asked in waiting.items()}
        await load.end()
        assert queued == {leaked: [401] * REPLICAS, steady: [200] * REPLICAS}
        before = Counter(status for began_s, secret, status in load.seen if secret == leaked and began_s < returned_s)
        late = Counter(status for began_s, secret, status in load.seen if secret == leaked and began_s > returned_s + BOUND_S)
        others = Counter(status for _, secret, status in load.seen if secret == steady)
        assert before[200] > 0
        assert set(late) == {401}
        assert set(others) == {200}, "nobody else is touched by it"
        await gates.settled()
        assert await gates.runs[0].leases() == 0, "what was held is given back"
        assert gates.models.asked.count("narrow") == 1 + REPLICAS
        rows = [row for row in await gates.runs[0].rows() if row["key"] == "leaked" and row["model_requested"] == "narrow"]
        assert [(row["outcome"], row["output_tokens"], row["cost_micro_usd"]) for row in rows] == [
            ("client_error", 0, 0)
        ] * REPLICAS


class Gate:
    """A provider whose first answer waits until the gate is opened; then all come at once."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def __call__(self, call: object) -> None:
        self.entered.set()
        await self._opened.wait()
        await answers()(call)  # type: ignore[arg-type]  # as any script


@pytest.mark.parametrize("deaf", [False, True], ids=["hears", "deaf"])
async def test_a_gateway_without_requests_learns_of_a_change_by_itself(deaf: bool, valkey: Valkey, tmp_path: Path) -> None:
    """Lists of models take nothing from the store: only messages and the ticks tell of changes."""
    async with fleet(1, valkey, f"sqlite:///{tmp_path / 'tiergate.db'}", tmp_path) as gates:
        secret, key_id = await gates.mint("reads")
        run = gates.runs[0]
        if deaf:
            gates.deafen(0)

        async def listed() -> int:
            answer = await run.client.get("/v1/models", headers={"authorization": f"Bearer {secret}"})
            return answer.status_code

        assert await listed() == 200
        await gates.registry.keys.revoke(ACTOR, key_id)
        returned_s = time.monotonic()
        statuses = []
        while time.monotonic() < returned_s + 2 * BOUND_S:
            began_s = time.monotonic()
            statuses.append((began_s > returned_s + BOUND_S, await listed()))
            await asyncio.sleep(0.05)
        assert {status for late, status in statuses if late} == {401}
