"""Four gateways on one store admit exactly what the specification admits, request by request, whatever they do to each other."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.demo.provider import Provider
from gateway.demo.serving import serving
from gateway.policy.charges import Dimension
from gateway.policy.record import Outcome
from gateway.tasks import Owned
from tests.integration.admission.state import ask, expected, stored
from tests.integration.load.replay import Replay
from tests.integration.load.served import Served, rows_of, settings
from tests.integration.load.witness import PREFIX, SCRIPTS, Run, Witness, witnessed
from tests.integration.processes.conditions import until
from tests.valkey import Valkey

GATEWAYS = 4
REQUESTS = 400
WITHIN_S = 5.0
MOST_ROUNDS = 4
"""It depends on who comes first whether everything happens in one: each has keys of its own, and the first is mostly enough."""

SEED = 1
READ_MS = 1_000
"""How long reading the store may take: what has leaked by then counts as leaked, whether or not its key is still there."""


MODELS = {
    "quick": (["demo-brief"], {"rpm": 90}),
    "slow": (["demo-fast?first_ms=100&word_ms=20"], {}),
    "long": (["demo-fast?words=40&word_ms=50"], {"concurrency": 12}),
    "busy": (["demo-busy", "demo-fast?first_ms=50"], {"tpm": 60_000}),
    "down": (["demo-500"], {}),
}
"""Each model's deployments, and its limits: what ends at once, what is held open beyond several heartbeats, what is moved on."""


def models() -> dict[str, Any]:
    return {
        name: {
            "deployments": [
                {"provider": "p", "model": upstream, "max_concurrency": 10, "order": order, "limits": {"rpm": 100}}
                for order, upstream in enumerate(upstreams, start=1)
            ],
            "limits": limits,
            "fallbacks": ["quick"] if name == "down" else [],
            "price": {"input": 1.0, "output": 1.0},
        }
        for name, (upstreams, limits) in MODELS.items()
    }


TIERS = {"tiers": ["priority", "default", "flex"], "models": ["*"], "flex": {"rpm": 10, "concurrency": 5}}
PLANS = ("whole", "split")
SECTIONS: dict[str, Any] = {
    "plans": {
        "whole": {
            **TIERS,
            "limits": {"rpm": 110, "rpd": 15, "tpm": 8_000, "concurrency": 12, "per_model": {"slow": {"rpm": 8}}},
            "over_limit": {"rpm": 10, "concurrency": 4},
        },
        "split": {
            **TIERS,
            "limits": {"tpm_in": 5_000, "tpm_out": 8_000, "concurrency_per_model": 5},
            "budget": {"usd": 0.06, "tokens": 55_000, "period": "week"},
        },
    },
    "orgs": {"acme": {"plan": "whole", "limits": {"rpm": 200, "tpm": 250_000}}},
    "keys": [
        {"name": f"{plan}-{number}", "org": "acme", "plan": plan, "secret": f"sk-test-secret-of-{plan}-{number}"}
        for number in range(MOST_ROUNDS)
        for plan in PLANS
    ],
    "leases": {"ttl": "30s", "heartbeat": "300ms"},
    "keys_pepper": "a-pepper-that-all-replicas-share",
}


def asked(random: Random) -> dict[str, Any]:
    """Return one request: of mixed size, tier and model."""
    [model] = random.choices(list(MODELS), (30, 25, 20, 15, 10))
    return {
        "model": model,
        "stream": random.random() < 0.6,
        "messages": [{"role": "user", "content": "word " * random.choice((1, 1, 20, 20, 400, 4_000))}],
        "max_tokens": random.choice((16, 64, 512, 2_048, 50_000)),
        "service_tier": random.choice(("default", "default", "auto", "flex", "priority")),
    }


async def visit(client: httpx.AsyncClient, random: Random, number: int) -> None:
    """Ask at some moment; some clients leave before their answer is whole."""
    body, at_s = asked(random), random.uniform(0, WITHIN_S)
    patience_s = random.uniform(0, 0.3) if random.random() < 0.1 else None
    await asyncio.sleep(at_s)
    try:
        async with asyncio.timeout(patience_s):
            await client.post(
                "/v1/chat/completions", json=body, headers={"x-api-key": f"sk-test-secret-of-{random.choice(PLANS)}-{number}"}
            )
    except TimeoutError:
        pass


async def load(gateways: Sequence[Served], number: int) -> None:
    """Ask all of them, in turn and at once, with the keys of this round."""
    random = Random(SEED + number)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=each.url, timeout=30, trust_env=False, verify=False))
            for each in gateways
        ]
        await asyncio.gather(*(visit(clients[n % GATEWAYS], Random(random.random()), number) for n in range(REQUESTS)))


@asynccontextmanager
async def replicas(valkey: Valkey, directory: Path) -> AsyncIterator[list[Served]]:
    """Run the gateways, over one provider and one store. They have left when the block ends."""
    async with serving(Provider("p")) as url, AsyncExitStack() as stack:
        configured = settings(
            {"p": url.removesuffix("/v1")}, models(), directory, redis={"url": valkey.url, "timeout": "2s"}, **SECTIONS
        )
        gateways = [Served(name, {**configured, "state_dir": str(directory / name)}, directory) for name in "abcd"[:GATEWAYS]]
        await asyncio.gather(*(stack.enter_async_context(each) for each in gateways))
        yield gateways
        assert await asyncio.gather(*(each.stop() for each in gateways)) == [0] * GATEWAYS


async def assert_the_same_state(valkey: Valkey, replay: Replay) -> None:
    """At rest: no lease, no hold, and every bucket where the specification has it."""
    connection = Connection(locator(valkey.url), Owned(), timeout_s=5.0)
    assert await connection.open()
    seconds, micros = await ask(connection, "TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000 + READ_MS
    state = await stored(connection, replay.charges, now_ms)
    await connection.close()
    assert state == expected(replay.buckets, replay.charges, now_ms, state)
    assert not state.leases
    assert not state.reached
    assert {held for _, held in state.buckets.values()} == {0}


class Watch:
    """The specification, fed with what a witness has seen of these gateways."""

    def __init__(self, witness: Witness, gateways: Sequence[Served]) -> None:
        self._settled_ms: dict[str, int] = {}
        self.replay = Replay(self._settled_ms)
        self.scripts: set[str] = set()
        self._witness = witness
        self._gateways = gateways
        self._taken = 0

    @property
    def complete(self) -> bool:
        """Return whether everything has happened that may: each script has run, each dimension has refused."""
        return self.scripts == {*SCRIPTS} and set(self.replay.refused) == set(Dimension)

    async def catch_up(self) -> None:
        """Take what was seen by now; of the very last run the half may be missing."""
        runs = self._witness.runs()[self._taken : -1]
        await until(lambda: self._is_told({run.lease_id for run in runs if run.script == "settle"}))
        self._take(runs)

    def take_all(self) -> None:
        """Take the rest, once the gateways have left."""
        self._note_ends()
        self._take(self._witness.runs()[self._taken :])

    async def _is_told(self, ended: set[str]) -> bool:
        self._note_ends()
        return ended <= self._settled_ms.keys()

    def _note_ends(self) -> None:
        self._settled_ms |= {line["request_id"]: line["settled_ms"] for each in self._gateways for line in each.requests()}

    def _take(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.replay.take(run)
            self.scripts.add(run.script)
        self._taken += len(runs)


@pytest.mark.timeout(240)
async def test_what_four_gateways_admit_is_what_the_specification_admits(tmp_path: Path) -> None:
    asked = 0
    with Valkey() as valkey:
        redis = open_client(locator(valkey.url), timeout_s=10.0)

        async def at_rest() -> bool:
            return not await redis.zcard(PREFIX + b"leases") and not await redis.xlen(PREFIX + b"ledger")

        async with witnessed(redis) as witness, replicas(valkey, tmp_path) as gateways:
            watch = Watch(witness, gateways)
            while asked < MOST_ROUNDS * REQUESTS and not watch.complete:
                await load(gateways, asked // REQUESTS)
                asked += REQUESTS
                await until(at_rest, within_s=60.0)
                await watch.catch_up()
        await redis.aclose()
        watch.take_all()
        replay = watch.replay
        await assert_the_same_state(valkey, replay)
    lines = [line for each in gateways for line in each.requests()]
    told = {line["request_id"]: line["admitted_ms"] for line in lines if line["admitted_ms"] is not None}
    assert told.items() <= replay.admitted_ms.items()
    left = {line["request_id"] for line in lines if line["outcome"] == Outcome.CANCELLED}
    assert replay.admitted_ms.keys() - told.keys() <= left, "only who has left is not told"
    assert replay.granted <= replay.rows
    assert {line["request_id"] for line in lines if line["opened"]} == replay.rows
    assert Counter(row["request_id"] for row in await rows_of(tmp_path, live=True)) == Counter(replay.rows)
    assert len(replay.admitted_ms) > 0.85 * asked
    assert len(replay.granted) > 0.05 * asked, "how many depends on who comes first, and is never next to none"
    assert watch.complete, (replay.refused, watch.scripts)
