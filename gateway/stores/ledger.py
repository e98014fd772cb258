"""The ledger's consumer: what admission wrote to the stream becomes rows, each once, whatever fails on the way.

An entry is acknowledged after the commit that stores it, never before; storing one twice changes nothing. So a crash, a lost
store or a locked database delays rows and loses none. Entries that can never be stored go to the dead stream and hold up
nobody. Every worker runs one consumer; the elected one works. Durations are seconds.
"""

import asyncio
import time
from collections.abc import Awaitable
from typing import Protocol

import msgspec
import structlog
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from gateway.stores.database import Writer
from gateway.stores.election import Election
from gateway.stores.events import Event, UndecodableError, decode, rank_of
from gateway.stores.refusals import UnstorableError
from gateway.stores.stream import Entry, Stream
from gateway.stores.versions import SchemaVersionError

POLL_S = 0.2
"""How long an empty stream is left alone: the delay of a row, and what gathers a batch for one fsync."""

RECLAIM_IDLE_S = 60.0
"""An entry handed out so long ago and not done belonged to a consumer that lost its lease in mid-read."""

MAX_DELIVERIES = 5
"""An entry that was in hand at so many consumers' deaths is taken to be their cause."""

LONGEST_BACK_OFF_S = 2.0
"""With a full wait for a database lock before it, still within the consumer's lease."""

LEASE_S = 10.0
REPORT_EVERY_S = 1.0

OUTAGE = (RedisError, SQLAlchemyError, OSError, SchemaVersionError)

log = structlog.get_logger(__name__)


FORGET_EVERY_S = 600.0
"""How often it is seen to that rows end, and how soon after a failure."""


class Terms(msgspec.Struct, frozen=True):
    """How many entries one transaction stores, and for how long requests have rows."""

    batch: int = 500
    retention_s: float = 400 * 86_400.0


TERMS = Terms()


class Health(Protocol):
    """Who is told how the ledger does."""

    def backlog(self, length: int, pending: int, oldest_age_s: float) -> None:
        """Take what waits in the stream; zeros from a consumer that lost its lease."""
        ...

    def stored(self, count: int) -> None:
        """Count events that were committed."""
        ...

    def buried(self) -> None:
        """Count an entry that went to the dead stream."""
        ...

    def redis_failed(self, op: str) -> None:
        """Count a failure of the store."""
        ...


class Ledger:
    """One worker's consumer. `run` for the life of the worker, then `flush`."""

    def __init__(self, stream: Stream, writer: Writer, election: Election, health: Health, terms: Terms = TERMS) -> None:
        self._stream = stream
        self._writer = writer
        self._election = election
        self._health = health
        self._terms = terms
        self._held: dict[bytes, Entry] = {}
        self._leading = False
        self._claim_idle_s = 0.0
        self._claim_at_s = 0.0
        self._report_at_s = self._forget_at_s = 0.0
        self._failing: str | None = None

    async def run(self) -> None:
        """Consume whenever elected, until cancelled."""
        wait_s = POLL_S
        this = asyncio.current_task()
        # Asked again at each turn: Python 3.11's wait_for, which the Redis client uses, can swallow a cancellation.
        while this is None or not this.cancelling():
            busy = await self._guarded(self._turn())
            wait_s = min(wait_s * 2, LONGEST_BACK_OFF_S) if self._failing else POLL_S
            await asyncio.sleep(0 if busy else wait_s)

    async def flush(self, timeout_s: float) -> bool:
        """Empty the stream, or see another candidate empty it; then resign. Return whether it was empty in time.

        Call it when `run` has ended.
        """
        give_up_s = time.monotonic() + timeout_s
        self._claim_idle_s = self._claim_at_s = 0.0  # the read that `run` was cancelled in may have been handed entries
        empty = False
        while not empty and time.monotonic() < give_up_s:
            busy = await self._guarded(self._turn())
            empty = not busy and await self._guarded(self._is_empty())
            await asyncio.sleep(0 if busy or empty else POLL_S / 4)
        await self._guarded(self._resign())
        return empty

    async def _guarded(self, work: Awaitable[bool]) -> bool:
        """Return what `work` returns, and False while a store is away or there is a fault of ours: rows wait meanwhile."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001  told with its place where it is no outage, and tried again
            self._failed(error)
            return False

    def _failed(self, error: Exception) -> None:
        expected = isinstance(error, OUTAGE)
        if isinstance(error, RedisError) or not expected:
            # A lost reply may have handed us entries, and a store that restarted may have lost the group: begin anew.
            self._leading = False
        if isinstance(error, RedisError):
            self._health.redis_failed("ledger")
        if self._failing is None:  # the log hears of changes only
            log.error("ledger_failing", error=type(error).__name__, held=len(self._held), exc_info=not expected)
        self._failing = type(error).__name__

    async def _turn(self) -> bool:
        """Store one batch. Return whether there may be more at once."""
        busy = await self._consume()
        if self._failing is not None:
            log.info("ledger_recovered", after=self._failing)
            self._failing = None
        return busy

    async def _consume(self) -> bool:
        if not await self._lead():
            return False
        if not self._held:
            self._held = {entry.id: entry for entry in await self._read()}
        full = len(self._held) >= self._terms.batch
        # Held until they are off the stream: a commit that failed is tried again without another delivery.
        if self._held:
            await self._store()
        await self._report()
        return full or await self._forget()

    async def _lead(self) -> bool:
        led, self._leading = self._leading, False
        if not await self._election.hold():
            self._held = {}
            if led:
                log.info("ledger_lease_lost")
                self._health.backlog(0, 0, 0.0)
            return False
        if not led:
            await self._stream.ensure()
            self._claim_idle_s = self._claim_at_s = 0.0
            log.info("ledger_elected")
        self._leading = True
        return True

    async def _read(self) -> list[Entry]:
        now_s = time.monotonic()
        if now_s >= self._claim_at_s:
            left_behind = await self._stream.claim(self._terms.batch, self._claim_idle_s)
            if left_behind:
                return left_behind
            self._claim_idle_s, self._claim_at_s = RECLAIM_IDLE_S, now_s + RECLAIM_IDLE_S
        return await self._stream.fresh(self._terms.batch)

    async def _store(self) -> None:
        events = await self._read_best()
        try:
            await self._writer.write(list(events.values()))
        except UnstorableError:
            for entry_id, event in events.items():
                await self._store_alone(self._held[entry_id], event)
        await self._stream.done(list(self._held))
        self._health.stored(len(self._held))
        self._held = {}

    async def _read_best(self) -> dict[bytes, Event]:
        """Return, by entry, the event of each request that knows most; what it outranks need not be read."""
        rivals: dict[bytes, list[Entry]] = {}
        for entry in self._held.values():
            rivals.setdefault(entry.fields.get(b"id", entry.id), []).append(entry)
        best: dict[bytes, Event] = {}
        for entries in rivals.values():
            for entry in sorted(entries, key=lambda each: rank_of(each.fields), reverse=True):
                try:
                    best[entry.id] = _event(entry)
                    break
                except UndecodableError as error:
                    await self._bury(entry, str(error))
        return best

    async def _store_alone(self, entry: Entry, event: Event) -> None:
        try:
            await self._writer.write([event])
        except UnstorableError as error:
            await self._bury(entry, str(error))

    async def _bury(self, entry: Entry, reason: str) -> None:
        await self._stream.bury(entry, reason)
        del self._held[entry.id]
        self._health.buried()
        log.error("ledger_entry_buried", entry=entry.id.decode(), reason=reason)

    async def _report(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._report_at_s:
            self._report_at_s = now_s + REPORT_EVERY_S
            backlog = await self._stream.backlog()
            self._health.backlog(backlog.length, backlog.pending, backlog.oldest_age_s)

    async def _forget(self) -> bool:
        """Delete a little of what is older than is kept. Return whether there may be more.

        Nothing while something waits to be stored, which may be as old.
        """
        now_s = time.monotonic()
        if now_s < self._forget_at_s or not await self._is_empty():
            return False
        self._forget_at_s = now_s + FORGET_EVERY_S
        more = await self._writer.forget(int((time.time() - self._terms.retention_s) * 1000))
        if more:
            self._forget_at_s = now_s
        return more

    async def _is_empty(self) -> bool:
        return (await self._stream.backlog()).length == 0

    async def _resign(self) -> bool:
        self._leading = False
        await self._election.resign()
        return True


def _event(entry: Entry) -> Event:
    if entry.deliveries > MAX_DELIVERIES:
        raise UndecodableError(f"delivered {entry.deliveries} times")
    return decode(entry.fields)
