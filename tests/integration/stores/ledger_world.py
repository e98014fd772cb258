"""Events as the admission scripts write them, a consumer to take them, and questions to ask of the result."""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
from redis.asyncio import Redis
from sqlalchemy import func, select

from gateway.policy.record import Attempt, Closed, Opened
from gateway.stores.database import Reader, Writer
from gateway.stores.election import Election
from gateway.stores.ledger import TERMS, Ledger, Terms
from gateway.stores.schema import EVENTS
from gateway.stores.stream import Stream

KEY = "tg:v1:{main}:ledger"
DEAD = f"{KEY}-dead"
pack = msgspec.msgpack.encode


def opened(n: int) -> Opened:
    return Opened(
        request_id=f"req-{n:06}",
        started_unix_ms=1_790_000_000_000 + n * 1000,
        key="ci",
        key_id="k1",
        org="acme",
        project=None,
        model_requested="llama",
        tier_requested=None,
        route="chat",
        stream=False,
        client_request_id=None,
    )


def closed(n: int, *, output_tokens: int = 20, outcome: str = "ok") -> Closed:
    return Closed(
        opened=opened(n),
        outcome=outcome,
        status=200,
        error_code=None,
        model_served="llama",
        provider="deepinfra",
        tier_served="default",
        attempts=(
            Attempt(model="big", provider="nebius", status=429, outcome="busy", sent=True, duration_ms=3),
            Attempt(model="llama", provider="deepinfra", status=200, outcome="ok", sent=True, duration_ms=70),
        ),
        input_tokens=10,
        cached_tokens=4,
        output_tokens=output_tokens,
        reasoning_tokens=5,
        cost_nano_usd=1001,
        estimated=False,
        queued_ms=1,
        ttft_ms=30,
        duration_ms=80,
    )


def fields(kind: str, n: int, *, output_tokens: int = 20) -> dict[str, bytes]:
    if kind == "abandoned":
        # As Lua packs it: the opening goes in as a string, whatever its bytes are.
        inner = pack(opened(n))
        blob = b"\x95" + b"\xda" + len(inner).to_bytes(2, "big") + inner + pack(1) + pack(10) + pack(7) + pack(17)
    else:
        blob = pack(opened(n)) if kind == "open" else pack(closed(n, output_tokens=output_tokens))
    return {"kind": kind.encode(), "id": opened(n).request_id.encode(), "blob": blob}


class Tally:
    """What the consumer tells of its health, and a way to wait for it."""

    def __init__(self) -> None:
        self.stored_count = 0
        self.buried_count = 0
        self.redis_failures = 0
        self.last = (0, 0, 0.0)
        self._told = asyncio.Event()

    def backlog(self, length: int, pending: int, oldest_age_s: float) -> None:
        self.last = (length, pending, oldest_age_s)
        self._told.set()

    def stored(self, count: int) -> None:
        self.stored_count += count
        self._told.set()

    def buried(self) -> None:
        self.buried_count += 1
        self._told.set()

    def redis_failed(self, op: str) -> None:
        self.redis_failures += 1
        self._told.set()

    async def until(self, reached: Callable[["Tally"], bool]) -> None:
        """Wait until what was told satisfies `reached`."""
        async with asyncio.timeout(20):
            while not reached(self):
                self._told.clear()
                await self._told.wait()


def at_least(count: int) -> Callable[[Tally], bool]:
    return lambda told: told.stored_count >= count


def consumer(redis: Redis, writer: Writer, tally: Tally, *, name: str = "a", ttl_s: float = 10.0, terms: Terms = TERMS) -> Ledger:
    return Ledger(Stream(redis, KEY), writer, Election(redis, f"{KEY}-lease", name, ttl_s), tally, terms)


async def add(redis: Redis, *events: dict[str, bytes]) -> None:
    pipe: Any = redis.pipeline(transaction=False)
    for event in events:
        pipe.execute_command("XADD", KEY, "*", *chain.from_iterable(event.items()))
    await pipe.execute()


async def lying_in(redis: Redis, key: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    found: Any = await redis.xrange(key)
    return list(found)


async def counts(reader: Reader) -> dict[str | None, int]:
    rows = await reader.fetch(select(EVENTS.c.outcome, func.count().label("n")).group_by(EVENTS.c.outcome))
    return {row["outcome"]: row["n"] for row in rows}
