"""The production scripts against their specification: one seeded, saturating program fed to both, no difference allowed."""

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.policy.admission import (
    Acquire,
    Charge,
    Dimension,
    Estimate,
    Granted,
    Precedence,
    Progress,
    Queued,
    Reach,
    Refused,
    Row,
    Settle,
    Switch,
    Wait,
)
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.claims import place_of
from gateway.policy.leases import Buckets
from gateway.policy.limits import DAY_MS, charges
from tests.integration.admission.rows import Clock, acquire, progress, settle, switch
from tests.integration.admission.state import (
    PREFIX,
    ask,
    expected,
    expected_queues,
    holds_are_conserved,
    ledger,
    queued,
    stored,
)

OPERATIONS = 1_200
SEEDS = (101, 102, 103)

KEYS = {
    "k:ci": Limits(rpm=10, tpm=1_500, rpd=40, concurrency=9),
    "k:batch": Limits(rpm=20, tpm_in=500, tpm_out=500, concurrency=8, strict=True),
}
SHARED = {"o:acme": Limits(rpm=40, tpm=2_500, concurrency=14, burst_ratio=0.5), "kf:ci": Limits(rpm=20, concurrency=3)}
MODELS = {"m:a": Limits(tpm=2_000, rpd=60), "m:b": Limits(rpm=12, tpm_out=700)}
DEPLOYMENTS = {
    "d:a/one": Limits(concurrency=4, rpm=8),
    "d:a/two": Limits(concurrency=3),
    "d:b/one": Limits(tpm_in=500, concurrency=4),
}


Candidate = tuple[tuple[Charge, ...], str, Precedence]
"""Charges, pool and precedence."""


def rows_of(key: str) -> list[Candidate]:
    """Return every candidate of a key: each deployment at two tiers that spend rates, and one that spends none."""
    own = charges(key, KEYS[key], reach=Reach.REQUEST, tenant=True, ends_walk=key == "k:ci")
    org = charges("o:acme", SHARED["o:acme"], reach=Reach.REQUEST, tenant=True)
    found = []
    for deployment, limits in DEPLOYMENTS.items():
        model = f"m:{deployment[2]}"
        supply = charges(model, MODELS[model], reach=Reach.MODEL, tenant=False)
        supply += charges(deployment, limits, reach=Reach.DEPLOYMENT, tenant=False)
        pool = deployment[2]
        found += [(own + org + supply, pool, Precedence.DEFAULT), (own + org + supply, pool, Precedence.PRIORITY)]
        slots = tuple(charge for charge in own if charge.dimension is Dimension.CONCURRENCY)
        guards = charges("kf:ci", SHARED["kf:ci"], reach=Reach.REQUEST, tenant=True, ends_walk=True)
        found += [(slots + guards + supply, pool, each) for each in (Precedence.FLEX, Precedence.OVER_LIMIT)]
    return found


CANDIDATES = {key: rows_of(key) for key in KEYS}
CHARGES = {place_of(charge): charge for rows in CANDIDATES.values() for row, _, _ in rows for charge in row}


Operation = Acquire | Switch | Settle | list[Progress] | tuple[str, ...] | str | None


class Program:
    """A seeded stream of operations that keeps the buckets near full and the clock mostly, not always, going on."""

    def __init__(self, seed: int, clock: Clock, reference: Buckets) -> None:
        self.random = Random(seed)
        self.clock = clock
        self.reference = reference
        self.asked: dict[str, tuple[Row, ...]] = {}
        self.waited: dict[str, tuple[Row, ...]] = {}
        """The rows that each waiter waits for."""

    def figures(self, request: int = 1) -> Estimate:
        scale = self.random.choices((5, 20, 60, 2_400), (30, 40, 28, 2))[0]
        tokens_in, tokens_out = self.random.randint(0, scale), self.random.randint(0, scale)
        return Estimate(request, tokens_in, tokens_out, tokens_in + tokens_out)

    def rows(self) -> tuple[Row, ...]:
        candidates = CANDIDATES[self.random.choice(list(KEYS))]
        picked = self.random.choices(candidates, k=self.random.choice((0, 1, 1, 1, 2, 3)))
        return tuple(Row("d", "m", Tier.DEFAULT, row, self.figures(), pool, rank) for row, pool, rank in picked)

    def wait(self) -> Wait | None:
        org, worker = self.random.choice("abc"), self.random.choice(("w1", "w2"))
        patience_ms, most = self.random.choice((500, 5_000, 60_000)), self.random.choice((3, 12, 12))
        return Wait(org, worker, patience_ms, most, max(1, most // 2)) if self.random.random() < 0.7 else None

    def waiters(self) -> list[str]:
        """Return those that a worker would ask for: most of who waits, and one that may be gone."""
        waiting = [lease.id for lease in self.reference.leases.values() if lease.waits]
        return [*(each for each in waiting if self.random.random() < 0.9), self.some_id()]

    def some_id(self) -> str:
        """Return a live lease mostly, else one that ended or never was."""
        ended = [lease_id for lease_id, done in self.reference.done.items() if done.until_ms > self.clock.now_ms]
        pools = (
            [[lease.id for lease in self.reference.leases.values() if not lease.waits]] * 6
            + [list(self.reference.leases)] * 2
            + [ended, [f"never-{self.random.getrandbits(64)}"]]
        )
        return self.random.choice(self.random.choice([pool for pool in pools if pool]))

    def pass_time(self) -> None:
        step_ms = self.random.choice((0, 0, 1, 7, 40, 150, 150, 400, 400, 900, 2_500, -300))
        if self.random.random() < 0.006:
            step_ms = self.random.choice((30_000, 70_000, DAY_MS // 20))
        self.clock.now_ms += step_ms

    def operation(self) -> Operation:
        """Return the next one; None is an expiry, an id a confirmation, a tuple of ids a tick."""
        kinds = ("acquire", "again", "settle", "switch", "progress", "expire", "confirm", "tick")
        match self.random.choices(kinds, (46, 4, 24, 10, 8, 2, 14, 10))[0]:
            case "confirm":
                turned = [lease.id for lease in self.reference.leases.values() if lease.turn is not None]
                return self.random.choice(turned) if turned and self.random.random() < 0.9 else self.some_id()
            case "tick":
                return tuple(self.waiters())
            case "acquire":
                return self.asking(f"lease-{len(self.asked)}")
            case "again":
                # After a wait in mid-walk the answer is about that walk's rows, and nobody asks in the words of before.
                lease_id = self.some_id()
                known = self.waited.get(lease_id) in (None, self.asked.get(lease_id))
                return self.asking(lease_id if known else f"lease-{len(self.asked)}")
            case "settle":
                capacity, certain = self.random.random() < 0.2, self.random.random() < 0.8
                return settle(self.some_id(), self.figures(), capacity=capacity, certain=certain)
            case "switch":
                return replace(switch(self.some_id(), *self.rows(), capacity=self.random.random() < 0.5), wait=self.wait())
            case "progress":
                return [
                    progress(self.some_id(), self.figures(self.random.randint(0, 1))) for _ in range(self.random.randint(1, 4))
                ]
            case _:
                return None

    def asking(self, lease_id: str) -> Acquire:
        asked = self.asked.setdefault(lease_id, self.rows())
        return replace(acquire(lease_id, *asked), wait=self.wait())


def specified(reference: Buckets, operation: Operation, now_ms: int) -> object:
    match operation:
        case str():
            return reference.confirm(operation, now_ms)
        case tuple():
            return reference.tick(operation, now_ms)
        case Acquire():
            return reference.acquire(operation, now_ms)
        case Switch():
            return reference.switch(operation, now_ms)
        case Settle():
            return reference.settle(operation, now_ms)
        case None:
            reference.expire(now_ms)
            return ()
        case reports:
            return reference.progress(reports, now_ms)


async def done(admission: Admission, operation: Operation, waited: dict[str, tuple[Row, ...]]) -> object:
    match operation:
        case str():
            return await admission.confirm(operation, waited.get(operation, ()))
        case tuple():
            return await admission.tick("w1", operation)
        case Acquire():
            return await admission.acquire(operation)
        case Switch():
            return await admission.switch(operation)
        case Settle():
            return await admission.settle(operation)
        case None:
            return await admission.tick("w1", ())
        case reports:
            return await admission.progress(reports)


@pytest.mark.parametrize("seed", SEEDS)
async def test_scripts_do_what_the_specification_says(
    seed: int, admission: Admission, connection: Connection, clock: Clock
) -> None:
    events: list[tuple[str, str]] = []
    reference = Buckets(lambda event: events.append((event.kind, event.id)))
    program = Program(seed, clock, reference)
    answers: list[object] = []
    for number in range(OPERATIONS):
        program.pass_time()
        operation = program.operation()
        wanted, got = (
            specified(reference, operation, clock.now_ms),
            await done(admission, operation, {**program.asked, **program.waited}),
        )
        assert got == wanted, (number, operation)
        if isinstance(operation, Acquire):
            answers.append(wanted)
        if isinstance(operation, Acquire | Switch) and isinstance(wanted, Queued) and wanted.refusals:
            program.waited[operation.id] = operation.rows
        assert await queued(connection) == expected_queues(reference), (number, operation)
        state = await stored(connection, CHARGES, clock.now_ms)
        assert state == expected(reference, CHARGES, clock.now_ms, state), (number, operation)
        assert holds_are_conserved(reference)
    assert await ledger(connection) == events
    assert_saturated(answers)
    assert await ask(connection, "HGETALL", PREFIX + "faults") == []


def assert_saturated(answers: list[object]) -> None:
    """A program that refuses nothing, or nearly all, or never for some dimension, proves little."""
    granted, waiting = (sum(isinstance(answer, kind) for answer in answers) for kind in (Granted, Queued))
    named = Counter(
        refusal.charge.dimension
        for answer in answers
        if isinstance(answer, Granted | Refused | Queued)
        for refusal in answer.refusals
    )
    assert granted > 0.15 * len(answers)
    assert waiting > 0.05 * len(answers)
    assert all(named[dimension] >= 0.01 * named.total() for dimension in Dimension), named
