"""The store under test, asked how often its scripts were called and whether the ledger is written. Durations are seconds."""

import asyncio
import time
from typing import Any

from redis import Redis

from gateway.admission.client import ledger_key

LOOK_S = 0.05
LONGEST_REST_S = 20.0


class Store:
    """One Valkey, by a connection of its own."""

    def __init__(self, socket_path: str) -> None:
        self._redis = Redis(unix_socket_path=socket_path)

    def clear(self) -> None:
        """Forget everything but the scripts."""
        self._redis.flushall()

    def calls(self) -> tuple[int, int]:
        """Return how many times scripts were called so far, and how many microseconds that took."""
        stats: Any = self._redis.info("commandstats")
        counts = [stats[name] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats]
        return sum(each["calls"] for each in counts), sum(each["usec"] for each in counts)

    async def rest(self) -> None:
        """Wait until every row of the ledger is in the database. Raises TimeoutError where that takes too long."""
        give_up_s = time.monotonic() + LONGEST_REST_S
        await asyncio.sleep(LOOK_S)  # the last settlements follow their answers
        while self._redis.xlen(ledger_key()):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"the ledger is not written after {LONGEST_REST_S:g} s")
            await asyncio.sleep(LOOK_S)
