"""The laws of budgets: random programs without over-runs, over days, weeks and months, with a store that forgets and a ledger."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.policy.admission import Row, Seed, Upstream
from gateway.policy.answers import Unseeded
from gateway.policy.catalogue import Budget, Limits, Tier
from gateway.policy.charges import Charge, Estimate
from gateway.policy.claims import place_of
from gateway.policy.limits import DAY_MS, budget_charges
from gateway.policy.periods import bounds_ms
from tests.unit.policy.leases import Store, deployment, key, model

CAPACITY = 1_000
BUDGETS = tuple(
    charge
    for owner, period in (("kb:ci", "day"), ("pb:acme:search", "week"), ("ob:acme", "month"))
    for charge in budget_charges(owner, Budget(nano_usd=CAPACITY, tokens=CAPACITY, period=period))
)
OTHERS = key(Limits(concurrency=6)) + model("a", Limits(rpm=9)) + deployment("a/one", Limits(concurrency=5))

Step = tuple[str, int, int, int]
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(("acquire", "acquire", "acquire", "settle", "settle", "switch", "progress", "expire", "forget")),
        st.integers(0, 9),
        st.integers(0, 4),
        st.sampled_from((0, 0, 1, 900, 20_000, DAY_MS // 3, 9 * DAY_MS)),
    ),
    min_size=10,
    max_size=40,
)


def row_of(number: int, quarters: int = 4) -> Row:
    nano_usd, tokens = (100 + 40 * number) * quarters // 4, (130 + 30 * number) * quarters // 4
    cost = Estimate(1, 1, 1, 2, cost_nano_usd=nano_usd, budget_tokens=tokens)
    return Row(Upstream(), "a", Tier.DEFAULT, BUDGETS + OTHERS, cost)


class World:
    """A store, and the ledger beside it: what was spent, and when that was posted."""

    def __init__(self) -> None:
        self.store = Store()
        self.spent: list[tuple[int, Estimate]] = []

    def since(self, charge: Charge) -> int:
        began_ms, _ = bounds_ms(self.store.now_ms, charge.period_ms)
        return sum(used.of(charge.unit) for at_ms, used in self.spent if at_ms >= began_ms)

    def run(self, step: Step) -> None:
        kind, number, quarters, pause_ms = step
        self.store.now_ms += pause_ms
        lease_id, live = f"lease-{number}", self.store.buckets.leases
        # What lapses is spent as it was last reported, and what is settled as that says.
        spent = {lease.id: lease.so_far for lease in live.values()}
        match kind:
            case "acquire":
                self.acquire(lease_id, row_of(number))
            case "settle" if lease_id in live:
                used, told = row_of(number, quarters).estimate, spent[lease_id]
                # No unit of it grows without the other.
                spent[lease_id] = max(used, told, key=lambda each: each.cost_nano_usd)
                self.store.settle(lease_id, spent[lease_id])
            case "switch":
                self.store.switch(lease_id, row_of(number))
            case "progress":
                self.store.progress(lease_id, row_of(number, quarters).estimate)
            case "forget":
                held = {place for lease in live.values() for place in lease.claims}
                for place in {place_of(each) for each in BUDGETS} - held:
                    self.store.buckets._holds.forget(place)
            case _:
                self.store.buckets.expire(self.store.now_ms)
        self.spent += [(self.store.now_ms, used) for gone, used in spent.items() if gone not in live]

    def acquire(self, lease_id: str, row: Row) -> None:
        before = {lease.id: lease.so_far for lease in self.store.buckets.leases.values()}
        verdict = self.store.acquire(lease_id, row)
        if isinstance(verdict, Unseeded):
            lapsed = [used for gone, used in before.items() if gone not in self.store.buckets.leases]
            for each in verdict.charges:
                spent = self.since(each) + sum(used.of(each.unit) for used in lapsed)
                self.store.buckets.seed([Seed(each, self.store.now_ms, spent)])
            self.store.acquire(lease_id, row)


@given(PROGRAMS)
def test_what_is_spent_and_held_stays_within_the_budget_and_is_what_the_ledger_says(program: list[Step]) -> None:
    world = World()
    for step in program:
        world.run(step)
        for charge in BUDGETS:
            assert world.since(charge) <= CAPACITY
            found = world.store.buckets.buckets.get(place_of(charge))
            if found is not None:
                bucket = replace(found)
                bucket.fold(charge, world.store.now_ms)
                assert bucket.debt == world.since(charge)
                assert bucket.debt + bucket.held <= CAPACITY
