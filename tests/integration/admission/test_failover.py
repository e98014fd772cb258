"""What a worker's requests meet while the store is away, and what the store hears when it is back."""

import asyncio
import time
from collections.abc import Iterator
from statistics import median

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable, Connection
from gateway.admission.discovery import locator
from gateway.admission.failover import Failover
from gateway.admission.local import Local
from gateway.admission.redis_client import open_client
from gateway.admission.spool import Spool
from gateway.policy.admission import NO_ENDING, Acquire, Adopt, Order, Row, Seed, Switch, Upstream, Wait, Word
from gateway.policy.answers import Granted, Queued, Refused, Turn
from gateway.policy.catalogue import Budget, Limits, Tier
from gateway.policy.charges import Charge, Estimate
from gateway.policy.limits import budget_charges
from gateway.tasks import Owned
from tests.integration.admission.rows import TTL_MS, Clock, deployment_charges, estimate, key_charges, settle
from tests.integration.admission.state import ask, ledger
from tests.valkey import Valkey

EVERY_S = 0.02
CALLS = 75
PROMPT_S = 0.01
"""How long a verdict takes at most while the store is left alone: nobody is waited for."""

LATE_AT_MOST = 12
"""How many verdicts come later: those under way until three calls have had their tenth of a second, and as many again."""

LONGEST_S = 0.15
"""A call's own timeout, and some."""

SLOT = deployment_charges("a/one", Limits(concurrency=1))
OTHER = deployment_charges("a/two", Limits(concurrency=1))
WIDE = deployment_charges("a/one", Limits(concurrency=100))
RATE = key_charges(Limits(rpm=3))
FREE = key_charges(Limits(concurrency=1_000))


def row(*groups: tuple[Charge, ...], cost: Estimate | None = None) -> Row:
    return Row(Upstream("a/one"), "a", Tier.DEFAULT, sum(groups, ()), cost or estimate(), "a")


def asks(lease_id: str, *rows: Row, wait: Wait | None = None) -> Acquire:
    return Acquire(lease_id, rows, TTL_MS, b"opened " + lease_id.encode(), wait)


@pytest.fixture
def failover(admission: Admission, clock: Clock, spool: Spool) -> Failover:
    return Failover(admission, Local(clock), spool)


@pytest.fixture
def server() -> Iterator[Valkey]:
    """A store that may come to harm."""
    with Valkey() as server:
        yield server


async def lose(failover: Failover, connection: Connection) -> None:
    """Have the store be left alone: three calls fail."""
    await connection.close()
    for _ in range(3):
        with pytest.raises(AdmissionUnavailable):
            await failover.tick("w1", ())
    assert failover.alone


async def find(failover: Failover, connection: Connection) -> None:
    """Have it answer again, as a store that has lost everything."""
    assert await connection.open()
    await ask(connection, "FLUSHALL")
    assert failover.alone, "who asks for something else does not notice"
    await failover.tick("w1", ())
    assert not failover.alone


async def fail(server: Valkey, redis: Redis, way: str) -> None:
    match way:
        case "paused":
            server.pause()
        case "killed":
            server.stop()
        case "read-only":
            await redis.replicaof("127.0.0.1", "1")
        case _:
            await redis.config_set("maxmemory", "1")


@pytest.mark.parametrize("way", ["paused", "killed", "read-only", "full"])
async def test_a_verdict_is_hardly_later_without_a_store(way: str, server: Valkey, spool: Spool) -> None:
    redis, connection = open_client(locator(server.url), timeout_s=5.0), Connection(locator(server.url), Owned())
    assert await connection.open()
    failover = Failover(Admission(connection), Local(lambda: time.time_ns() // 1_000_000), spool)

    async def verdict(number: int) -> float:
        began_s = time.perf_counter()
        assert isinstance(await failover.acquire(asks(f"r{number}", row(FREE))), Granted)
        return time.perf_counter() - began_s

    await verdict(CALLS)
    await fail(server, redis, way)
    asked = []
    for number in range(CALLS):
        asked.append(asyncio.create_task(verdict(number)))
        await asyncio.sleep(EVERY_S)
    late = [each for each in await asyncio.gather(*asked) if each > PROMPT_S]
    await redis.aclose()
    await connection.close()
    assert failover.alone
    assert len(late) <= LATE_AT_MOST, late
    assert median([*late, 0.0]) <= LONGEST_S


async def test_a_store_that_comes_back_empty_hears_first_of_what_was_granted_without_it(
    failover: Failover, connection: Connection
) -> None:
    await lose(failover, connection)
    for number in range(3):
        verdict = await failover.acquire(asks(f"r{number}", row(RATE, WIDE)))
        assert isinstance(verdict, Granted)
        assert verdict.local
    assert isinstance(await failover.acquire(asks("one-too-many", row(RATE, WIDE))), Refused)
    await find(failover, connection)
    refused = await failover.acquire(asks("later", row(RATE, WIDE)))
    assert isinstance(refused, Refused)
    assert not refused.local
    assert [(await failover.settle(settle(f"r{number}"))).opened for number in range(3)] == [True] * 3
    assert await ledger(connection) == [(kind, f"r{number}") for kind in ("open", "close") for number in range(3)]


async def test_what_a_lost_answer_made_a_worker_grant_by_itself_is_posted_at_its_end(
    failover: Failover, connection: Connection
) -> None:
    await connection.close()
    verdict = await failover.acquire(asks("mine", row(RATE, WIDE, cost=estimate(1, 1))))
    assert isinstance(verdict, Granted)
    assert verdict.local
    assert await connection.open()
    assert not failover.alone, "one call alone is no sign"
    await failover.settle(settle("mine"))
    verdict = await failover.acquire(asks("next", row(RATE, WIDE)))
    assert isinstance(verdict, Granted)
    assert verdict.levels[0].level == 1


@pytest.mark.parametrize("way", ["lost", "granted here"])
async def test_a_lease_that_the_store_does_not_know_moves_on_there(way: str, failover: Failover, connection: Connection) -> None:
    first, second = row(RATE, SLOT), row(RATE, OTHER)
    if way == "lost":
        await failover.acquire(asks("mine", first))
        await ask(connection, "FLUSHALL")
    else:
        await connection.close()
        await failover.acquire(asks("mine", first))
        assert await connection.open()
    lease = Adopt("mine", first, TTL_MS, b"opened mine")
    verdict = await failover.switch(Switch("mine", NO_ENDING, (second,), TTL_MS), lease.opened, lease)
    assert isinstance(verdict, Granted)
    assert (verdict.local, [level.held for level in verdict.levels]) == (False, [0, 1])
    assert isinstance(await failover.acquire(asks("next", row(SLOT))), Granted)


async def waiting(failover: Failover) -> Acquire:
    """Return a request that waits for a slot that another has."""
    await failover.acquire(asks("other", row(SLOT)))
    waits = asks("mine", row(SLOT), wait=Wait("acme", "w1", 9_000, 9, 9))
    assert isinstance(await failover.acquire(waits), Queued)
    return waits


async def test_a_waiter_that_the_store_lost_asks_again(failover: Failover, connection: Connection) -> None:
    waits = await waiting(failover)
    await ask(connection, "FLUSHALL")
    assert await failover.tick("w1", ["mine"]) == (Turn.GONE,)
    verdict = await failover.confirm(replace(waits, rows=(row(OTHER),)))
    assert isinstance(verdict, Granted)
    assert not verdict.local


async def test_nobody_waits_for_a_store_that_is_away(failover: Failover, connection: Connection) -> None:
    waits = await waiting(failover)
    await lose(failover, connection)
    served = await failover.confirm(waits)
    assert isinstance(served, Granted)
    assert served.local
    full = await failover.confirm(replace(waits, id="next"))
    assert isinstance(full, Refused)
    assert full.local


USD = 10**9
BUDGET = budget_charges("kb:ci", Budget(nano_usd=1_000 * USD))


def costing(usd: int) -> Row:
    return row(BUDGET, WIDE, cost=replace(estimate(), cost_nano_usd=usd * USD))


async def test_of_a_budget_an_allowance_is_spent_alone_and_posted_later(
    failover: Failover, admission: Admission, connection: Connection, clock: Clock
) -> None:
    await admission.seed([Seed(BUDGET[0], clock.now_ms, 400 * USD)])
    await failover.acquire(asks("before", costing(2)))
    await lose(failover, connection)
    assert isinstance(await failover.acquire(asks("first", costing(3))), Granted)
    with pytest.raises(AdmissionUnavailable):
        await failover.acquire(asks("more", costing(3)))
    with pytest.raises(AdmissionUnavailable):
        await failover.settle(settle("first", replace(estimate(), cost_nano_usd=USD)))
    assert isinstance(await failover.acquire(asks("second", costing(4))), Granted), "what the first did not use"
    assert await connection.open()
    await failover.tick("w1", ())
    await failover.settle(settle("first", replace(estimate(), cost_nano_usd=USD)))
    verdict = await failover.acquire(asks("after", costing(8)))
    assert isinstance(verdict, Granted)
    assert (verdict.levels[0].level, verdict.levels[0].held) == (401 * USD, (2 + 4 + 8) * USD)


async def test_of_a_budget_that_was_nearly_spent_nothing_is_spent_alone(
    failover: Failover, admission: Admission, connection: Connection, clock: Clock
) -> None:
    await admission.seed([Seed(BUDGET[0], clock.now_ms, 981 * USD)])
    await failover.acquire(asks("before", costing(1)))
    await lose(failover, connection)
    with pytest.raises(AdmissionUnavailable):
        await failover.acquire(asks("first", costing(1)))


async def test_what_the_operator_took_out_of_service_stays_out_without_a_store(
    failover: Failover, admission: Admission, connection: Connection
) -> None:
    first, second = (
        Row(Upstream(name), "a", Tier.DEFAULT, deployment_charges(name, Limits(concurrency=9)), estimate(), "a")
        for name in ("a/one", "a/two")
    )
    await admission.order(Order(Word.DISABLE, (first.upstream,)))
    verdict = await failover.acquire(asks("before", first, second))
    assert isinstance(verdict, Granted)
    assert verdict.row == 1
    await lose(failover, connection)
    verdict = await failover.acquire(asks("alone", first, second))
    assert isinstance(verdict, Granted)
    assert (verdict.local, verdict.row) == (True, 1)
    assert await connection.open()
    await admission.order(Order(Word.ENABLE, (first.upstream,)))
    await failover.tick("w1", ())
    assert isinstance(await failover.acquire(asks("back", first, second)), Granted)
    await lose(failover, connection)
    verdict = await failover.acquire(asks("again", first, second))
    assert isinstance(verdict, Granted)
    assert (verdict.local, verdict.row) == (True, 0)


async def test_without_a_share_of_its_own_a_worker_refuses_at_once(
    admission: Admission, connection: Connection, spool: Spool
) -> None:
    failover = Failover(admission, None, spool)
    await lose(failover, connection)
    with pytest.raises(AdmissionUnavailable):
        await failover.acquire(asks("mine", row(SLOT)))
