"""The waiters of one worker: asked for twice a second, and told at once when the store says that a turn has come.

A lost word costs half a second, since every tick asks again. A tick without an answer tells them all: nobody waits for a store
that is away. The tick also ends leases of workers that went away and gives the turns that time alone has brought; it runs whether
anybody waits or not. Seconds.
"""

import asyncio
import secrets
from collections import Counter

from redis.asyncio import Redis

from gateway.admission.client import turn_channel
from gateway.admission.connection import AdmissionUnavailable
from gateway.admission.failover import Failover
from gateway.admission.listening import listen
from gateway.policy.answers import Turn
from gateway.tasks import Owned

TICK_S = 0.4
TICK_SPREAD_MS = 200
"""A tick comes every 400 to 600 ms, at random, so that workers do not all ask at once."""

WORKER_TTL_S = 10.0
"""How long the store takes a worker to be there after a tick, as tick.lua has it."""

MOST_WAITING = 200
"""How many requests may wait in one worker: each holds a client's connection."""


class Turns:
    """Who waits, and the two loops that serve them between `start` and `stop`."""

    def __init__(self, admission: Failover, redis: Redis, worker: str) -> None:
        self.worker = worker
        self._admission = admission
        self._redis = redis
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self.depth: Counter[tuple[str, ...]] = Counter()
        """How many wait here, by model and tier."""
        self._loops: list[asyncio.Task[None]] = []
        self._closed = False
        self.missed_ticks = 0
        """Calls that the store did not answer."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Return whether no more requests may wait here."""
        return self._closed or len(self._waiting) >= MOST_WAITING

    def close(self) -> None:
        """Let nobody else wait here."""
        self._closed = True

    async def come(self, lease_id: str, queue: tuple[str, str]) -> None:
        """Wait until the turn of a lease may have come, or nobody can tell. It counts as waiting for a model at a tier."""
        turn = self._waiting[lease_id] = asyncio.get_running_loop().create_future()
        self.depth[queue] += 1
        try:
            await turn
        finally:
            del self._waiting[lease_id]
            self.depth[queue] -= 1

    def start(self, owned: Owned) -> None:
        """Begin to listen and to tick."""
        self._loops = [owned.spawn(self._listen(), name="admission-turns"), owned.spawn(self._ticks(), name="admission-tick")]

    async def stop(self) -> None:
        """End both loops."""
        for loop in self._loops:
            loop.cancel()
        if self._loops:
            await asyncio.wait(self._loops)

    async def tick(self) -> None:
        """Ask for all who wait, once."""
        asked = [*self._waiting]
        try:
            turns = await self._admission.tick(self.worker, asked)
        except AdmissionUnavailable:
            self.missed_ticks += 1
            turns = (Turn.GONE,) * len(asked)
        for lease_id, turn in zip(asked, turns, strict=True):
            if turn is not Turn.WAITING:
                self._tell(lease_id)

    def _tell(self, lease_id: str) -> None:
        turn = self._waiting.get(lease_id)
        if turn is not None and not turn.done():
            turn.set_result(None)

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S + secrets.randbelow(TICK_SPREAD_MS) / 1000)
            await self.tick()

    async def _listen(self) -> None:
        # The ticks go on where the store cannot be listened to, and tell the operator whether it is there.
        channel = turn_channel(self._admission.prefix, self.worker)
        await listen(self._redis, channel, lambda message: self._tell(message.decode()))
