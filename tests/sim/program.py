"""A seeded program of operations on the admission store, fed to its specification and to the scripts alike.

It keeps the buckets near full, upstreams in and out of trouble, and the clock mostly, not always, going on.
"""

from itertools import chain
from random import Random

from msgspec.structs import replace

from gateway.admission.client import Admission
from gateway.policy.admission import (
    Acquire,
    Adopt,
    Ending,
    Lesson,
    Order,
    Progress,
    Report,
    Row,
    Settle,
    Sign,
    Switch,
    Wait,
    Word,
)
from gateway.policy.answers import Granted, Queued, Unseeded
from gateway.policy.charges import Estimate
from gateway.policy.leases import Buckets
from gateway.policy.limits import DAY_MS
from gateway.policy.periods import PERIODS, bounds_ms
from gateway.policy.upstreams import Condition
from tests.integration.admission.rows import TTL_MS, Clock
from tests.sim.supply import CANDIDATES, Candidate


class Confirm(str):
    """The lease whose turn is taken."""

    __slots__ = ()


class Tick(tuple[str, ...]):
    """The waiters that a worker asks for."""

    __slots__ = ()


class Loss:
    """The store is empty all at once."""


Batch = list[Progress] | list[Adopt] | list[Report]
Operation = Acquire | Switch | Settle | Order | Confirm | Tick | Loss | Batch

WEIGHTS = {
    "acquire": 46,
    "again": 4,
    "settle": 24,
    "switch": 16,
    "progress": 8,
    "report": 4,
    "expire": 2,
    "confirm": 14,
    "tick": 10,
    "order": 4,
    "adopt": 6,
    "loss": 0.15,
}


class Program:
    """A stream of operations that depends on nothing but its seed and what the specification says."""

    def __init__(self, seed: int, clock: Clock, reference: Buckets) -> None:
        self.random = Random(seed)
        self.clock = clock
        self.reference = reference
        self.asked: dict[str, tuple[Row, ...]] = {}
        self.waited: dict[str, tuple[Row, ...]] = {}
        """The rows that each waiter waits for."""
        self.decided: dict[str, tuple[Row, ...]] = {}
        """The rows that each lease's grant is about."""
        self.held: dict[str, Row] = {}
        """What each lease was granted last, as its worker knows it."""
        self.lost: list[Adopt] = []
        """What the workers are to put back at their next heartbeat."""

    def next(self) -> Operation:
        """Let some time pass and return what happens then."""
        step_ms = self.random.choice((0, 0, 1, 7, 40, 150, 150, 400, 400, 900, 2_500, -300))
        if self.random.random() < 0.006:
            step_ms = self.random.choice((30_000, 70_000, DAY_MS // 20))
        self.clock.now_ms += step_ms
        if self.random.random() < 0.002:
            _, ends_ms = bounds_ms(self.clock.now_ms, self.random.choice([*PERIODS.values()]))
            self.clock.now_ms = ends_ms - self.random.randint(0, 3_000)
        if self.lost:
            lost, self.lost = self.lost, []
            return lost
        return self._operation(self.random.choices([*WEIGHTS], [*WEIGHTS.values()])[0])

    def _operation(self, kind: str) -> Operation:
        match kind:
            case "confirm":
                turned = [lease.id for lease in self.reference.leases.values() if lease.turn is not None]
                return Confirm(self.random.choice(turned) if turned and self.random.random() < 0.9 else self.some_id())
            case "tick" | "expire":
                return Tick(self.waiters() if kind == "tick" else ())
            case "acquire" | "again":
                return self.asking(again=kind == "again")
            case "settle":
                capacity, certain = self.random.random() < 0.2, self.random.random() < 0.8
                return Settle(self.some_id(), capacity, self.figures(), b"closed", certain, self.ending(), self.lesson())
            case "switch":
                return Switch(self.switching(), self.ending(), self.rows(), TTL_MS, self.wait())
            case "order":
                return self.order()
            case _:
                return self._batch(kind)

    def _batch(self, kind: str) -> Operation:
        match kind:
            case "adopt":
                waiting = [lease.id for lease in self.reference.leases.values() if lease.waits]
                ids = self.random.choice([waiting, self.ended(), []]) or [self.some_id()]
                return [Adopt(self.random.choice(ids), row, TTL_MS, b"opened") for row in self.rows()] or Tick()
            case "loss":
                running = [lease.id for lease in self.reference.leases.values() if not lease.waits and lease.id in self.held]
                self.lost = [Adopt(lease_id, self.held[lease_id], TTL_MS, b"opened") for lease_id in running]
                return Loss()
            case "report":
                return [self.report() for _ in range(self.random.randint(1, 3))]
            case _:
                return [
                    Progress(self.some_id(), self.figures(self.random.randint(0, 1))) for _ in range(self.random.randint(1, 4))
                ]

    def asking(self, *, again: bool) -> Acquire:
        """Return a request, or one that was made before, in the same words."""
        lease_id = f"lease-{len(self.asked)}"
        known = self.some_id()
        # After a wait the answer may be about later rows, and nobody asks in the words of before.
        if again and self.decided.get(known) in (None, self.asked.get(known)):
            lease_id = known
        rows = self.asked.setdefault(lease_id, self.rows())
        return Acquire(lease_id, rows, TTL_MS, b"opened", self.wait())

    def switching(self) -> str:
        """Return the lease that takes other rows: now and then one that waits."""
        waiting = [lease.id for lease in self.reference.leases.values() if lease.waits]
        return self.random.choice(waiting) if waiting and self.random.random() < 0.25 else self.some_id()

    def figures(self, request: int = 1) -> Estimate:
        """Return what a request costs: mostly little, sometimes more than a whole bucket."""
        scale = self.random.choices((5, 20, 60, 2_400), (30, 40, 28, 2))[0]
        tokens_in, tokens_out = self.random.randint(0, scale), self.random.randint(0, scale)
        cost_nano_usd = self.random.choices((0, self.random.randint(1, 10**11), 10**13), (10, 89, 1))[0]
        tokens = tokens_in + tokens_out
        # What budgets hold of tokens is more than what limits a minute do, never less.
        most = tokens + (tokens_in % 3 == 0) * tokens_out
        return Estimate(request, tokens_in, tokens_out, tokens, cost_nano_usd=cost_nano_usd, budget_tokens=most)

    def lesson(self) -> Lesson | None:
        """Return what an end teaches, mostly of one org and model: something of its prompt, its answer, both or neither."""
        org, model = self.random.choices("abc", (8, 1, 1))[0], self.random.choices("mn", (8, 1))[0]
        ratio_ppm = self.random.choice((0, self.random.randint(150_000, 1_000_000)))
        output_tokens = self.random.choice((0, *(int(self.random.lognormvariate(6, 1.5)) for _ in range(4))))
        return Lesson(org, model, ratio_ppm, output_tokens) if self.random.random() < 0.8 else None

    def rows(self) -> tuple[Row, ...]:
        """Return up to three candidates of one key; the last may be told that nothing comes after it."""
        candidates = CANDIDATES[self.random.choice([*CANDIDATES])]
        picked = self.random.choices(candidates, k=self.random.choice((0, 1, 1, 1, 2, 3)))
        rows = [row_of(each, self.figures()) for each in picked]
        if rows and self.random.random() < 0.4:
            rows[-1] = replace(rows[-1], last=True)
        return tuple(rows)

    def wait(self) -> Wait | None:
        """Return how long a request would wait, if it would."""
        org, worker = self.random.choice("abc"), self.random.choice(("w1", "w2"))
        patience_ms, most = self.random.choice((2_000, 20_000, 90_000)), self.random.choice((3, 12, 12))
        return Wait(org, worker, patience_ms, most, max(1, most // 2)) if self.random.random() < 0.9 else None

    def ending(self) -> Ending:
        """Return how an attempt went: well, mostly."""
        sign = self.random.choices([*Sign], (10, 50, 6, 4, 4, 24, 2, 3, 3))[0]
        exhausted_ms = self.random.choice((300, 4_000)) if self.random.random() < 0.03 else 0
        return Ending(sign, self.random.choice((0, 0, 300, 5_000)), self.random.randint(0, 999), exhausted_ms)

    def report(self) -> Report:
        """Return word of an attempt that goes on."""
        return Report(self.some_id(), self.ending())

    def order(self) -> Order:
        """Return an operator's word, on what it changes; what is disabled is soon enabled again, or little would be served."""
        word, upstreams = self.random.choices([*Word], (1, 9, 4))[0], self.reference.upstreams
        asked = {(each.deployment, each.credential): each for each, *_ in chain.from_iterable(CANDIDATES.values())}
        cooled = {credential for credential, until_ms in upstreams.cooled_until_ms.items() if abs(until_ms) > self.clock.now_ms}
        fit = {
            Word.DISABLE: asked.values(),
            Word.ENABLE: [each for each in asked.values() if upstreams.conditions.get(each.deployment, Condition()).disabled],
            Word.RESET: [each for each in asked.values() if each.deployment in upstreams.conditions or each.credential in cooled],
        }
        picked = [*fit[word]] or [*asked.values()]
        most = 1 if word is Word.DISABLE else min(2, len(picked))
        return Order(word, tuple(self.random.sample(picked, self.random.randint(1, most))))

    def waiters(self) -> list[str]:
        """Return those that a worker would ask for: most of who waits, and one that may be gone."""
        waiting = [lease.id for lease in self.reference.leases.values() if lease.waits]
        return [*(each for each in waiting if self.random.random() < 0.9), self.some_id()]

    def some_id(self) -> str:
        """Return a live lease mostly, else one that ended or never was."""
        pools = (
            [[lease.id for lease in self.reference.leases.values() if not lease.waits]] * 6
            + [list(self.reference.leases)] * 2
            + [self.ended(), [f"never-{self.random.getrandbits(64)}"]]
        )
        return self.random.choice(self.random.choice([pool for pool in pools if pool]))

    def ended(self) -> list[str]:
        """Return those whose lives are over, as far as anybody remembers."""
        return [lease_id for lease_id, done in self.reference.done.items() if done.until_ms > self.clock.now_ms]

    def heard(self, operation: Operation, verdict: object) -> None:
        """Take note of what the specification said."""
        if isinstance(operation, Confirm) and isinstance(verdict, Granted) and operation in self.waited:
            self.decided[operation] = self.waited.pop(operation)
            self.held[operation] = self.decided[operation][verdict.row]
        if not isinstance(operation, Acquire | Switch) or isinstance(verdict, Unseeded):
            return
        if isinstance(operation, Switch):
            self.waited.pop(operation.id, None)
        lease = self.reference.leases.get(operation.id)
        if isinstance(verdict, Queued) and verdict.refusals:
            self.waited[operation.id] = operation.rows
        elif lease is not None and lease.decision is verdict:
            self.decided[operation.id] = operation.rows
        if isinstance(verdict, Granted):
            self.held[operation.id] = operation.rows[verdict.row]

    def rows_of(self, waiter: str) -> tuple[Row, ...]:
        """Return what a waiter's turn, or the grant that a lease has, is about."""
        return self.waited.get(waiter) or self.decided.get(waiter, ())


def row_of(candidate: Candidate, figures: Estimate) -> Row:
    """Return a candidate as it is asked for."""
    return Row(
        candidate.upstream, candidate.model, candidate.tier, candidate.charges, figures, candidate.model, candidate.precedence
    )


def specified(reference: Buckets, operation: Operation, now_ms: int) -> object:
    """Have the specification do an operation."""
    match operation:
        case Confirm():
            return reference.confirm(operation, now_ms)
        case Tick():
            return ticked(reference, operation, now_ms)
        case Acquire():
            return reference.acquire(operation, now_ms)
        case Switch():
            return reference.switch(operation, now_ms)
        case Settle():
            return reference.settle(operation, now_ms)
        case Order():
            reference.upstreams.obey(operation)
            return ()
        case Loss():
            lose(reference)
            return None
        case _:
            return specified_batch(reference, operation, now_ms)


def specified_batch(reference: Buckets, batch: Batch, now_ms: int) -> object:
    """Have the specification do what concerns several leases."""
    reference.report([each for each in batch if isinstance(each, Report)], now_ms)
    adopted = reference.adopt([each for each in batch if isinstance(each, Adopt)], now_ms)
    return adopted + reference.progress([each for each in batch if isinstance(each, Progress)], now_ms)


def lose(reference: Buckets) -> None:
    """Have the specification know nothing any more."""
    upstreams = reference.upstreams
    for known in (reference.leases, reference.done, reference.buckets, reference.pools):
        known.clear()
    reference._holds.seeded.clear()
    reference.learning.ratios.clear()
    reference.learning.lengths.clear()
    upstreams.conditions.clear()
    upstreams.cooled_until_ms.clear()


def ticked(reference: Buckets, tick: Tick, now_ms: int) -> object:
    """Have the specification do a tick; one that asks for nobody forgets the ended leases whose time is over."""
    if not tick:
        reference._ends.forget(now_ms)
    return reference.tick(tick, now_ms)


async def done(admission: Admission, operation: Operation, rows: tuple[Row, ...]) -> object:
    """Have the scripts do an operation; `rows` are those of a turn that is taken."""
    match operation:
        case Confirm():
            return await admission.confirm(operation, rows)
        case Tick():
            return await admission.tick("w1", operation)
        case Acquire():
            return await admission.acquire(operation)
        case Switch():
            return await admission.switch(operation)
        case Settle():
            return await admission.settle(operation)
        case Order():
            await admission.order(operation)
            return ()
        case Loss():
            return None
        case _:
            return await done_batch(admission, operation)


async def done_batch(admission: Admission, batch: Batch) -> object:
    """Have the scripts do what concerns several leases."""
    await admission.report([each for each in batch if isinstance(each, Report)])
    adopted = await admission.adopt([each for each in batch if isinstance(each, Adopt)])
    return adopted + await admission.progress([each for each in batch if isinstance(each, Progress)])
