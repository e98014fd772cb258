"""A worker's leases live as long as it does, whether anything happens to them or not."""

import asyncio

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.admission.heartbeat import Leases
from gateway.policy.admission import Estimate
from gateway.policy.catalogue import Limits
from gateway.policy.claims import place_of
from gateway.policy.limits import MINUTE_MS
from gateway.tasks import Owned
from tests.integration.admission.rows import TTL_MS, Clock, acquire, estimate, key_charges, row
from tests.integration.admission.state import ledger, stored

TPM = key_charges(Limits(tpm=600))
CHARGES = {place_of(charge): charge for charge in TPM}


async def test_a_beat_renews_every_lease_and_posts_what_it_has_used(
    admission: Admission, connection: Connection, clock: Clock
) -> None:
    leases = Leases(admission, Owned(), heartbeat_s=10.0)
    await admission.acquire(acquire("mine", row(TPM)))
    leases.add("mine", lambda: estimate(10, 2))
    clock.now_ms += TTL_MS - 1
    await leases.beat()
    clock.now_ms += 1
    await admission.tick("w1", ())
    state = await stored(connection, CHARGES, clock.now_ms)
    assert state.leases == {"mine": clock.now_ms - 1 + TTL_MS}
    assert state.buckets == {("k:ci", "tpm"): (12 * MINUTE_MS - 600, 18)}
    assert (len(leases), leases.lost_leases, leases.missed_beats) == (1, 0, 0)


async def test_a_lease_that_was_let_go_is_renewed_no_more(admission: Admission, connection: Connection, clock: Clock) -> None:
    leases = Leases(admission, Owned(), heartbeat_s=10.0)
    await admission.acquire(acquire("mine", row(TPM)))
    leases.add("mine", lambda: estimate(10, 2))
    leases.remove("mine")
    leases.remove("mine")
    clock.now_ms += TTL_MS
    await leases.beat()
    await admission.tick("w1", ())
    assert await ledger(connection) == [("open", "mine"), ("abandoned", "mine")]


async def test_a_lease_that_the_store_lost_is_counted(admission: Admission) -> None:
    leases = Leases(admission, Owned(), heartbeat_s=10.0)
    leases.add("gone", lambda: estimate(0, 0))
    await leases.beat()
    assert leases.lost_leases == 1


async def test_a_store_that_is_away_is_asked_again(admission: Admission, connection: Connection) -> None:
    await connection.close()
    leases = Leases(admission, Owned(), heartbeat_s=10.0)
    leases.add("mine", lambda: estimate(0, 0))
    await leases.beat()
    assert leases.missed_beats == 1


async def test_it_beats_by_itself_until_it_is_stopped(admission: Admission, connection: Connection) -> None:
    beaten, beats, owned = asyncio.Event(), [0], Owned()

    def source() -> Estimate:
        beats[0] += 1
        if beats[0] == 3:
            beaten.set()
        return estimate(1, 1)

    leases = Leases(admission, owned, heartbeat_s=0.001)
    await admission.acquire(acquire("mine", row(TPM)))
    leases.add("mine", source)
    leases.start()
    await asyncio.wait_for(beaten.wait(), 5.0)
    await leases.stop()
    assert len(owned) == 0
