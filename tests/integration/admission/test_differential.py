"""The production scripts against their specification: seeded, saturating programs fed to both, no difference allowed."""

from redis.asyncio import Redis

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from tests.integration.admission.rows import Clock
from tests.integration.admission.state import PREFIX, ask
from tests.sim.compare import Comparison, Tally
from tests.sim.supply import BREAKER

OPERATIONS = 1_200
SEEDS = (103, 105, 107)


async def test_scripts_do_what_the_specification_says(connection: Connection, redis: Redis) -> None:
    tally = Tally()
    for seed in SEEDS:
        await redis.flushall()
        clock = Clock()
        comparison = Comparison(seed, connection, Admission(connection, clock=clock, breaker=BREAKER), clock, tally)
        for _ in range(OPERATIONS):
            await comparison.step()
        await comparison.compare_ledger()
        assert await ask(connection, "HGETALL", PREFIX + "faults") == []
    assert tally.complaints() == []
