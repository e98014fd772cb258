"""The life of leases over buckets, in plain Python: what the admission scripts do, said once so that it can be read and tested.

Rows are tested in order at one instant and the first that fits takes all its holds; a refusal writes nothing. A lease ends once:
by `settle`, or by expiry when nobody renewed it. Requests post when there is content or an end that is not one of capacity,
tokens as they are reported. What a lease has taken or posted in a bucket is never tested or taken again. Unix milliseconds. Pure.
"""

from collections.abc import Callable, Sequence
from copy import copy
from heapq import nsmallest

import msgspec

from gateway.policy.admission import (
    Acquire,
    Charge,
    Dimension,
    Estimate,
    Granted,
    Level,
    Posted,
    Progress,
    Reach,
    Refusal,
    Refused,
    Row,
    Settle,
    Spent,
    Switch,
    Unit,
    Verdict,
)
from gateway.policy.limits import EXACT, Bucket, weight

REAPED_AT_ONCE = 8
"""How many lapsed leases one call ends: enough to keep up, too few to be felt."""

LATE_MS = 3_600_000
"""How long an expired lease waits for its settlement: an hour covers any stream's longest life."""

Place = tuple[str, Dimension]
"""Where a bucket is: its scope and what it counts."""


class Claim(msgspec.Struct):
    """What one lease has in one bucket: still held, and posted already."""

    charge: Charge
    held: int = 0
    posted: int = 0


class Lease(msgspec.Struct):
    """A request that was granted. `past` are buckets of earlier attempts in which it posted something."""

    id: str
    ttl_ms: int
    expires_ms: int
    decision: Granted | None = None
    claims: dict[Place, Claim] = {}
    past: dict[Place, Claim] = {}

    def claim(self, charge: Charge) -> Claim:
        """Return what the lease has in a charge's bucket by now."""
        place = place_of(charge)
        return self.claims.get(place) or self.past.get(place) or Claim(charge)


class Done(msgspec.Struct):
    """What stays of an end until `until_ms`: what expiry posted (None: it was a settlement), and whether there was a lease."""

    until_ms: int
    ttl_ms: int = 0
    claims: dict[Place, Claim] | None = None
    opened: bool = True


class Violation(msgspec.Struct, frozen=True):
    """A charge without room: when there would be (None: nobody can tell) and whether there never will."""

    charge: Charge
    wait_ms: int | None
    never: bool


class Event(msgspec.Struct, frozen=True):
    """One line for the ledger: `open`, `close` or `abandoned`."""

    kind: str
    id: str


class Buckets:
    """All buckets and leases of one store. `note` hears what the ledger would."""

    def __init__(self, note: Callable[[Event], None]) -> None:
        self.buckets: dict[Place, Bucket] = {}
        self.leases: dict[str, Lease] = {}
        self.done: dict[str, Done] = {}
        self._note = note

    def acquire(self, request: Acquire, now_ms: int) -> Verdict:
        """Take the first row that fits. Asked again for a live lease, say the same; for an ended one, say so."""
        self._reap(now_ms)
        live = self.leases.get(request.id)
        if live is not None and live.decision is not None:
            return live.decision
        if self._ended(request.id, now_ms) is not None:
            return Spent(now_ms)
        lease = Lease(request.id, request.ttl_ms, now_ms + request.ttl_ms)
        verdict = self._choose(lease, request.rows, now_ms)
        if isinstance(verdict, Granted):
            lease.decision = verdict
            self.leases[lease.id] = lease
            self._note(Event("open", lease.id))
        return verdict

    def switch(self, request: Switch, now_ms: int) -> Verdict:
        """End the lease's attempt and take the first row that fits; without one, keep what the whole request holds."""
        self._reap(now_ms)
        lease = self.leases.get(request.id)
        if lease is None:
            return Spent(now_ms)
        lease.ttl_ms, lease.expires_ms = request.ttl_ms, now_ms + request.ttl_ms
        if not request.capacity:
            self._post_requests(lease, now_ms)
        verdict = self._choose(lease, request.rows, now_ms)
        if isinstance(verdict, Refused):
            self._keep(lease, {place for place, claim in lease.claims.items() if claim.charge.reach is Reach.REQUEST}, now_ms)
        return verdict

    def settle(self, request: Settle, now_ms: int) -> Posted:
        """End a lease and post what was used; after an expiry only the difference, after a settlement nothing."""
        lease = self.leases.pop(request.id, None)
        if lease is None:
            return self._settle_late(request, now_ms)
        if not request.capacity:
            self._post_requests(lease, now_ms)
            self._post_used(lease, request.actual, now_ms)
        for claim in lease.claims.values():
            self._release(claim, now_ms)
        self._close(request.id, 2 * lease.ttl_ms, now_ms)
        return Posted(now_ms, opened=True)

    def progress(self, reports: Sequence[Progress], now_ms: int) -> tuple[str, ...]:
        """Renew leases and post what they have used. Return the ids of those that live no more."""
        lost = []
        for report in reports:
            lease = self.leases.get(report.id)
            if lease is None:
                lost.append(report.id)
                continue
            self._post_used(lease, report.so_far, now_ms)
            lease.expires_ms = now_ms + lease.ttl_ms
        return tuple(lost)

    def expire(self, now_ms: int) -> int:
        """End leases that lapsed, and forget ended ones whose time is over. Return how many lapsed."""
        self.done = {lease_id: done for lease_id, done in self.done.items() if done.until_ms > now_ms}
        return self._reap(now_ms)

    def _choose(self, lease: Lease, rows: Sequence[Row], now_ms: int) -> Granted | Refused:
        refusals: list[Refusal] = []
        levels: tuple[Level, ...] = ()
        for index, row in enumerate(rows):
            violations = self._violations(lease, row, now_ms)
            if not violations:
                self._commit(lease, row, now_ms)
                return Granted(index, now_ms, self._levels(row, now_ms), tuple(refusals))
            levels = self._levels(row, now_ms)
            refusals.append(refusal(index, violations))
            if any(violation.charge.ends_walk for violation in violations):
                break
        return Refused(now_ms, tuple(refusals), levels)

    def _violations(self, lease: Lease, row: Row, now_ms: int) -> list[Violation]:
        """Return the charges without room for what the lease has not taken yet; taking nothing always fits."""
        found = []
        for charge in row.charges:
            claim = lease.claim(charge)
            cost = row.estimate.of(charge.unit) - claim.held - claim.posted
            bucket = self._look(charge, now_ms)
            if cost > 0 and bucket.excess(charge, cost) > 0:
                found.append(Violation(charge, bucket.wait_ms(charge, cost, now_ms), cost > charge.capacity))
        return found

    def _commit(self, lease: Lease, row: Row, now_ms: int) -> None:
        """Hold for each charge of the row what was not posted yet, and let go of what the row does not charge."""
        for charge in row.charges:
            claim = lease.claim(charge)
            hold = max(0, row.estimate.of(charge.unit) - claim.posted)
            self._touch(charge, now_ms).held += hold - claim.held
            claim.charge, claim.held = charge, hold
            lease.past.pop(place_of(charge), None)
            lease.claims[place_of(charge)] = claim
        self._keep(lease, {place_of(charge) for charge in row.charges}, now_ms)

    def _keep(self, lease: Lease, kept: set[Place], now_ms: int) -> None:
        for place in lease.claims.keys() - kept:
            claim = lease.claims.pop(place)
            self._release(claim, now_ms)
            if claim.posted:
                lease.past[place] = claim

    def _post_requests(self, lease: Lease, now_ms: int) -> None:
        for claim in lease.claims.values():
            if claim.charge.unit is Unit.REQUEST:
                self._post(claim, claim.held + claim.posted, now_ms)

    def _post_used(self, lease: Lease, used: Estimate, now_ms: int) -> None:
        """Post tokens as reported, and the request itself, which is one however often it is reported."""
        if used.request:
            self._post_requests(lease, now_ms)
        for claim in lease.claims.values():
            if claim.charge.unit not in (Unit.REQUEST, Unit.SLOT):
                self._post(claim, used.of(claim.charge.unit), now_ms)

    def _post(self, claim: Claim, total: int, now_ms: int) -> None:
        """Bring what the claim has posted up to `total`: out of its hold, and beyond it in full."""
        units = total - claim.posted
        if units <= 0:
            return
        bucket = self._touch(claim.charge, now_ms)
        taken = min(units, claim.held)
        bucket.debt = min(EXACT - 1, bucket.debt + units * weight(claim.charge))
        bucket.held -= taken
        claim.held -= taken
        claim.posted = total

    def _release(self, claim: Claim, now_ms: int) -> None:
        self._touch(claim.charge, now_ms).held -= claim.held
        claim.held = 0

    def _settle_late(self, request: Settle, now_ms: int) -> Posted:
        done = self._ended(request.id, now_ms)
        if done is not None and done.claims is None:
            return Posted(now_ms, done.opened)
        if done is not None and done.claims and not request.capacity:
            lease = Lease(request.id, done.ttl_ms, now_ms, claims=done.claims)
            self._post_used(lease, request.actual, now_ms)
        opened = done is not None or request.certain
        if opened:
            self._close(request.id, LATE_MS if done is None else 2 * done.ttl_ms, now_ms)
        else:
            self.done[request.id] = Done(now_ms + LATE_MS, opened=False)
        return Posted(now_ms, opened)

    def _close(self, lease_id: str, keep_ms: int, now_ms: int) -> None:
        self.done[lease_id] = Done(now_ms + keep_ms)
        self._note(Event("close", lease_id))

    def _reap(self, now_ms: int) -> int:
        lapsed = [lease for lease in self.leases.values() if lease.expires_ms <= now_ms]
        reaped = nsmallest(REAPED_AT_ONCE, lapsed, key=lambda lease: (lease.expires_ms, lease.id))
        for lease in reaped:
            self._post_requests(lease, now_ms)
            for claim in lease.claims.values():
                self._release(claim, now_ms)
            del self.leases[lease.id]
            self.done[lease.id] = Done(now_ms + LATE_MS, lease.ttl_ms, lease.claims)
            self._note(Event("abandoned", lease.id))
        return len(reaped)

    def _ended(self, lease_id: str, now_ms: int) -> Done | None:
        done = self.done.get(lease_id)
        return done if done is not None and done.until_ms > now_ms else None

    def _levels(self, row: Row, now_ms: int) -> tuple[Level, ...]:
        found = []
        for charge in row.charges:
            bucket = self._look(charge, now_ms)
            found.append(Level(charge, bucket.level(charge), bucket.held, bucket.reset_ms(charge, now_ms)))
        return tuple(found)

    def _look(self, charge: Charge, now_ms: int) -> Bucket:
        """Return a bucket as it would be now, without touching it."""
        bucket = copy(self.buckets.get(place_of(charge), Bucket()))
        bucket.fold(charge, now_ms)
        return bucket

    def _touch(self, charge: Charge, now_ms: int) -> Bucket:
        bucket = self.buckets.setdefault(place_of(charge), Bucket())
        bucket.fold(charge, now_ms)
        return bucket


def place_of(charge: Charge) -> Place:
    """Return where a charge's bucket is."""
    return charge.scope, charge.dimension


def refusal(row: int, violations: Sequence[Violation]) -> Refusal:
    """Return why a row did not fit.

    It names the first violated charge: of those that end the walk if any does, and before others one that can never be met.
    """
    named = min(violations, key=lambda violation: (not violation.charge.ends_walk, not violation.never))
    waits = [violation.wait_ms for violation in violations]
    known = [wait_ms for wait_ms in waits if wait_ms is not None]
    return Refusal(row, named.charge, max(known) if len(known) == len(waits) else None, named.never)
