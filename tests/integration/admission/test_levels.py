"""Looking at buckets: the script says what the specification would, of every bucket at any time, and leaves all as it is."""

from random import Random

import pytest
from redis.asyncio import Redis

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.policy.account import own_charges
from gateway.policy.admission import Seed
from gateway.policy.answers import Level, Levels, Unseeded
from gateway.policy.catalogue import Budget, Key, Limits, Org
from gateway.policy.charges import Charge
from gateway.policy.charging import Tenant
from gateway.policy.limits import MINUTE_MS, budget_charges
from tests.integration.admission.rows import Clock, acquire, estimate, key_charges, row, settle
from tests.integration.admission.state import PREFIX, ask
from tests.sim.compare import Comparison, Tally
from tests.sim.supply import BREAKER, KEYS, MODELS, ORG, SPENDER

OPERATIONS = 800
SEEDS = (201, 202)

TENANTS = [Tenant(key, ORG if key.budget is None else SPENDER) for key in KEYS]
READINGS = [own_charges(tenant, [model.name for model in MODELS]) for tenant in TENANTS]


class Looking(Comparison):
    """A program after each of whose operations somebody looks; the next operation finds the state compared as a whole."""

    def __init__(self, seed: int, connection: Connection, admission: Admission, clock: Clock, tally: Tally) -> None:
        super().__init__(seed, connection, admission, clock, tally)
        self._random = Random(seed)
        self.seen = {Levels: 0, Unseeded: 0}
        self.used = self.grown = 0

    async def step(self) -> None:
        await super().step()
        charges = self._random.choice(READINGS)
        got = await self.admission.levels(charges)
        self._same("levels", got, self.reference._holds.look(charges, self._clock.now_ms), charges)
        self.seen[type(got)] += 1
        if isinstance(got, Levels):
            self.used += any(level.level and level.held for level in got.levels)
            self.grown += any(level.growth is not None and level.growth.scale_milli > 1_000 for level in got.levels)


async def test_the_script_sees_what_the_specification_sees(connection: Connection, redis: Redis) -> None:
    for seed in SEEDS:
        await redis.flushall()
        clock = Clock()
        looking = Looking(seed, connection, Admission(connection, clock=clock, breaker=BREAKER), clock, Tally())
        await looking.run(OPERATIONS)
        assert looking.used > OPERATIONS // 10
        assert looking.grown > OPERATIONS // 100
        assert min(looking.seen.values()) > 0
        assert await ask(connection, "HGETALL", PREFIX + "faults") == []


CHARGES = key_charges(Limits(rpm=5, tpm=600, rpd=9, concurrency=2))
[BUDGET] = budget_charges("kb:ci", Budget(nano_usd=100, period="day"))


def figures(levels: Levels | Unseeded) -> list[tuple[str, int, int]]:
    assert isinstance(levels, Levels)
    return [(level.charge.dimension, level.level, level.held) for level in levels.levels]


async def test_what_nobody_has_used_is_empty_and_stays_unwritten(
    admission: Admission, connection: Connection, clock: Clock
) -> None:
    seen = await admission.levels(CHARGES)
    assert seen == Levels(clock.now_ms, tuple(Level(charge, 0, 0, 0) for charge in CHARGES))
    assert await ask(connection, "KEYS", "*") == []
    assert await admission.levels(()) == Levels(clock.now_ms, ())


async def test_what_runs_is_held_and_what_has_ended_leaks(admission: Admission, clock: Clock) -> None:
    await admission.acquire(acquire("mine", row(CHARGES, cost=estimate(100, 200))))
    assert figures(await admission.levels(CHARGES)) == [("rpm", 0, 1), ("rpd", 0, 1), ("tpm", 0, 300), ("conc", 0, 1)]
    await admission.settle(settle("mine", estimate(100, 200)))
    assert figures(await admission.levels(CHARGES)) == [("rpm", 1, 0), ("rpd", 1, 0), ("tpm", 300, 0), ("conc", 0, 0)]
    clock.now_ms += MINUTE_MS // 4
    seen = await admission.levels(CHARGES)
    assert figures(seen) == [("rpm", 0, 0), ("rpd", 1, 0), ("tpm", 150, 0), ("conc", 0, 0)]
    assert isinstance(seen, Levels)
    assert seen.levels[2].reset_ms == MINUTE_MS // 4


async def test_looking_changes_no_life(admission: Admission, connection: Connection, clock: Clock) -> None:
    await admission.acquire(acquire("mine", row(CHARGES)))
    await admission.settle(settle("mine"))
    before = [await ask(connection, *command) for command in (("PEXPIRETIME", PREFIX + "k:ci"), ("GET", PREFIX + "k:ci"))]
    clock.now_ms += 1_000
    await admission.levels(CHARGES)
    after = [await ask(connection, *command) for command in (("PEXPIRETIME", PREFIX + "k:ci"), ("GET", PREFIX + "k:ci"))]
    assert before == after


async def test_a_budget_of_which_nothing_is_known_is_said_to_be_one(admission: Admission, clock: Clock) -> None:
    assert await admission.levels((BUDGET, *CHARGES)) == Unseeded(clock.now_ms, (BUDGET,))
    await admission.seed([Seed(BUDGET, clock.now_ms, 40)])
    assert figures(await admission.levels((BUDGET, *CHARGES)))[0] == ("budget", 40, 0)


@pytest.mark.parametrize("models", [0, 300])
async def test_a_key_of_many_models_is_looked_at_in_one_call(models: int, admission: Admission) -> None:
    names = [f"model-{number}" for number in range(models)]
    many = Key(id="ci", name="ci", org="acme", plan="p", limits=Limits(rpm=1), concurrency_per_model=2)
    charges: tuple[Charge, ...] = own_charges(Tenant(many, Org(name="acme")), names)
    assert len(figures(await admission.levels(charges))) == 1 + models
