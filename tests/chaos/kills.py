"""Kills by process id, in an order of the seed's: a worker, the consumer, the supervisor, the store, a worker without a store."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.admission.client import cell_prefix, ledger_key
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from tests.integration.load.served import Served
from tests.integration.processes.conditions import LONGEST_START_S, alive, until, until_gone
from tests.integration.processes.gateways import children

KINDS = ("consumer", "worker", "supervisor", "store")
ALONE = "worker without a store"
WHILE_DOWN_S = 0.05


class Kill(msgspec.Struct, frozen=True):
    """What was killed, and when."""

    kind: str
    at_unix_s: float

    @property
    def takes_both(self) -> bool:
        """Return whether a worker and the store were gone at one moment."""
        return self.kind in ("supervisor", ALONE)


def order(each: int, random: Random) -> list[str]:
    """Return what is killed when: each kind so often, and once a worker while the store is down."""
    kinds = [*KINDS * each, ALONE]
    random.shuffle(kinds)
    return kinds


def store_of(state_dir: Path) -> Redis:
    """Return a client of the store of the gateway with this state."""
    return open_client(locator(f"unix://{(state_dir / 'valkey.lock').read_text()}"), timeout_s=5.0)


class Killer:
    """Ends parts of one gateway."""

    def __init__(self, gateway: Served, state_dir: Path, workers: int, random: Random) -> None:
        self._gateway = gateway
        self._state_dir = state_dir
        self._workers = workers
        self._random = random
        self.done: list[Kill] = []

    async def kill(self, kind: str) -> None:
        """Kill one, and wait until the gateway is whole again."""
        acts: dict[str, Callable[[], Awaitable[None]]] = {
            "consumer": self._consumer,
            "worker": self._worker,
            "supervisor": self._supervisor,
            "store": self._store,
            ALONE: self._worker_alone,
        }
        self.done.append(Kill(kind, time.time()))
        await acts[kind]()
        await until(self._whole, within_s=LONGEST_START_S)

    async def bury(self) -> None:
        """End the lease of a consumer that was killed, as it would end by itself ten seconds after its last renewal."""
        if (holder := await self._elected()) and not alive(holder):
            redis = store_of(self._state_dir)
            await redis.delete(f"{ledger_key()}-leader")
            await redis.aclose()

    async def _consumer(self) -> None:
        [pid] = [pid for pid in self._gateway.workers() if pid == await self._elected()] or [self._any()]
        await self._end(pid)

    async def _worker(self) -> None:
        await self._end(self._any())

    async def _supervisor(self) -> None:
        members = self._gateway.members()
        self._gateway.kill()
        await until_gone(members, within_s=LONGEST_START_S)
        await self._gateway.start()

    async def _store(self) -> None:
        await self._end(self._valkey())

    async def _worker_alone(self) -> None:
        os.kill(self._valkey(), signal.SIGKILL)
        await asyncio.sleep(WHILE_DOWN_S)
        await self._end(self._any())

    @staticmethod
    async def _end(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        await until_gone([pid])

    def _any(self) -> int:
        return self._random.choice(self._gateway.workers())

    def _valkey(self) -> int:
        return next(pid for pid, program in children(self._gateway.pid) if "valkey" in program)

    async def _elected(self) -> int:
        """Return the worker that has the consumer's lease: it names itself there, its process id included."""
        redis = store_of(self._state_dir)
        try:
            holder: Any = await redis.get(f"{ledger_key()}-leader")
        finally:
            await redis.aclose()
        return 0 if holder is None else int(holder.split(b":")[0].rpartition(b"-")[2])

    async def _whole(self) -> bool:
        """Return whether every worker is there and has told the store so."""
        workers = {str(pid).encode() for pid in self._gateway.workers()}
        if len(workers) < self._workers:
            return False
        with contextlib.suppress(RedisError, OSError, ValueError):  # a store that is being started has no address yet
            redis = store_of(self._state_dir)
            try:
                names: Any = await redis.zrange(f"{cell_prefix('tg')}workers", 0, -1)
                return workers <= {name.rpartition(b"-")[2] for name in names}
            finally:
                await redis.aclose()
        return False
