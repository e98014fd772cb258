"""The production scripts against their specification: one seeded, saturating program fed to both, no difference allowed."""

import pytest

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from tests.integration.admission.rows import Clock
from tests.integration.admission.state import PREFIX, ask
from tests.sim.compare import Comparison
from tests.sim.supply import BREAKER

OPERATIONS = 1_500
SEEDS = (101, 102, 106)


@pytest.mark.parametrize("seed", SEEDS)
async def test_scripts_do_what_the_specification_says(seed: int, connection: Connection, clock: Clock) -> None:
    comparison = Comparison(seed, connection, Admission(connection, clock=clock, breaker=BREAKER), clock)
    for _ in range(OPERATIONS):
        await comparison.step()
    await comparison.compare_ledger()
    assert comparison.tally.complaints() == []
    assert await ask(connection, "HGETALL", PREFIX + "faults") == []
