"""The traces of the last hour's requests, kept in Valkey: any gateway's operations port finds one by its request's id.

One sorted set, all scores equal. A member is an id and the trace behind it, and ids begin with the time: the set is in order of
age, searched by id, and bounded in age and number by one command each. Writing is off the requests' way and in batches; what a
store that is away does not take is dropped and counted.
"""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any, Protocol

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.policy.record import Record
from gateway.policy.trace import Trace, trace_of
from gateway.tasks import Owned

KEPT = 100_000
"""Traces in one store, some 30 MB of it; where an hour has more requests, the newest are kept."""

KEPT_MS = 3_600_000
PAUSE_S = 0.25
AT_ONCE = 128
"""How many one command writes, so that it never holds the store for long."""

MOST_PENDING = 4_096
"""How many wait for the store in one worker."""

ID_BYTES = 36

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Trace).decode


class TracesAwayError(Exception):
    """The store does not answer."""


class Health(Protocol):
    """Who is told what was lost."""

    def redis_failed(self, op: str) -> None:
        """Count a failure of the store."""
        ...

    def dropped(self, count: int) -> None:
        """Count traces that were not stored."""
        ...


class Traces:
    """One worker's traces on their way to the store, between `start` and `stop`."""

    def __init__(self, redis: Redis, key: str, unix_ms: Callable[[], int], health: Health, *, kept: int = KEPT) -> None:
        self._redis = redis
        self._kept = kept
        self._key = key
        self._unix_ms = unix_ms
        self._health = health
        self._pending: list[bytes] = []
        self._loop: asyncio.Task[None] | None = None

    def add(self, record: Record) -> None:
        """Keep the trace of a record that is complete."""
        if len(self._pending) < MOST_PENDING:
            self._pending.append(record.request_id.encode() + encode(trace_of(record)))
        else:
            self._health.dropped(1)

    def start(self, owned: Owned) -> None:
        """Begin to write."""
        self._loop = owned.spawn(self._flushes(), name="traces")

    async def stop(self) -> None:
        """End the loop and write what is left."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        await self.flush()

    async def flush(self) -> None:
        """Write what is there; writing one again, where it was cut short, changes nothing."""
        count = len(self._pending)
        if not count:
            return
        try:
            await self._write(self._pending[:count])
        except (RedisError, OSError):
            self._health.redis_failed("traces")
            self._health.dropped(count)
        del self._pending[:count]

    async def _write(self, members: list[bytes]) -> None:
        pipe: Any = self._redis.pipeline(transaction=False)
        for start in range(0, len(members), AT_ONCE):
            pipe.execute_command(
                "ZADD", self._key, *chain.from_iterable((b"0", each) for each in members[start : start + AT_ONCE])
            )
        pipe.zremrangebylex(self._key, "-", f"({first_id(self._unix_ms() - KEPT_MS)}")
        pipe.zremrangebyrank(self._key, 0, -self._kept - 1)
        pipe.pexpire(self._key, KEPT_MS)
        await pipe.execute()

    async def _flushes(self) -> None:
        this = asyncio.current_task()
        # Asked again at each turn: Python 3.11's wait_for, which the Redis client uses, can swallow a cancellation.
        while this is None or not this.cancelling():
            await asyncio.sleep(PAUSE_S)
            await self.flush()


class TraceReader:
    """The traces of a store, to be found by their requests' ids."""

    def __init__(self, redis: Redis, key: str) -> None:
        self._redis = redis
        self._key = key

    async def find(self, request_id: str) -> Trace | None:
        """Return a request's trace, None where none is kept. Raises TracesAwayError."""
        sought = request_id.encode()
        if len(sought) != ID_BYTES:
            return None
        try:
            members: Any = await self._redis.zrangebylex(self._key, b"[" + sought, b"(" + sought + b"\xff", 0, 1)
        except (RedisError, OSError) as error:
            raise TracesAwayError from error
        return decode(members[0][ID_BYTES:]) if members else None

    async def newest(self, limit: int, before: str | None = None) -> list[Trace]:
        """Return the newest traces, of those older than the request `before` where it is given. Raises TracesAwayError."""
        most = b"+" if before is None else b"(" + before.encode()
        try:
            members: Any = await self._redis.zrevrangebylex(self._key, most, b"-", 0, limit)
        except (RedisError, OSError) as error:
            raise TracesAwayError from error
        return [decode(member[ID_BYTES:]) for member in members]


def first_id(unix_ms: int) -> str:
    """Return how the ids of an instant begin: UUIDv7 has 48 bits of Unix milliseconds first."""
    digits = f"{unix_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}"
