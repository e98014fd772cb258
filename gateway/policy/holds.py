"""What leases hold and post in buckets: the arithmetic under `gateway.policy.leases`, which decides when.

Unix milliseconds. Pure.
"""

from collections.abc import Callable, Sequence
from copy import copy

from msgspec.structs import replace

from gateway.policy.admission import Row, Seed, Settle
from gateway.policy.answers import Cause, Level, Levels, Unseeded
from gateway.policy.charges import Charge, Estimate, Kind, Unit
from gateway.policy.claims import Claim, Lease, Place, Violation, place_of
from gateway.policy.limits import Bucket
from gateway.policy.periods import bounds_ms


class Holds:
    """The buckets of one store."""

    def __init__(self) -> None:
        self.buckets: dict[Place, Bucket] = {}
        self.seeded: set[Place] = set()
        """Budgets of which it is known what was spent. Of others there is at most what adopted leases hold."""

    def violations(self, lease: Lease, row: Row, room: Callable[[Charge], int], now_ms: int) -> list[Violation]:
        """Return the charges without room for what the lease has not taken yet; taking nothing always fits.

        `room` is how much of a charge may be taken: its capacity, or less for the time being.
        """
        found = []
        for written in row.charges:
            claim = lease.claim(written)
            cost = 0 if written.kind is Kind.USE else row.estimate.of(written.unit) - claim.held - claim.posted
            bucket = self._look(written, now_ms)
            charge = bucket.in_force(written)
            capacity = room(charge)
            bounded = charge if capacity == charge.capacity else replace(charge, capacity=capacity)
            if cost > 0 and not written.shadow and bucket.excess(bounded, cost) > 0:
                cause = Cause.TOO_LARGE if cost > charge.capacity else Cause.LIMIT
                found.append(Violation(written, bucket.wait_ms(bounded, cost, now_ms), cause))
        return found

    def held(self, charge: Charge) -> int:
        """Return how much of a charge's bucket live leases hold."""
        return self.buckets.get(place_of(charge), Bucket()).held

    def take(self, lease: Lease, charges: Sequence[Charge], estimate: Estimate, now_ms: int) -> None:
        """Hold for each charge what was not posted yet, and let go of what is not among them."""
        for charge in charges:
            claim = lease.claim(charge)
            hold = 0 if charge.kind is Kind.USE else max(0, estimate.of(charge.unit) - claim.posted)
            self.buckets.setdefault(place_of(charge), Bucket())
            self._touch(charge, now_ms).held += hold - claim.held
            claim.charge, claim.held = charge, hold
            for known in (lease.past, lease.claims):
                known.pop(place_of(charge), None)
            lease.claims[place_of(charge)] = claim
        self.keep(lease, {place_of(charge) for charge in charges}, now_ms)

    def keep(self, lease: Lease, kept: set[Place], now_ms: int) -> None:
        """Let go of what a lease holds elsewhere."""
        for place in lease.claims.keys() - kept:
            claim = lease.claims.pop(place)
            self._release(claim, now_ms)
            if claim.posted:
                lease.past[place] = claim

    def unseeded(self, rows: Sequence[Row]) -> tuple[Charge, ...]:
        """Return the budgets of a request of which nothing is known."""
        return tuple(charge for row in rows[:1] for charge in row.charges if self._is_unseeded(charge))

    def seed(self, seed: Seed) -> None:
        """Take what was spent of a budget; one that was heard of meanwhile is raised to it, never lowered."""
        charge, place = seed.charge, place_of(seed.charge)
        if self._is_unseeded(charge):
            bucket = self.buckets.setdefault(place, Bucket())
            bucket.debt, bucket.at_ms = seed.spent, seed.at_ms
            self.seeded.add(place)
        elif (bucket := self.buckets[place]).at_ms < bounds_ms(seed.at_ms, charge.period_ms)[1]:
            bucket.fold(charge, seed.at_ms)
            bucket.debt = max(bucket.debt, seed.spent)

    def forget(self, place: Place) -> None:
        """Know no more of a bucket: its key has expired, or was lost."""
        self.buckets.pop(place, None)
        self.seeded.discard(place)

    def post_requests(self, lease: Lease, now_ms: int) -> None:
        """Post the request itself."""
        for claim in lease.claims.values():
            if claim.charge.unit is Unit.REQUEST:
                self._post(claim, 1 if claim.charge.kind is Kind.USE else claim.held + claim.posted, now_ms)

    def post_used(self, lease: Lease, used: Estimate, now_ms: int) -> None:
        """Post tokens as reported, and the request itself, which is one however often it is reported."""
        if used.request:
            self.post_requests(lease, now_ms)
        for claim in lease.claims.values():
            if claim.charge.unit in (Unit.INPUT, Unit.OUTPUT, Unit.TOTAL):
                self._post(claim, used.of(claim.charge.unit), now_ms)

    def post_spent(self, lease: Lease, used: Estimate, now_ms: int) -> None:
        """Post what the request takes of budgets: once it has ended, for that tells in whose period it is spent."""
        for claim in lease.claims.values():
            if claim.charge.is_budget:
                self._post(claim, used.of(claim.charge.unit), now_ms)

    def post_end(self, lease: Lease, end: Settle, now_ms: int) -> tuple[int, ...]:
        """Post all that a settlement says was used. Return what is spent of the lease's budgets then."""
        if end.capacity:
            return ()
        self.post_requests(lease, now_ms)
        self.post_used(lease, end.actual, now_ms)
        self.post_spent(lease, end.actual, now_ms)
        spent = (claim.charge for claim in lease.claims.values() if claim.charge.is_budget)
        return tuple(self._look(charge, now_ms).debt for charge in spent)

    def _post(self, claim: Claim, total: int, now_ms: int) -> None:
        """Bring what the claim has posted up to `total`: out of its hold, and beyond it in full."""
        units = total - claim.posted
        if units <= 0:
            return
        bucket = self._touch(claim.charge, now_ms)
        taken = min(units, claim.held)
        if not self._is_unseeded(claim.charge):  # the ledger has what is posted there
            bucket.post(claim.charge, units)
        bucket.held -= taken
        claim.held -= taken
        claim.posted = total

    def release(self, lease: Lease, now_ms: int) -> None:
        """Let go of all that a lease holds; what it posted stays."""
        for claim in lease.claims.values():
            self._release(claim, now_ms)

    def _release(self, claim: Claim, now_ms: int) -> None:
        self._touch(claim.charge, now_ms).held -= claim.held
        claim.held = 0

    def levels(self, row: Row, now_ms: int) -> tuple[Level, ...]:
        """Return the buckets of a row as they are now."""
        return self._levels(row.charges, now_ms)

    def look(self, charges: Sequence[Charge], now_ms: int) -> Levels | Unseeded:
        """Return buckets as they are now, unless they are budgets of which nothing is known; nothing is touched."""
        unknown = tuple(charge for charge in charges if self._is_unseeded(charge))
        return Unseeded(now_ms, unknown) if unknown else Levels(now_ms, self._levels(charges, now_ms))

    def _levels(self, charges: Sequence[Charge], now_ms: int) -> tuple[Level, ...]:
        found = []
        for written in charges:
            bucket = self._look(written, now_ms)
            charge, growth = bucket.in_force(written), bucket.growth(written, now_ms)
            found.append(Level(charge, bucket.level(charge), bucket.held, bucket.reset_ms(charge, now_ms), growth))
        return tuple(found)

    def _look(self, charge: Charge, now_ms: int) -> Bucket:
        """Return a bucket as it would be now, without touching it."""
        bucket = copy(self.buckets.get(place_of(charge), Bucket()))
        bucket.fold(charge, now_ms)
        return bucket

    def _is_unseeded(self, charge: Charge) -> bool:
        return charge.is_budget and place_of(charge) not in self.seeded

    def _touch(self, charge: Charge, now_ms: int) -> Bucket:
        if charge.is_budget and place_of(charge) not in self.buckets:
            return Bucket()  # it must not pass for one of which little was spent
        bucket = self.buckets.setdefault(place_of(charge), Bucket())
        bucket.fold(charge, now_ms)
        return bucket
