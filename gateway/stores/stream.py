"""The ledger's stream in Valkey: reading it as one consumer group, and taking entries off it for good.

An entry leaves the stream only by `done` (it is stored) or `bury` (it never will be, and lies in the dead stream, whole).
Entry ids and fields are bytes as Redis has them. All keys share one hash slot.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

GROUP = "ledger"
CONSUMER = "writer"
"""One name for whoever is elected: a successor finds its predecessor's entries under its own name, and no names pile up."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One entry of the stream; `deliveries` counts the times that some consumer was handed it."""

    id: bytes
    fields: Mapping[bytes, bytes]
    deliveries: int = 1


class Backlog(msgspec.Struct, frozen=True):
    """What waits: entries in the stream, those of them handed out and not done, and the age of the oldest."""

    length: int = 0
    pending: int = 0
    oldest_age_s: float = 0.0


class Stream:
    """The stream at `key`; `<key>-dead` beside it holds what was buried."""

    def __init__(self, redis: Redis, key: str) -> None:
        self._redis = redis
        self.key = key
        self.dead_key = f"{key}-dead"

    async def ensure(self) -> None:
        """Make the stream and its group where they are not; a group begins at the stream's first entry."""
        try:
            await self._redis.xgroup_create(self.key, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def fresh(self, count: int) -> list[Entry]:
        """Return entries that nobody was handed before, oldest first."""
        reply: Any = await self._redis.xreadgroup(GROUP, CONSUMER, {self.key: ">"}, count=count)
        # The client answers in RESP3's shape, a map of keys to batches, or in RESP2's, a list of pairs.
        batches = chain.from_iterable(reply.values()) if isinstance(reply, dict) else (entries for _, entries in reply)
        return [Entry(entry_id, fields) for entries in batches for entry_id, fields in entries]

    async def claim(self, count: int, min_idle_s: float) -> list[Entry]:
        """Return entries that were handed out at least `min_idle_s` ago and never done, oldest first."""
        reply: Any = await self._redis.xautoclaim(self.key, GROUP, CONSUMER, int(min_idle_s * 1000), "0-0", count=count)
        found = [(entry_id, fields) for entry_id, fields in reply[1] if entry_id is not None]
        if not found:
            return []
        handed = await self._redis.xpending_range(self.key, GROUP, min=found[0][0], max=found[-1][0], count=count)
        deliveries = {each["message_id"]: int(each["times_delivered"]) for each in handed}
        return [Entry(entry_id, fields or {}, deliveries.get(entry_id, 1)) for entry_id, fields in found]

    async def done(self, ids: Sequence[bytes]) -> None:
        """Take entries off the stream."""
        if not ids:
            return
        await self._together([("XACK", self.key, GROUP, *ids), ("XDEL", self.key, *ids)])

    async def bury(self, entry: Entry, reason: str) -> None:
        """Move an entry to the dead stream, with its id and why it is there."""
        fields = {**entry.fields, b"entry": entry.id, b"reason": reason.encode()}
        whole = ("XADD", self.dead_key, "*", *chain.from_iterable(fields.items()))
        await self._together([whole, ("XACK", self.key, GROUP, entry.id), ("XDEL", self.key, entry.id)])

    async def backlog(self) -> Backlog:
        """Return what waits, by the store's own clock."""
        queries = [("XLEN", self.key), ("XPENDING", self.key, GROUP), ("XRANGE", self.key, "-", "+", "COUNT", 1), ("TIME",)]
        length, pending, first, (seconds, micros) = await self._together(queries)
        age_s = seconds + micros / 1e6 - int(first[0][0].split(b"-")[0]) / 1e3 if first else 0.0
        return Backlog(length=length, pending=pending["pending"], oldest_age_s=max(0.0, age_s))

    async def _together(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        pipe: Any = self._redis.pipeline(transaction=True)
        for command in commands:
            pipe.execute_command(*command)
        replies: list[Any] = await pipe.execute()
        return replies
