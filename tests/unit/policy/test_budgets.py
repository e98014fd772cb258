"""Budgets over buckets: what is known of them, in whose period money is spent, and what a refusal says."""

import pytest

from gateway.policy.admission import Adopt, Row, Seed
from gateway.policy.answers import Cause, Granted, Refused, Unseeded
from gateway.policy.catalogue import Budget, Limits
from gateway.policy.charges import Charge, Estimate
from gateway.policy.claims import place_of
from gateway.policy.limits import DAY_MS, budget_charges
from tests.unit.policy.leases import NOW_MS, TTL_MS, Store, deployment, key, row

[DAY] = budget_charges("kb:ci", Budget(nano_usd=100, period="day"))
[MONTH] = budget_charges("ob:acme", Budget(nano_usd=1_000, period="month"))
SLOT = deployment("a/one", Limits(concurrency=9))


BOTH = budget_charges("kb:ci", Budget(nano_usd=100, tokens=50, period="day"))


def costs(nano_usd: int) -> Estimate:
    return Estimate(1, 10, 20, 30, cost_nano_usd=nano_usd)


def asking(nano_usd: int, *charges: Charge) -> Row:
    return row(charges or (DAY,), SLOT, cost=costs(nano_usd))


def known(*charges: Charge, spent: int = 0) -> Store:
    store = Store()
    store.buckets.seed([Seed(each, NOW_MS, spent) for each in charges or (DAY,)])
    return store


def level(store: Store, charge: Charge = DAY) -> tuple[int, int]:
    bucket = store.buckets.buckets[place_of(charge)]
    bucket.fold(charge, store.now_ms)
    return bucket.debt, bucket.held


def test_a_period_is_part_of_a_budgets_name() -> None:
    assert [DAY.scope, MONTH.scope] == ["kb:day:ci", "ob:month:acme"]


def test_a_budget_that_nothing_is_known_of_decides_nothing() -> None:
    store = known(DAY)
    assert store.acquire("mine", asking(10, DAY, MONTH)) == Unseeded(NOW_MS, (MONTH,))
    assert (store.buckets.leases, store.events, level(store)) == ({}, [], (0, 0))
    store.buckets.seed([Seed(MONTH, NOW_MS, 7)])
    assert isinstance(store.acquire("mine", asking(10, DAY, MONTH)), Granted)
    assert (level(store), level(store, MONTH)) == ((0, 10), (7, 10))


def test_a_move_to_a_budget_that_nothing_is_known_of_leaves_the_attempt_as_it_was() -> None:
    store = known(DAY)
    store.acquire("mine", asking(10))
    assert store.switch("mine", asking(10, MONTH)) == Unseeded(NOW_MS, (MONTH,))
    assert store.buckets.leases["mine"].row is not None
    assert level(store) == (0, 10)


def test_the_first_to_tell_is_believed() -> None:
    store = known(DAY, spent=90)
    store.buckets.seed([Seed(DAY, NOW_MS, 0)])
    assert level(store) == (90, 0)


def test_what_could_cost_more_than_is_left_is_refused_and_nothing_else_is_tried() -> None:
    store = known(DAY, spent=60)
    store.acquire("one", asking(30))
    verdict = store.acquire("two", asking(11), asking(11))
    assert isinstance(verdict, Refused)
    assert [(each.row, each.charge, each.cause) for each in verdict.refusals] == [(0, DAY, Cause.LIMIT)]
    assert isinstance(store.acquire("three", asking(10)), Granted)


def test_a_budget_is_named_before_other_limits_that_refuse() -> None:
    store = known(DAY, spent=100)
    store.acquire("holder", row(key(Limits(concurrency=1))))
    verdict = store.acquire("mine", row((DAY,), key(Limits(concurrency=1)), SLOT, cost=costs(1)))
    assert isinstance(verdict, Refused)
    assert verdict.refusals[0].charge == DAY


def test_nothing_is_spent_before_the_end_and_then_in_the_ends_own_period() -> None:
    store = known(DAY, spent=50)
    store.now_ms = NOW_MS + DAY_MS - 1
    store.acquire("mine", asking(40))
    store.progress("mine", costs(30))
    assert level(store) == (50, 40)
    store.now_ms += 1
    assert level(store) == (0, 40)
    store.settle("mine", costs(35))
    assert level(store) == (35, 0)


def test_what_lapses_has_spent_what_it_last_reported_and_late_only_the_rest() -> None:
    store = known(DAY)
    store.acquire("mine", asking(40))
    store.progress("mine", costs(12))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    assert level(store) == (12, 0)
    store.settle("mine", costs(35))
    assert level(store) == (35, 0)


def test_an_over_run_is_spent_in_full() -> None:
    store = known(DAY)
    store.acquire("mine", asking(40))
    store.settle("mine", costs(130))
    assert level(store) == (130, 0)


def test_an_end_in_capacity_spends_nothing() -> None:
    store = known(DAY)
    store.acquire("mine", asking(40))
    store.settle("mine", costs(40), capacity=True)
    assert level(store) == (0, 0)


def test_what_is_late_does_not_make_a_budget_known() -> None:
    store = known(DAY)
    store.acquire("mine", asking(40))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    store.buckets._holds.forget(place_of(DAY))
    store.settle("mine", costs(35))
    assert isinstance(store.acquire("next", asking(1)), Unseeded)


def test_what_an_adopted_lease_holds_counts_once_it_is_known_what_was_spent() -> None:
    store = Store()
    store.buckets.adopt([Adopt("mine", asking(40), TTL_MS, b"")], store.now_ms)
    assert isinstance(store.acquire("next", asking(1)), Unseeded)
    store.buckets.seed([Seed(DAY, store.now_ms, 50)])
    assert isinstance(store.acquire("next", asking(11)), Refused)
    assert isinstance(store.acquire("next", asking(10)), Granted)
    store.settle("mine", costs(35))
    bucket = store.buckets.buckets[place_of(DAY)]
    assert (bucket.debt, bucket.held) == (85, 10)


def takes(nano_usd: int, tokens: int) -> Estimate:
    return Estimate(1, 10, 20, 30, cost_nano_usd=nano_usd, budget_tokens=tokens)


def test_tokens_are_held_at_the_most_and_spent_at_the_end_as_they_were() -> None:
    money, tokens = BOTH
    store = known(*BOTH)
    store.acquire("mine", row(BOTH, SLOT, cost=takes(40, 45)))
    assert (level(store, money), level(store, tokens)) == ((0, 40), (0, 45))
    store.progress("mine", takes(3, 7))
    assert (level(store, money), level(store, tokens)) == ((0, 40), (0, 45)), "what is reported is not spent yet"
    verdict = store.acquire("other", row(BOTH, SLOT, cost=takes(1, 6)))
    assert isinstance(verdict, Refused)
    assert [each.charge for each in verdict.refusals] == [tokens]
    store.settle("mine", takes(9, 21))
    assert (level(store, money), level(store, tokens)) == ((9, 0), (21, 0))


def test_what_lapses_has_spent_the_tokens_that_it_last_reported() -> None:
    store = known(*BOTH)
    store.acquire("mine", row(BOTH, SLOT, cost=takes(40, 45)))
    store.progress("mine", takes(3, 7))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    assert [level(store, charge) for charge in BOTH] == [(3, 0), (7, 0)]
    assert store.settle("mine", takes(9, 21)).budgets == (9, 21), "and late only the rest"


def test_an_end_says_what_is_spent_of_each_budget() -> None:
    store = known(*BOTH, spent=5)
    for lease_id in ("one", "two", "three"):
        store.acquire(lease_id, row(BOTH, SLOT, cost=takes(10, 10)))
    assert store.settle("one", takes(2, 3)).budgets == (7, 8)
    assert store.settle("one", takes(2, 3)).budgets == (), "it ended before"
    assert store.settle("two", takes(2, 3), capacity=True).budgets == ()
    store.now_ms += DAY_MS
    assert store.settle("three", takes(2, 3)).budgets == (2, 3), "of the period in which it ends"


@pytest.mark.parametrize("cost", [0, 100])
def test_the_last_of_a_budget_may_be_spent(cost: int) -> None:
    store = known(DAY, spent=100 - cost)
    assert isinstance(store.acquire("mine", asking(cost)), Granted)
