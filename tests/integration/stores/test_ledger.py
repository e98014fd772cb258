"""From the stream to rows, with everything that can fail on the way failing."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from sqlalchemy import func, select, text

from gateway.stores.database import Reader, Writer
from gateway.stores.engine import Database
from gateway.stores.events import Event
from gateway.stores.schema import ATTEMPTS, EVENTS
from gateway.stores.stream import Backlog, Stream
from gateway.tasks import Owned
from tests.integration.stores.ledger_world import DEAD, KEY, Tally, add, at_least, consumer, counts, fields, lying_in
from tests.valkey import Valkey


async def test_five_thousand_events_survive_consumers_killed_in_mid_batch(redis: Redis, writer: Writer, reader: Reader) -> None:
    events = [fields("open", n) for n in range(1700)]
    events += [fields("close", n) for n in range(1650)]
    events += [fields("abandoned", n) for n in range(1600, 1700)]
    events += [fields("close", n) for n in range(1550)]
    assert len(events) == 5000
    random.Random(7).shuffle(events)
    await add(redis, *events)
    tally, tasks = Tally(), Owned()
    for kill in range(5):
        killed = tasks.spawn(consumer(redis, writer, tally, ttl_s=0.2).run(), name="consumer")
        await tally.until(at_least(500 * (kill + 1)))
        killed.cancel()
        await asyncio.wait([killed])
    assert await consumer(redis, writer, tally).flush(20)
    assert await counts(reader) == {"ok": 1650, "abandoned": 50}
    (sums,) = await reader.fetch(
        select(func.sum(EVENTS.c.cost_nano_usd).label("cost"), func.sum(EVENTS.c.output_tokens).label("out"))
    )
    assert dict(sums) == {"cost": 1650 * 1001, "out": 1650 * 20 + 50 * 7}
    assert len(await reader.fetch(select(ATTEMPTS.c.n))) == 3300
    assert await redis.xlen(KEY) == 0
    assert tally.buried_count == 0


async def test_a_poison_entry_goes_to_the_dead_stream_and_holds_up_nobody(redis: Redis, writer: Writer, reader: Reader) -> None:
    unreadable = {**fields("close", 2), "blob": b"\xc1"}
    too_large = fields("close", 3, output_tokens=2**63)
    await add(redis, fields("close", 1), unreadable, {"junk": b"\xff"}, too_large, fields("close", 4))
    tally = Tally()
    assert await consumer(redis, writer, tally).flush(5)
    assert await counts(reader) == {"ok": 2}
    dead = await lying_in(redis, DEAD)
    assert [entry[b"reason"].split(b" (")[0] for _, entry in dead] == [
        b"unreadable blob",
        b"unknown kind or missing field",
        b"the database refuses it",
    ]
    assert dead[0][1][b"blob"] == b"\xc1"
    assert tally.buried_count == 3


async def test_an_entry_that_outlived_five_consumers_is_buried(redis: Redis, writer: Writer, reader: Reader) -> None:
    await add(redis, fields("close", 1), fields("close", 2))
    (first, _), _ = await lying_in(redis, KEY)
    await redis.xgroup_create(KEY, "ledger", id="0")
    await redis.xreadgroup("ledger", "writer", {KEY: ">"}, count=1)
    await redis.xclaim(KEY, "ledger", "writer", 0, [first], retrycount=5)
    tally = Tally()
    assert await consumer(redis, writer, tally).flush(5)
    assert await counts(reader) == {"ok": 1}
    assert (await lying_in(redis, DEAD))[0][1][b"reason"] == b"delivered 6 times"


async def test_what_a_read_was_handed_that_nobody_waited_for_is_stored_before_the_end(
    redis: Redis, writer: Writer, reader: Reader
) -> None:
    tally, tasks = Tally(), Owned()
    ledger = consumer(redis, writer, tally)
    consuming = tasks.spawn(ledger.run(), name="consumer")
    await add(redis, fields("close", 1))
    await tally.until(at_least(1))
    consuming.cancel()
    await asyncio.wait([consuming])
    await add(redis, fields("close", 2))
    assert await redis.xreadgroup("ledger", "writer", {KEY: ">"})  # as by the read that was cancelled
    assert await ledger.flush(5)
    assert await counts(reader) == {"ok": 2}


class Faulty(Writer):
    """One that fails at its first write, as nothing is expected to."""

    faults = 1

    async def write(self, events: Sequence[Event]) -> None:
        if self.faults:
            self.faults -= 1
            raise RuntimeError("a fault of ours")
        await super().write(events)


async def test_a_fault_of_ours_delays_rows_and_ends_nothing(redis: Redis, writer: Writer, reader: Reader, url: str) -> None:
    tally, tasks = Tally(), Owned()
    faulty = Faulty(url)
    consuming = tasks.spawn(consumer(redis, faulty, tally).run(), name="consumer")
    await add(redis, fields("close", 1))
    await tally.until(at_least(1))
    assert not faulty.faults
    assert await counts(reader) == {"ok": 1}
    consuming.cancel()
    await asyncio.wait([consuming])
    await faulty.close()


async def test_a_locked_database_delays_rows_and_costs_no_delivery(
    redis: Redis, writer: Writer, reader: Reader, url: str
) -> None:
    await add(redis, *[fields("close", n) for n in range(20)])
    engine = Database(url).open_to_write()
    other = await engine.connect()
    transaction = await other.begin()  # SQLite's is the lock of the whole file
    if engine.dialect.name == "postgresql":
        await other.execute(text("LOCK TABLE usage_event"))
    tally = Tally()
    ledger = consumer(redis, writer, tally)
    assert not await ledger.flush(0.5)
    assert tally.stored_count == 0
    assert await redis.xlen(KEY) == 20
    await transaction.rollback()
    await other.close()
    await engine.dispose()
    assert await ledger.flush(5)
    assert await counts(reader) == {"ok": 20}
    assert tally.buried_count == 0


async def test_of_two_candidates_one_consumes_and_the_other_takes_over(redis: Redis, writer: Writer, reader: Reader) -> None:
    tally_a, tally_b, tasks = Tally(), Tally(), Owned()
    leader = tasks.spawn(consumer(redis, writer, tally_a, name="a", ttl_s=0.5).run(), name="a")
    await add(redis, fields("close", 1))
    await tally_a.until(at_least(1))
    follower = tasks.spawn(consumer(redis, writer, tally_b, name="a", ttl_s=0.5).run(), name="b")
    await add(redis, fields("close", 2))
    await tally_a.until(at_least(2))
    assert tally_b.stored_count == 0
    leader.cancel()
    await asyncio.wait([leader])
    await add(redis, fields("close", 3))
    await tally_b.until(at_least(1))
    follower.cancel()
    await asyncio.wait([follower])
    assert await counts(reader) == {"ok": 3}


async def test_a_store_that_restarts_empty_is_taken_up_again(writer: Writer, reader: Reader) -> None:
    tally, tasks = Tally(), Owned()
    with Valkey() as server:
        redis = Redis(unix_socket_path=server.socket, socket_timeout=0.5, retry=Retry(NoBackoff(), 0))
        running = tasks.spawn(consumer(redis, writer, tally).run(), name="consumer")
        await add(redis, fields("close", 1))
        await tally.until(at_least(1))
        server.stop()
        await tally.until(lambda told: told.redis_failures > 0)
        server.start()
        await add(redis, fields("close", 2))
        await tally.until(at_least(2))
        running.cancel()
        await asyncio.wait([running])
        await redis.aclose()
    assert await counts(reader) == {"ok": 2}


async def test_the_backlog_is_told_with_its_age(redis: Redis) -> None:
    stream = Stream(redis, KEY)
    await stream.ensure()
    assert await stream.backlog() == Backlog()
    await redis.xadd(KEY, {"kind": "open"}, id="1000-0")
    await add(redis, fields("close", 1))
    await stream.fresh(1)
    backlog = await stream.backlog()
    assert (backlog.length, backlog.pending) == (2, 1)
    assert backlog.oldest_age_s > 1e9


@pytest.mark.parametrize("kinds", [("open", "close"), ("close", "open"), ("abandoned", "close", "open"), ("close", "abandoned")])
async def test_the_end_that_knows_most_stays(redis: Redis, writer: Writer, reader: Reader, kinds: tuple[str, ...]) -> None:
    ledger = consumer(redis, writer, Tally())
    for kind in kinds:
        await add(redis, fields(kind, 1))
        assert await ledger.flush(5)
    assert await counts(reader) == {"ok": 1}
