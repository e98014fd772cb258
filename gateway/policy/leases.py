"""The life of leases over buckets, in plain Python: what the admission scripts do, said once so that it can be read and tested.

Rows are tested in order at one instant and the first that fits takes all its holds; a refusal writes nothing. Where none fits a
request may wait: it holds what it takes of its caller, and whoever makes room gives it to whose turn it is. A lease ends once: by
`settle`, or by expiry. Requests post when there is content or an end that is not one of capacity, tokens as they are reported,
money at the end. What a lease has taken or posted in a bucket is never tested or taken again. Unix milliseconds. Pure.
"""

from collections.abc import Callable, Sequence
from heapq import nsmallest

from gateway.policy.admission import NO_ENDING, Acquire, Adopt, Progress, Report, Seed, Settle, Switch
from gateway.policy.answers import Granted, Posted, Queued, Refused, Spent, Turn, Unseeded, Verdict
from gateway.policy.breaker import USUAL_BREAKER, Breaker
from gateway.policy.charges import Reach
from gateway.policy.claims import Done, Event, Lease, told_to_come_back
from gateway.policy.learning import Learning
from gateway.policy.lifetimes import CONFIRM_MS, LATE_MS, REAPED_AT_ONCE, TURNS_AT_ONCE, WAITER_TTL_MS, Ends
from gateway.policy.queue import Pool, Waiter
from gateway.policy.room import Room


class Buckets:
    """All buckets, leases and queues of one store. `note` hears what the ledger would, `wake` whose turn has come."""

    def __init__(
        self, note: Callable[[Event], None], wake: Callable[[Waiter], None] = lambda _: None, breaker: Breaker = USUAL_BREAKER
    ) -> None:
        self._room = Room(breaker, self._dispatch)
        self._holds = self._room.holds
        self.buckets = self._holds.buckets
        self.upstreams = self._room.upstreams
        self.pools = self._room.pools
        self.leases: dict[str, Lease] = {}
        self._ends = Ends(note)
        self.done = self._ends.done
        self.learning = Learning()
        self._note, self._wake = note, wake

    def acquire(self, request: Acquire, now_ms: int) -> Verdict:
        """Take the first row that fits, or wait. Asked again for a live lease, say the same; for an ended one, say so."""
        self._reap(now_ms)
        live = self.leases.get(request.id)
        if live is not None:
            return self._said(live, now_ms)
        if self._ends.of(request.id, now_ms) is not None:
            return Spent(now_ms)
        if unknown := self._holds.unseeded(request.rows):
            return Unseeded(now_ms, unknown)
        lease = Lease(request.id, request.ttl_ms, now_ms + request.ttl_ms)
        verdict = self._serve(lease, request, now_ms)
        if isinstance(verdict, Granted):
            self._open(lease, verdict)
        return verdict

    def switch(self, request: Switch, now_ms: int) -> Verdict:
        """End the lease's attempt or its wait and take the first row that fits, or wait.

        Where none fits, keep what the whole request holds; a lease that has only waited is over.
        """
        self._reap(now_ms)
        lease = self.leases.get(request.id)
        if lease is None:
            return Spent(now_ms)
        if unknown := self._holds.unseeded(request.rows):
            return Unseeded(now_ms, unknown)
        if not lease.waits and not request.ending.sign.is_capacity:
            self._holds.post_requests(lease, now_ms)
        self._leave(lease)
        left, lease.pool, lease.turn = lease.pool, "", None
        lease.ttl_ms, lease.expires_ms = request.ttl_ms, now_ms + request.ttl_ms
        self._room.end_attempt(lease, request.ending, now_ms)
        verdict = self._serve(lease, request, now_ms)
        if isinstance(verdict, Granted) and not lease.opened:
            self._open(lease, verdict)
        elif isinstance(verdict, Refused):
            self._stay(lease, now_ms)
        self._dispatch(left, now_ms)
        return verdict

    def seed(self, seeds: Sequence[Seed]) -> None:
        """Take what was spent of budgets of which nothing is known."""
        for each in seeds:
            self._holds.seed(each)

    def confirm(self, lease_id: str, now_ms: int) -> Verdict:
        """Take the turn that has come. Unless it has, the answer is that of a waiter, or of an ended lease."""
        lease = self.leases.get(lease_id)
        if lease is None:
            return Spent(now_ms)
        if lease.turn is not None:
            (index, row), lease.turn = lease.turn, None
            lease.expires_ms = now_ms + lease.ttl_ms
            watched = self.upstreams.is_watched(row.upstream)
            self._open(lease, Granted(index, now_ms, self._holds.levels(row, now_ms), watched=watched))
        return self._said(lease, now_ms)

    def tick(self, waiters: Sequence[str], now_ms: int) -> tuple[Turn, ...]:
        """Keep a worker's waiters alive, give the turns that time has brought, and say whose have come."""
        self._reap(now_ms)
        leases = [self.leases.get(waiter_id) for waiter_id in waiters]
        for lease in leases:
            if lease is not None and lease.waiter is not None:
                lease.expires_ms = now_ms + WAITER_TTL_MS
        for pool in dict.fromkeys(lease.waiter.pool for lease in leases if lease is not None and lease.waiter is not None):
            self._dispatch(pool, now_ms)
        return tuple(self._turn(self.leases.get(waiter_id)) for waiter_id in waiters)

    def settle(self, request: Settle, now_ms: int) -> Posted:
        """End a lease and post what was used; after an expiry only the difference, after a settlement nothing."""
        lease = self.leases.pop(request.id, None)
        if lease is None:
            return self._settle_late(request, now_ms)
        if lease.waits and not lease.opened:
            self._withdraw(lease, now_ms, row=request.certain)
            return Posted(now_ms, opened=request.certain)
        self._leave(lease)
        budgets = self._holds.post_end(lease, request, now_ms)
        self._room.end_attempt(lease, request.ending, now_ms)
        self._holds.release(lease, now_ms)
        self._ends.close(request.id, 2 * lease.ttl_ms, now_ms)
        self._dispatch(lease.pool, now_ms)
        return Posted(now_ms, opened=True, budgets=budgets, learned=self.learning.hear(request.lesson, now_ms))

    def progress(self, reports: Sequence[Progress], now_ms: int) -> tuple[str, ...]:
        """Renew leases and post what they have used. Return the ids of those that live no more, or wait for all that is known."""
        lost = []
        for report in reports:
            lease = self.leases.get(report.id)
            if lease is None or lease.waits:
                lost.append(report.id)
            else:
                self._holds.post_used(lease, report.so_far, now_ms)
                lease.so_far = report.so_far
                lease.expires_ms = now_ms + lease.ttl_ms
        return tuple(lost)

    def adopt(self, requests: Sequence[Adopt], now_ms: int) -> tuple[str, ...]:
        """Put lost leases back, without a test; one that still waits is served. Return the ids of those whose lives are over."""
        over = []
        for request in requests:
            lease, done = self.leases.get(request.id), self._ends.of(request.id, now_ms)
            if done is not None and done.opened:
                over.append(request.id)
            elif lease is None or lease.waits:
                self._adopt(lease or Lease(request.id, request.ttl_ms, now_ms), request, now_ms)
        return tuple(over)

    def _adopt(self, lease: Lease, request: Adopt, now_ms: int) -> None:
        self._leave(lease)
        left, row, lease.turn, lease.decision = lease.pool, request.row, None, None
        self._holds.take(lease, row.charges, row.estimate, now_ms)
        lease.row, lease.pool, lease.opened = row, row.pool, True
        lease.ttl_ms, lease.expires_ms = request.ttl_ms, now_ms + request.ttl_ms
        self.leases[lease.id] = lease
        # The stream that knew of it may be lost as well.
        self._note(Event("open", lease.id))
        self._dispatch(left, now_ms)

    def report(self, reports: Sequence[Report], now_ms: int) -> None:
        """Note how upstreams do while their attempts go on; what that makes room for is given at once."""
        for report in reports:
            lease = self.leases.get(report.id)
            if lease is not None and lease.row is not None:
                self._room.tell(lease, report.ending, now_ms)
                self._dispatch(lease.pool, now_ms)

    def expire(self, now_ms: int) -> int:
        """End leases that lapsed, and forget ended ones whose time is over. Return how many lapsed."""
        self._ends.forget(now_ms)
        return self._reap(now_ms)

    def _serve(self, lease: Lease, request: Acquire | Switch, now_ms: int) -> Granted | Refused | Queued:
        """Find a row for the request now, or let it wait for one."""
        patience_ms = 0 if request.wait is None else request.wait.patience_ms
        verdict, rows = self._room.choose(lease, request.rows, patience_ms, now_ms)
        if isinstance(verdict, Granted) or request.wait is None or not rows:
            return verdict
        _, row = rows[0]
        pool, waiter = (
            self.pools.setdefault(row.pool, Pool()),
            Waiter(request.id, row.pool, row.precedence, request.wait, rows),
        )
        if not pool.is_open_to(waiter):
            return told_to_come_back(verdict, pool.expected_ms(row.precedence))
        self._holds.take(lease, tuple(charge for charge in row.charges if charge.tenant), row.estimate, now_ms)
        lease.waiter, lease.expires_ms = waiter, now_ms + WAITER_TTL_MS
        self.leases[lease.id] = lease
        ahead = pool.ahead_of(row.precedence)
        pool.join(waiter, first=isinstance(request, Switch))
        self._dispatch(row.pool, now_ms)
        if lease.turn is None:
            return Queued(now_ms, ahead, verdict.refusals, verdict.levels)
        (index, row), lease.turn = lease.turn, None
        lease.expires_ms = now_ms + lease.ttl_ms
        watched = self.upstreams.is_watched(row.upstream)
        return Granted(index, now_ms, self._holds.levels(row, now_ms), verdict.refusals, watched=watched)

    def _dispatch(self, name: str, now_ms: int) -> None:
        """Give turns in a pool while there is room for whose turn it is."""
        pool = self.pools.get(name)
        for _ in range(TURNS_AT_ONCE):
            waiter_id = None if pool is None else pool.next()
            if pool is None or waiter_id is None:
                return
            lease = self.leases[waiter_id]
            if lease.expires_ms <= now_ms or lease.waiter is None:
                self._lapse(lease, now_ms)
                continue
            fitting = (turn for turn in lease.waiter.rows if not self._room.violations(lease, turn[1], now_ms))
            turn = next(fitting, None)
            if turn is None:
                return
            waiter, lease.waiter, lease.turn = lease.waiter, None, turn
            lease.expires_ms = now_ms + CONFIRM_MS
            self._room.take(lease, turn[1], now_ms)
            pool.serve(waiter, now_ms)
            self._wake(waiter)

    def _said(self, lease: Lease, now_ms: int) -> Granted | Queued:
        return Queued(now_ms, 0, (), ()) if lease.waits or lease.decision is None else lease.decision

    def _turn(self, lease: Lease | None) -> Turn:
        return Turn.GONE if lease is None else Turn.COME if lease.waiter is None else Turn.WAITING

    def _open(self, lease: Lease, decision: Granted) -> None:
        lease.decision = decision
        self.leases[lease.id] = lease
        if not lease.opened:
            lease.opened = True
            self._note(Event("open", lease.id))

    def _stay(self, lease: Lease, now_ms: int) -> None:
        """Leave a lease without a row what its whole request holds, if it ever had one."""
        if lease.opened:
            whole = {place for place, claim in lease.claims.items() if claim.charge.reach is Reach.REQUEST}
            self._holds.keep(lease, whole, now_ms)
        else:
            del self.leases[lease.id]
            self._withdraw(lease, now_ms, row=False)

    def _leave(self, lease: Lease) -> None:
        """Take a lease out of its queue, where it is in one."""
        if lease.waiter is not None:
            lease.pool = lease.waiter.pool
            self.pools[lease.pool].leave(lease.waiter)
            lease.waiter = None

    def _withdraw(self, lease: Lease, now_ms: int, *, row: bool) -> None:
        """End a lease that was never granted for all that its request knows."""
        self._leave(lease)
        self._room.end_attempt(lease, NO_ENDING, now_ms)
        self._holds.release(lease, now_ms)
        if row:
            self._ends.close(lease.id, 2 * lease.ttl_ms, now_ms)
        else:
            self._ends.forestall(lease.id, now_ms)
        self._dispatch(lease.pool, now_ms)

    def _settle_late(self, request: Settle, now_ms: int) -> Posted:
        done = self._ends.of(request.id, now_ms)
        expired = done if done is not None and done.claims is not None else None
        if done is not None and expired is None and (done.opened or not request.certain):
            return Posted(now_ms, done.opened)
        budgets: tuple[int, ...] = ()
        if expired is not None:
            lease = Lease(request.id, expired.ttl_ms, now_ms, claims=expired.claims or {})
            budgets = self._holds.post_end(lease, request, now_ms)
        opened = expired is not None or request.certain
        if opened:
            self._ends.close(request.id, LATE_MS if expired is None else 2 * expired.ttl_ms, now_ms)
        else:
            self._ends.forestall(request.id, now_ms)
        return Posted(now_ms, opened, budgets, self.learning.hear(request.lesson, now_ms))

    def _reap(self, now_ms: int) -> int:
        lapsed = [lease for lease in self.leases.values() if lease.expires_ms <= now_ms]
        reaped = nsmallest(REAPED_AT_ONCE, lapsed, key=lambda lease: (lease.expires_ms, lease.id))
        for lease in reaped:
            if lease.id in self.leases:
                self._lapse(lease, now_ms)
        return len(reaped)

    def _lapse(self, lease: Lease, now_ms: int) -> None:
        """End a lease that nobody renewed; one that only waited leaves nothing behind."""
        del self.leases[lease.id]
        if lease.waits and not lease.opened:
            self._withdraw(lease, now_ms, row=False)
            return
        self._leave(lease)
        self._holds.post_requests(lease, now_ms)
        self._holds.post_spent(lease, lease.so_far, now_ms)
        self._room.end_attempt(lease, NO_ENDING, now_ms)
        self._holds.release(lease, now_ms)
        self.done[lease.id] = Done(now_ms + LATE_MS, lease.ttl_ms, lease.claims)
        self._note(Event("abandoned", lease.id))
        self._dispatch(lease.pool, now_ms)
