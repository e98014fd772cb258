"""A worker's leases live as long as it does, whether anything happens to them or not."""

import asyncio

from msgspec.structs import replace

from gateway.admission.client import LEASES_AT_ONCE, Admission
from gateway.admission.connection import Connection
from gateway.admission.failover import Failover
from gateway.admission.heartbeat import Leases
from gateway.admission.spool import Spool
from gateway.policy.admission import Adopt, Row, Upstream, Wait
from gateway.policy.answers import Queued, Turn
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Estimate
from gateway.policy.claims import place_of
from gateway.policy.limits import MINUTE_MS
from gateway.tasks import Owned
from tests.integration.admission.rows import TTL_MS, Clock, acquire, deployment_charges, estimate, key_charges, row, settle
from tests.integration.admission.state import ask, ledger, stored

TPM = key_charges(Limits(tpm=600))
SLOTS = deployment_charges("a/one", Limits(concurrency=1))
CHARGES = {place_of(charge): charge for charge in TPM + SLOTS}


def lease(lease_id: str, granted: Row | None = None) -> Adopt:
    return Adopt(lease_id, granted or row(TPM), TTL_MS, b"opened " + lease_id.encode())


async def test_a_beat_renews_every_lease_and_posts_what_it_has_used(
    admission: Admission, spool: Spool, connection: Connection, clock: Clock
) -> None:
    leases = Leases(Failover(admission, None, spool), Owned(), heartbeat_s=10.0)
    await admission.acquire(acquire("mine", row(TPM)))
    leases.add(lease("mine"), lambda: estimate(10, 2))
    clock.now_ms += TTL_MS - 1
    await leases.beat()
    clock.now_ms += 1
    await admission.tick("w1", ())
    state = await stored(connection, CHARGES, clock.now_ms)
    assert state.leases == {"mine": clock.now_ms - 1 + TTL_MS}
    assert state.buckets == {("k:ci", "tpm"): (12 * MINUTE_MS - 600, 18)}
    assert (len(leases), leases.lost_leases, leases.missed_beats) == (1, 0, 0)


async def test_a_lease_that_was_let_go_is_renewed_no_more(
    admission: Admission, spool: Spool, connection: Connection, clock: Clock
) -> None:
    leases = Leases(Failover(admission, None, spool), Owned(), heartbeat_s=10.0)
    await admission.acquire(acquire("mine", row(TPM)))
    leases.add(lease("mine"), lambda: estimate(10, 2))
    leases.remove("mine")
    leases.remove("mine")
    clock.now_ms += TTL_MS
    await leases.beat()
    await admission.tick("w1", ())
    assert await ledger(connection) == [("open", "mine"), ("abandoned", "mine")]


async def test_leases_that_the_store_lost_are_put_back_as_they_were_granted(
    admission: Admission, spool: Spool, connection: Connection, clock: Clock
) -> None:
    leases = Leases(Failover(admission, None, spool), Owned(), heartbeat_s=10.0)
    count = LEASES_AT_ONCE + 1
    for number in range(count):
        await admission.acquire(acquire(f"r{number}", row(TPM, cost=estimate(1, 2))))
        leases.add(lease(f"r{number}", row(TPM, cost=estimate(1, 2))), lambda: estimate(1, 0))
    await leases.beat()
    before = await stored(connection, CHARGES, clock.now_ms)
    await ask(connection, "FLUSHALL")
    for _ in range(2):
        await leases.beat()
    assert (len(leases), leases.lost_leases) == (count, count)
    assert await stored(connection, CHARGES, clock.now_ms) == before
    assert await ledger(connection) == [("open", f"r{number}") for number in range(count)]


async def test_a_lease_whose_life_is_over_is_let_go(admission: Admission, spool: Spool, connection: Connection) -> None:
    leases = Leases(Failover(admission, None, spool), Owned(), heartbeat_s=10.0)
    await admission.settle(settle("mine"))
    leases.add(lease("mine"), lambda: estimate(0, 0))
    await leases.beat()
    assert (len(leases), leases.lost_leases) == (0, 1)
    assert await ledger(connection) == [("close", "mine")]


async def test_a_lease_that_waits_there_and_runs_here_gives_up_its_turn(admission: Admission, spool: Spool) -> None:
    slot = Row(Upstream("a/one"), "a", Tier.DEFAULT, SLOTS, estimate(), "a")
    leases = Leases(Failover(admission, None, spool), Owned(), heartbeat_s=10.0)
    await admission.acquire(acquire("other", slot))
    for lease_id in ("mine", "next"):
        waits = replace(acquire(lease_id, slot), wait=Wait("acme", "w1", 9_000, 9, 9))
        assert isinstance(await admission.acquire(waits), Queued)
    await admission.settle(settle("other"))
    leases.add(lease("mine"), lambda: estimate(0, 0))
    assert await admission.tick("w1", ["mine", "next"]) == (Turn.COME, Turn.WAITING)
    await leases.beat()
    assert await admission.tick("w1", ["next"]) == (Turn.COME,)


async def test_a_store_that_is_away_is_asked_again(admission: Admission, spool: Spool, connection: Connection) -> None:
    await connection.close()
    leases = Leases(Failover(admission, None, spool), Owned(), heartbeat_s=10.0)
    leases.add(lease("mine"), lambda: estimate(0, 0))
    await leases.beat()
    assert leases.missed_beats == 1


async def test_it_beats_by_itself_until_it_is_stopped(admission: Admission, spool: Spool, connection: Connection) -> None:
    beaten, beats, owned = asyncio.Event(), [0], Owned()

    def source() -> Estimate:
        beats[0] += 1
        if beats[0] == 3:
            beaten.set()
        return estimate(1, 1)

    leases = Leases(Failover(admission, None, spool), owned, heartbeat_s=0.001)
    await admission.acquire(acquire("mine", row(TPM)))
    leases.add(lease("mine"), source)
    leases.start()
    await asyncio.wait_for(beaten.wait(), 5.0)
    await leases.stop()
    assert len(owned) == 0
