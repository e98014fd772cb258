"""The laws of admission, I1 to I10, and of its queue, Q1 to Q8, over a fleet in which anything may happen at any time.

Two workers ask, wait, are told of turns or not, heartbeat, tick, crash and come back; upstreams lose and gain slots, cool down
and break; the clock stands, runs and goes back. I7, that the scripts do what the specification does, is `tests.sim.compare`.
"""

from collections import Counter, defaultdict
from copy import deepcopy
from itertools import combinations

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from gateway.policy.admission import Acquire, Ending, Precedence, Progress, Row, Seed, Settle, Sign, Switch, Wait
from gateway.policy.answers import Granted, Queued, Refused, Spent, Turn
from gateway.policy.catalogue import Tier
from gateway.policy.charges import Charge, Estimate, Kind
from gateway.policy.claims import Event, Place, ceiling_of, place_of
from gateway.policy.leases import Buckets
from gateway.policy.limits import DAY_MS, Bucket, weight
from gateway.policy.queue import Waiter
from tests.integration.admission.rows import TTL_MS
from tests.integration.admission.state import expected_queues, holds_are_conserved
from tests.sim.program import row_of
from tests.sim.supply import BREAKER, BUDGETS, CANDIDATES, CHARGES

WORKERS = ("w1", "w2")
TICK_MS = 500
GRACE_MS = 600
"""How long past its deadline a waiter may hear of it: a tick."""

SPEND_NO_RATES = (Tier.FLEX, Tier.NO_LIMIT, Tier.OVER_LIMIT)
SLOWEST_MS = 45_000
FOREVER_MS = 2 * DAY_MS


class Asked(msgspec.Struct):
    """One request as its worker knows it."""

    worker: str
    rows: tuple[Row, ...]
    deadline_ms: int = 0
    waits: bool = False
    runs: bool = False
    used: int = 0


def unheard(_: object) -> None:
    """Hear nothing."""


class Fleet(RuleBasedStateMachine):
    """The workers, and the store that they share."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 50_000 * DAY_MS + 23 * 3_600_000
        self.latest_ms = self.now_ms
        self.kinds: defaultdict[str, list[str]] = defaultdict(list)
        self.told: set[str] = set()
        self.store = Buckets(self._note, self._wake, BREAKER)
        self.asked: dict[str, Asked] = {}
        self.down: set[str] = set()
        self.ends: Counter[str] = Counter()
        self.turns: defaultdict[str, list[tuple[Precedence, str, frozenset[tuple[Precedence, str]]]]] = defaultdict(list)
        self.posts: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)
        self.debts: dict[Place, int] = {}
        self.at_ms: dict[Place, int] = {}
        self.ran: Counter[str] = Counter()

    # What happens.

    @initialize()
    def begin(self) -> None:
        self.store.seed([Seed(charge, self.now_ms, 0) for charge in BUDGETS])
        self.debts = self._debts()

    @rule(
        key=st.sampled_from([*CANDIDATES]),
        picks=st.lists(st.integers(0, 19), min_size=1, max_size=3),
        tokens=st.integers(0, 60),
        worker=st.sampled_from(WORKERS),
        org=st.sampled_from("abc"),
        patience_ms=st.sampled_from((0, 2_000, 10_000, SLOWEST_MS)),
    )
    def ask(self, key: str, picks: list[int], tokens: int, worker: str, org: str, patience_ms: int) -> None:
        """A request comes: it is granted, waits or is refused."""
        if worker in self.down:
            return
        cost = Estimate(1, tokens, tokens, 2 * tokens, cost_nano_usd=tokens * 10**9)
        rows = tuple(row_of(CANDIDATES[key][pick], cost) for pick in picks)
        wait = Wait(org, worker, patience_ms, 12, 6) if patience_ms else None
        lease_id = f"r{len(self.asked)}"
        request = Acquire(lease_id, rows, TTL_MS, b"", wait)
        while self.store.expire(self.now_ms):
            pass
        before = self._twin()
        verdict = self.store.acquire(request, self.now_ms)
        asked = self.asked[lease_id] = Asked(worker, rows, self.now_ms + patience_ms)
        if isinstance(verdict, Refused):
            self.ends[lease_id] += 1
            self._refused(request, verdict, before)
        elif isinstance(verdict, Queued):
            asked.waits = True
        else:
            assert isinstance(verdict, Granted)
            self._granted(lease_id, rows[verdict.row])
            assert self.store.acquire(request, self.now_ms) == verdict, "I4: asked again, it hears the same"
            roomy = tuple(replace(row, charges=tuple(map(larger, row.charges))) for row in rows)
            assert isinstance(before.acquire(replace(request, rows=roomy), self.now_ms), Granted), "I8: larger limits refuse"

    @precondition(lambda self: any(asked.runs for asked in self.asked.values()))
    @rule(number=st.integers(0, 10**6), sign=st.sampled_from(Sign), part=st.integers(0, 4), capacity=st.booleans())
    def finish(self, number: int, sign: Sign, part: int, capacity: bool) -> None:
        """A request ends, having used no more than was held for it."""
        lease_id, asked = self._one_that(number, "runs")
        if lease_id not in self.store.leases:
            return  # it lapsed while its worker was away: what it posts now goes beyond a hold, which I1 allows
        used = self._used(lease_id, part)
        self._settle(lease_id, Settle(lease_id, capacity, used, b"", ending=Ending(sign, 0, 500)))
        asked.runs = False
        self.ends[lease_id] += 1

    @precondition(lambda self: any(asked.runs for asked in self.asked.values()))
    @rule(number=st.integers(0, 10**6), sign=st.sampled_from(Sign), picks=st.lists(st.integers(0, 19), min_size=1, max_size=2))
    def move_on(self, number: int, sign: Sign, picks: list[int]) -> None:
        """An attempt failed, and its request tries elsewhere under the same lease."""
        lease_id, asked = self._one_that(number, "runs")
        figures = asked.rows[0].estimate
        key = "ci" if any(charge.scope == "k:ci" for charge in asked.rows[0].charges) else "batch"
        rows = tuple(row_of(CANDIDATES[key][pick], figures) for pick in picks)
        verdict = self.store.switch(Switch(lease_id, Ending(sign, 0, 500), rows, TTL_MS), self.now_ms)
        if isinstance(verdict, Granted):
            asked.rows = rows
            self._granted(lease_id, rows[verdict.row])
        elif not isinstance(verdict, Spent):
            self._settle(lease_id, Settle(lease_id, True, figures, b""))
            asked.runs = False
            self.ends[lease_id] += 1

    @precondition(lambda self: bool(self.told))
    @rule(number=st.integers(0, 10**6))
    def hear(self, number: int) -> None:
        """A worker hears of a turn; other words are lost, and ticks tell of them."""
        lease_id = sorted(self.told)[number % len(self.told)]
        self.told.discard(lease_id)
        self._confirm(lease_id)

    @precondition(lambda self: any(asked.waits for asked in self.asked.values()))
    @rule(number=st.integers(0, 10**6))
    def leave_queue(self, number: int) -> None:
        """A client leaves while it waits: it has its one row."""
        lease_id, asked = self._one_that(number, "waits")
        self._settle(lease_id, Settle(lease_id, True, Estimate(0, 0, 0, 0), b""))
        asked.waits = False
        self.ends[lease_id] += 1

    @rule(worker=st.sampled_from(WORKERS))
    def crash(self, worker: str) -> None:
        """A worker is gone: nobody renews what it has, nobody asks for who waits there."""
        self.down.add(worker)
        for lease_id, asked in self.asked.items():
            if asked.worker == worker and (asked.waits or asked.runs):
                asked.waits = asked.runs = False
                self.ends[lease_id] += 1
                self.told.discard(lease_id)

    @rule(worker=st.sampled_from(WORKERS))
    def come_back(self, worker: str) -> None:
        self.down.discard(worker)

    @rule(steps=st.integers(1, 40))
    def pass_time(self, steps: int) -> None:
        """Time passes as it does for a fleet that ticks."""
        for step in range(steps):
            self._move(TICK_MS)
            for worker in WORKERS:
                if worker not in self.down:
                    self._tick(worker)
                    if step % 10 == 0:
                        self._beat(worker)

    @rule(back_ms=st.integers(1, 5_000))
    def clock_goes_back(self, back_ms: int) -> None:
        """A failover, and the new primary's clock is behind."""
        self.now_ms -= back_ms
        for asked in self.asked.values():
            asked.deadline_ms -= back_ms if asked.waits else 0

    # What each does.

    def _move(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.latest_ms = max(self.latest_ms, self.now_ms)

    def _tick(self, worker: str) -> None:
        waiting = [lease_id for lease_id, asked in self.asked.items() if asked.waits and asked.worker == worker]
        for lease_id, turn in zip(waiting, self.store.tick(waiting, self.now_ms), strict=True):
            if turn is Turn.COME:
                self._confirm(lease_id)
            elif turn is Turn.GONE or self.now_ms >= self.asked[lease_id].deadline_ms:
                self._settle(lease_id, Settle(lease_id, True, Estimate(0, 0, 0, 0), b"", certain=False))
                self.asked[lease_id].waits = False
                self.ends[lease_id] += 1
        self._never_idle(worker)

    def _beat(self, worker: str) -> None:
        running = [lease_id for lease_id, asked in self.asked.items() if asked.runs and asked.worker == worker]
        reports = [Progress(lease_id, self._used(lease_id, 1)) for lease_id in running]
        self.store.progress(reports, self.now_ms)

    def _confirm(self, lease_id: str) -> None:
        asked = self.asked[lease_id]
        if not asked.waits:
            return
        verdict = self.store.confirm(lease_id, self.now_ms)
        if isinstance(verdict, Granted):
            waited_ms = self.now_ms - asked.deadline_ms
            assert waited_ms <= GRACE_MS, "Q7: nobody waits past its deadline and a tick"
            asked.waits, asked.runs = False, True
        elif isinstance(verdict, Spent):
            asked.waits = False
            self.ends[lease_id] += 1

    def _used(self, lease_id: str, part: int) -> Estimate:
        held = self.asked[lease_id].rows[0].estimate
        asked = self.asked[lease_id]
        asked.used = max(asked.used, part)
        return Estimate(1, held.input * asked.used // 4, held.output * asked.used // 4, held.total * asked.used // 4)

    def _settle(self, lease_id: str, settle: Settle) -> None:
        first = self.store.settle(settle, self.now_ms)
        self._grow()
        debts, kinds = self._debts(), [*self.kinds.get(lease_id, ())]
        assert self.store.settle(settle, self.now_ms).opened == first.opened, "I4: an end is one however often it is told"
        assert (self._debts(), [*self.kinds.get(lease_id, ())]) == (debts, kinds), "I4: a second end changes nothing"

    def _granted(self, lease_id: str, row: Row) -> None:
        self.asked[lease_id].runs = True
        if row.tier in SPEND_NO_RATES:
            taken = {claim.charge for claim in self.store.leases[lease_id].claims.values()}
            spent = [
                charge
                for charge in taken
                if charge.scope[:2] in ("k:", "km", "o:", "om") and charge.kind not in (Kind.HELD, Kind.USE)
            ]
            assert not spent, f"I10: {row.tier} spends rates"
        pool = self.store.pools.get(row.pool)
        if pool is not None:
            self.turns[row.pool].append((row.precedence, "", self._waiting(row.pool)))
            if row.precedence is Precedence.FLEX:
                assert not pool.lanes[Precedence.PRIORITY], "Q6: flex passed priority"
                assert not pool.lanes[Precedence.DEFAULT], "Q6: flex passed default"

    def _twin(self) -> Buckets:
        """Return a copy of the store, whose words nobody hears."""
        twin = deepcopy(self.store, {id(self): self})
        twin._note, twin._wake = unheard, unheard
        return twin

    def _refused(self, request: Acquire, verdict: Refused, before: Buckets) -> None:
        assert expected_queues(self.store) == expected_queues(before), "I3: a refusal leaves the queues as they were"
        for part in ("leases", "done", "buckets"):
            assert getattr(self.store, part) == getattr(before, part), f"I3: a refusal leaves {part} as they were"
        if len(request.rows) == 1 and verdict.refusals[0].wait_ms and not self.store.leases:
            wait_ms = verdict.refusals[0].wait_ms
            alone = Acquire(request.id, request.rows, TTL_MS, b"")
            early, then = self._twin(), self._twin()
            assert isinstance(early.acquire(alone, self.now_ms + wait_ms - 1), Refused), "I5: not a millisecond earlier"
            assert isinstance(then.acquire(alone, self.now_ms + wait_ms), Granted), "I5: not a millisecond later"

    def _note(self, event: Event) -> None:
        self.kinds[event.id].append(event.kind)

    def _wake(self, waiter: Waiter) -> None:
        self.told.add(waiter.id)
        self.turns[waiter.pool].append((waiter.precedence, waiter.wait.org, self._waiting(waiter.pool)))
        pool = self.store.pools[waiter.pool]
        if waiter.precedence is Precedence.FLEX:
            assert not pool.lanes[Precedence.PRIORITY], "Q6: flex passed priority"
            assert not pool.lanes[Precedence.DEFAULT], "Q6: flex passed default"

    def _waiting(self, name: str) -> frozenset[tuple[Precedence, str]]:
        pool = self.store.pools[name]
        return frozenset((precedence, org) for precedence, lane in pool.lanes.items() for org in lane.orgs)

    def _one_that(self, number: int, state: str) -> tuple[str, Asked]:
        found = [(lease_id, asked) for lease_id, asked in self.asked.items() if getattr(asked, state)]
        return found[number % len(found)]

    def _debts(self) -> dict[Place, int]:
        """Return every bucket's debt as it would be now, a clock that went back taken for one that stands."""
        found = {}
        for place, bucket in self.store.buckets.items():
            now = replace(bucket)
            now.fold(CHARGES[place], self.latest_ms)
            found[place] = now.debt
        return found

    def _grow(self) -> None:
        """Note what was posted since the last look."""
        debts = self._debts()
        for place, debt in debts.items():
            posted = debt - self.debts.get(place, 0)
            if posted > 0:
                self.posts[place].append((self.latest_ms, posted))
        self.debts = debts

    def _never_idle(self, worker: str) -> None:
        for name, pool in self.store.pools.items():
            head = pool.next()
            lease = None if head is None else self.store.leases.get(head)
            if lease is None or lease.waiter is None or lease.waiter.wait.worker != worker:
                continue
            rows = [row for _, row in lease.waiter.rows]
            assert all(self.store._room.violations(lease, row, self.now_ms) for row in rows), (
                f"Q3: room in {name} and somebody waits"
            )

    # What always holds.

    @invariant()
    def i1_no_window_posts_more_than_burst_and_rate(self) -> None:
        self._grow()
        for place, posts in self.posts.items():
            charge = CHARGES[place]
            if charge.kind is not Kind.RATE or len(posts) < 2:
                continue
            tail = posts[-12:]
            for first, last in combinations(range(len(tail)), 2):
                units = sum(posted for _, posted in tail[first : last + 1])
                window_ms = tail[last][0] - tail[first][0]
                assert units <= charge.capacity * weight(charge) + charge.rate * window_ms, f"I1: {place}"

    @invariant()
    def i2_holds_are_those_of_live_leases(self) -> None:
        assert holds_are_conserved(self.store), "I2"

    @invariant()
    def i9_no_bucket_goes_back_in_time(self) -> None:
        for place, bucket in self.store.buckets.items():
            assert bucket.at_ms >= self.at_ms.get(place, 0), "I9"
            self.at_ms[place] = bucket.at_ms

    @invariant()
    def q1_nothing_is_granted_beyond_the_ceiling(self) -> None:
        running: Counter[str] = Counter()
        rows: dict[str, Row] = {}
        for lease in self.store.leases.values():
            if lease.row is not None:
                running[lease.row.upstream.deployment] += 1
                rows[lease.row.upstream.deployment] = lease.row
        for deployment, count in running.items():
            charge = ceiling_of(rows[deployment])
            bucket: Bucket = self.store.buckets[place_of(charge)]
            assert bucket.held == count, "Q1: slots are those of live leases"
            if count > self.ran[deployment]:
                most = max(self._slots(deployment))
                assert count <= most, f"Q1: {count} run at {deployment}, which has room for {most}"
        self.ran = running

    def _slots(self, deployment: str) -> list[int]:
        found: list[int] = []
        for candidates in CANDIDATES.values():
            for each in candidates:
                if each.upstream.deployment == deployment:
                    row = row_of(each, Estimate(1, 0, 0, 0))
                    found.append(self.store.upstreams.slots(row, ceiling_of(row)))
        return found

    @invariant()
    def q2_every_request_ends_once(self) -> None:
        for lease_id, asked in self.asked.items():
            assert self.ends[lease_id] + asked.waits + asked.runs == 1, f"Q2: {lease_id}"

    @invariant()
    def q4_default_has_its_turn(self) -> None:
        for turns in self.turns.values():
            streak = 0
            for precedence, _, waiting in turns:
                default_waits = any(each is Precedence.DEFAULT for each, _ in waiting)
                streak = streak + 1 if precedence is Precedence.PRIORITY and default_waits else 0
                assert streak <= 4, "Q4: five turns of priority while default waits"

    @invariant()
    def q5_orgs_of_a_class_take_turns(self) -> None:
        for turns in self.turns.values():
            for precedence in (Precedence.PRIORITY, Precedence.DEFAULT, Precedence.FLEX):
                last, again = "", 0
                for each, org, waiting in turns:
                    if each is not precedence or not org:
                        continue
                    others = {other for lane, other in waiting if lane is precedence and other != org}
                    again = again + 1 if org == last and others else 0
                    assert again <= 1, f"Q5: {org} had three turns in a row while {others} waited"
                    last = org

    def teardown(self) -> None:
        """I6 and Q8: when all have gone, everything is as new."""
        self.now_ms = max(self.now_ms, self.latest_ms)
        for _ in range(4):
            self._move(TTL_MS + SLOWEST_MS)
            while self.store.expire(self.now_ms):
                pass
        assert not self.store.leases, "Q8: leases"
        assert not any(len(pool) for pool in self.store.pools.values()), "Q8: queues"
        self._move(FOREVER_MS)
        assert not any(self._debts().values()), "I6: levels"
        assert not any(bucket.held for bucket in self.store.buckets.values()), "I6: holds"
        for lease_id, kinds in self.kinds.items():
            assert kinds.count("open") <= 1, lease_id
            assert kinds[-1] != "open", "opened = closed + abandoned"


def larger(charge: Charge) -> Charge:
    return replace(charge, capacity=2 * charge.capacity, rate=2 * charge.rate)
