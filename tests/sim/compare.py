"""Specification and scripts, side by side: after each operation both have said the same and hold the same."""

import asyncio
from collections import Counter

from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable, Connection, StoreError
from gateway.policy.admission import Acquire, Precedence, Row, Switch
from gateway.policy.answers import Cause, Granted, Posted, Queued, Refused, Unseeded
from gateway.policy.charges import Dimension
from gateway.policy.growth import BASE_MILLI
from gateway.policy.leases import Buckets
from tests.integration.admission.rows import Clock
from tests.integration.admission.state import (
    expected,
    expected_learned,
    expected_queues,
    expected_upstreams,
    holds_are_conserved,
    learned,
    ledger,
    look,
    lose,
    queued,
    state_of,
    upstreams,
)
from tests.sim.memory import Memory
from tests.sim.program import Loss, Operation, Program, done, specified
from tests.sim.supply import BREAKER, CHARGES

RECONNECTING_S = 0.01
MOVED = ("MOVED", "READONLY", "CLUSTERDOWN")
"""Errors of a store that is not the one to ask any more."""

FEWEST_ADMITTED = 0.15
FEWEST_QUEUED = 0.05
FEWEST_OF_A_KIND = 0.01
FEWEST_GROWN = 0.05
FEWEST_LEARNED = 0.3
TESTED_CAUSES = (Cause.LIMIT, Cause.TOO_LARGE, Cause.COOLING, Cause.OPEN, Cause.DISABLED)


class MismatchError(AssertionError):
    """Specification and scripts differ."""


class Tally:
    """What a program led to: one that refuses nothing, or nearly all, or never for some dimension, proves little."""

    def __init__(self) -> None:
        self.operations = 0
        self.losses = 0
        self.verdicts: Counter[str] = Counter()
        self.dimensions: Counter[Dimension] = Counter()
        self.precedences: Counter[Precedence] = Counter()
        self.causes: Counter[Cause] = Counter()
        self.ends: Counter[str] = Counter()
        self.scales_milli: Counter[int] = Counter()

    def note(self, operation: object, verdict: object) -> None:
        """Count one operation."""
        self.operations += 1
        self.losses += isinstance(operation, Loss)
        if isinstance(verdict, Posted):
            self.ends["learned" if verdict.learned is not None else "not learned"] += 1
        if not isinstance(operation, Acquire | Switch):
            return
        self.verdicts[type(verdict).__name__] += isinstance(verdict, Granted | Refused | Queued | Unseeded)
        if not isinstance(verdict, Granted | Refused | Queued):
            return
        self.scales_milli.update(level.growth.scale_milli for level in verdict.levels if level.growth is not None)
        for refusal in verdict.refusals:
            self.dimensions[refusal.charge.dimension] += 1
            self.causes[refusal.cause] += 1
            if refusal.row < len(operation.rows):
                self.precedences[operation.rows[refusal.row].precedence] += 1

    def complaints(self) -> list[str]:
        """Return what the programs did not do often enough."""
        found = [] if self.losses else ["nothing was ever lost"]
        asked = self.verdicts.total()
        for verdict, fewest in (("Granted", FEWEST_ADMITTED), ("Queued", FEWEST_QUEUED), ("Unseeded", FEWEST_OF_A_KIND)):
            if self.verdicts[verdict] < fewest * asked:
                found.append(f"{verdict}: {self.verdicts[verdict]} of {asked}")
        if self.ends["learned"] < FEWEST_LEARNED * self.ends.total():
            found.append(f"learned: {self.ends['learned']} of {self.ends.total()} ends")
        levels, at_base = self.scales_milli.total(), self.scales_milli[BASE_MILLI]
        if min(at_base, levels - at_base) < FEWEST_GROWN * levels or not levels:
            found.append(f"growth: {levels - at_base} of {levels} levels of dynamic limits")
        refusals = self.causes.total()
        kinds = [(each.name, self.dimensions[each]) for each in Dimension]
        kinds += [(each.name, self.precedences[each]) for each in Precedence]
        kinds += [(each.name, self.causes[each]) for each in TESTED_CAUSES]
        return found + [f"{kind}: {n} of {refusals} refusals" for kind, n in kinds if n < FEWEST_OF_A_KIND * refusals]


class Comparison:
    """One seeded program on both; `tally` counts what it led to.

    Where the store `moves`, it does so between two operations, and the next one may find the old place empty.
    """

    moves = False

    def __init__(self, seed: int, connection: Connection, admission: Admission, clock: Clock, tally: Tally) -> None:
        self.seed = seed
        self.tally = tally
        self.events: list[tuple[str, str]] = []
        self.reference = Buckets(lambda event: self.events.append((event.kind, event.id)), breaker=BREAKER)
        self._connection = connection
        self.admission = admission
        self._clock = clock
        self._program = Program(seed, clock, self.reference)
        self._memory = Memory(seed, clock, self.reference, admission)

    async def run(self, operations: int) -> None:
        """Do so many operations with both. Raises `MismatchError`."""
        for _ in range(operations):
            await self.step()

    async def step(self) -> None:
        """Do the next operation with both. Raises `MismatchError`."""
        await self._memory.pass_on()
        operation = self._program.next()
        rows = self._program.rows_of(operation) if isinstance(operation, str) else ()
        wanted = specified(self.reference, operation, self._clock.now_ms)
        if isinstance(operation, Loss):
            await lose(self._connection, self.admission.prefix)
            self.events.clear()
        got = await self._done(operation, rows)
        self._program.heard(operation, wanted)
        self._memory.heard(wanted)
        self.tally.note(operation, wanted)
        self._same("verdict", got, wanted, operation)
        await self._compare_state(operation)

    async def _done(self, operation: Operation, rows: tuple[Row, ...]) -> object:
        """Have the scripts do an operation: again where the store had moved away, which proves that nothing was done."""
        while True:
            try:
                return await done(self.admission, operation, rows)
            except AdmissionUnavailable as lost:
                if not self.moves or (isinstance(lost, StoreError) and not str(lost).startswith(MOVED)):
                    raise
            await asyncio.sleep(RECONNECTING_S)
            await self._connection.ready()

    async def compare_ledger(self) -> None:
        """See that the ledger heard the same. Raises `MismatchError`."""
        self._same("ledger", await ledger(self._connection, self.admission.prefix), self.events, None)

    async def _compare_state(self, operation: object) -> None:
        now_ms = self._clock.now_ms
        found = await look(self._connection, self.admission.prefix)
        state = state_of(found, CHARGES, now_ms)
        self._same("state", state, expected(self.reference, CHARGES, now_ms, state), operation)
        self._same("queues", queued(found), expected_queues(self.reference), operation)
        self._same("upstreams", upstreams(found, now_ms), expected_upstreams(self.reference, now_ms), operation)
        self._same("learning", learned(found), expected_learned(self.reference), operation)
        if not holds_are_conserved(self.reference):
            raise MismatchError(f"seed {self.seed}, operation {self.tally.operations}: holds without a holder after {operation}")

    def _same(self, what: str, got: object, wanted: object, operation: object) -> None:
        if got != wanted:
            place = f"seed {self.seed}, operation {self.tally.operations}"
            raise MismatchError(f"{place}: {what} differs after {operation}\n  scripts: {got}\n  model:   {wanted}")
