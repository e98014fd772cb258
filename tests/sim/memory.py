"""What both sides know of budgets: lost now and then while nobody holds any, as keys expire, and told where it is asked for."""

from random import Random

from gateway.admission.client import Admission
from gateway.policy.admission import Seed
from gateway.policy.answers import Unseeded
from gateway.policy.charges import Charge
from gateway.policy.claims import place_of
from gateway.policy.leases import Buckets
from gateway.policy.limits import DAY_MS
from tests.integration.admission.rows import Clock
from tests.integration.admission.state import ask
from tests.sim.supply import BUDGETS

FORGETS, TELLS = 0.05, 0.8
"""How likely each is before an operation; some ask for what is not known before they are told."""


class Memory:
    """Takes budgets away from specification and scripts alike, and tells them a figure when they ask."""

    def __init__(self, seed: int, clock: Clock, reference: Buckets, admission: Admission) -> None:
        self._random = Random(seed)
        self._clock = clock
        self._reference = reference
        self._admission = admission
        self._asked: tuple[Charge, ...] = ()

    def heard(self, verdict: object) -> None:
        """Take note of what a request was told."""
        if isinstance(verdict, Unseeded):
            self._asked = verdict.charges

    async def pass_on(self) -> None:
        """Forget, tell, or leave it."""
        if self._random.random() < FORGETS:
            await self._forget()
        if self._asked and self._random.random() < TELLS:
            # Of what was told already a lower figure must change nothing, and a higher one of a period that is over neither.
            at_ms = self._clock.now_ms - self._random.choice((0, 0, 5_000, DAY_MS, -DAY_MS))
            seeds = [Seed(each, at_ms, self._random.randint(0, each.capacity)) for each in BUDGETS]
            self._reference.seed(seeds)
            await self._admission.seed(seeds)
            self._asked = ()

    async def _forget(self) -> None:
        held = {place for lease in self._reference.leases.values() for place in lease.claims}
        for charge in BUDGETS:
            if place_of(charge) not in held and self._random.random() < 0.5:
                self._reference._holds.forget(place_of(charge))
                await ask(self._admission._connection, "DEL", self._admission.prefix + charge.scope)
