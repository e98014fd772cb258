"""Whether there is room for a row now, and the taking of it: buckets, upstreams and who waits, put together.

Unix milliseconds. Pure.
"""

from collections.abc import Callable, Sequence

from gateway.policy.admission import Ending, Precedence, Row
from gateway.policy.answers import Granted, Level, Refusal, Refused
from gateway.policy.breaker import Breaker
from gateway.policy.claims import Lease, Violation, ceiling_of, may_wait, refusal
from gateway.policy.holds import Holds
from gateway.policy.queue import Pool
from gateway.policy.upstreams import Upstreams


class Room:
    """The buckets, upstreams and queues of one store. `dispatch` gives a pool's waiters the turns that there is room for."""

    def __init__(self, breaker: Breaker, dispatch: Callable[[str, int], None]) -> None:
        self._dispatch = dispatch
        self.holds = Holds()
        self.upstreams = Upstreams(breaker)
        self.pools: dict[str, Pool] = {}

    def violations(self, lease: Lease, row: Row, now_ms: int) -> list[Violation]:
        """Return why the row does not fit: limits without room, and what keeps its upstream from being asked."""
        found = self.holds.violations(lease, row, lambda charge: self.upstreams.slots(row, charge), now_ms)
        bar = self.upstreams.bar(row, now_ms)
        return found if bar is None else [*found, Violation(ceiling_of(row), bar.wait_ms, bar.cause)]

    def take(self, lease: Lease, row: Row, now_ms: int) -> None:
        """Give the row to the lease."""
        self.holds.take(lease, row.charges, row.estimate, now_ms)
        self.upstreams.ask(row.upstream, lease.id, now_ms)
        lease.row, lease.pool = row, row.pool

    def end_attempt(self, lease: Lease, ending: Ending, now_ms: int) -> None:
        """Note how the lease's attempt ended, if one was under way."""
        self.tell(lease, ending, now_ms)
        lease.row = None

    def tell(self, lease: Lease, ending: Ending, now_ms: int) -> None:
        """Note what there is to be said of the upstream that a lease has."""
        if lease.row is not None and lease.row.upstream.deployment:
            running = self.holds.held(ceiling_of(lease.row))
            self.upstreams.note(lease.row.upstream, lease.id, ending, running, now_ms)

    def choose(
        self, lease: Lease, rows: Sequence[Row], patience_ms: int, now_ms: int
    ) -> tuple[Granted | Refused, tuple[tuple[int, Row], ...]]:
        """Take the first row that fits; waiters whose pool a row is in come before it.

        Where none fits, return also those of the last row's pool that the lease may wait for.
        """
        refusals: list[Refusal] = []
        levels: tuple[Level, ...] = ()
        waiting: list[tuple[int, Row]] = []
        reached = set[str]()
        for index, row in enumerate(rows):
            if row.pool not in reached:
                self._dispatch(row.pool, now_ms)
            reached.add(row.pool)
            violations = self.violations(lease, row, now_ms)
            pool = self.pools.get(row.pool)
            if pool is not None and pool.stands_before(row.precedence):
                violations = violations or [Violation(ceiling_of(row), None)]
            if not violations:
                watched = self.upstreams.is_watched(row.upstream)
                self.take(lease, row, now_ms)
                if pool is not None:
                    pool.count(row.precedence)
                return Granted(index, now_ms, self.holds.levels(row, now_ms), tuple(refusals), watched=watched), ()
            levels = self.holds.levels(row, now_ms)
            refusals.append(refusal(index, violations))
            if any(violation.charge.ends_walk for violation in violations):
                return Refused(now_ms, tuple(refusals), levels), ()
            in_its_pool = row.pool == rows[-1].pool != "" and row.precedence is not Precedence.OVER_LIMIT
            if in_its_pool and may_wait(violations, patience_ms):
                waiting.append((index, row))
        return Refused(now_ms, tuple(refusals), levels), tuple(waiting)
