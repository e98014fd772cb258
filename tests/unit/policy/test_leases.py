"""The life of leases over buckets: each rule by example."""

from copy import deepcopy

import pytest

from gateway.policy.answers import Granted, Posted, Refused, Spent
from gateway.policy.catalogue import Limits
from gateway.policy.charges import Dimension
from gateway.policy.lifetimes import LATE_MS, REAPED_AT_ONCE
from tests.unit.policy.leases import (
    MODEL_A,
    MODEL_B,
    NOW_MS,
    ONE,
    RPD,
    RPM,
    SLOTS,
    TPM,
    TTL_MS,
    TWO,
    Store,
    figures,
    key,
    row,
)


@pytest.fixture
def store() -> Store:
    return Store()


def test_the_first_row_that_fits_takes_all_its_holds(store: Store) -> None:
    store.acquire("other", row(ONE))
    verdict = store.acquire("mine", row(RPM, ONE), row(RPM, TWO))
    assert isinstance(verdict, Granted)
    assert (verdict.row, [(refusal.row, refusal.charge.scope) for refusal in verdict.refusals]) == (1, [(0, "d:a/one")])
    assert store.level("d:a/two", Dimension.CONCURRENCY) == (0, 1)
    assert store.level("k:ci", Dimension.RPM) == (0, 1)


def test_a_refusal_writes_nothing_and_tells_every_row(store: Store) -> None:
    store.acquire("other", row(ONE, TWO))
    before = deepcopy(store.buckets.buckets)
    verdict = store.acquire("mine", row(RPM, ONE), row(RPM, TWO))
    assert isinstance(verdict, Refused)
    assert [refusal.row for refusal in verdict.refusals] == [0, 1]
    assert (verdict.levels[-1].charge.scope, verdict.levels[-1].held) == ("d:a/two", 1)
    assert store.buckets.buckets == before
    assert store.kinds() == ["open"]


def test_a_violated_limit_of_the_callers_own_ends_the_walk(store: Store) -> None:
    store.acquire("other", row(SLOTS))
    verdict = store.acquire("mine", row(SLOTS, ONE), row(TWO))
    assert isinstance(verdict, Refused)
    assert [refusal.charge.scope for refusal in verdict.refusals] == ["k:ci"]


def test_a_refusal_names_what_ends_the_walk_and_what_never_fits_first(store: Store) -> None:
    store.acquire("other", row(ONE, RPM, RPM[:0]), row())
    walks_on = key(Limits(rpm=1), ends_walk=False)
    verdict = store.acquire("mine", row(walks_on, ONE, TPM, cost=figures(50, 51)))
    assert isinstance(verdict, Refused)
    refusal = verdict.refusals[0]
    assert (refusal.charge.dimension, refusal.never, refusal.wait_ms) == (Dimension.TPM, True, None)


def test_the_longest_wait_of_a_row_counts(store: Store) -> None:
    store.acquire("first", row(RPM, TPM, cost=figures(60, 40)))
    store.settle("first", figures(60, 40))
    store.acquire("second", row(RPM))
    store.settle("second")
    verdict = store.acquire("third", row(RPM, TPM, cost=figures(50, 0)))
    assert isinstance(verdict, Refused)
    assert (verdict.refusals[0].charge.dimension, verdict.refusals[0].wait_ms) == (Dimension.RPM, 30_000)
    store.now_ms += 29_999
    assert isinstance(store.acquire("third", row(RPM, TPM, cost=figures(50, 0))), Refused)
    store.now_ms += 1
    assert isinstance(store.acquire("third", row(RPM, TPM, cost=figures(50, 0))), Granted)


def test_taking_nothing_fits_even_an_overdrawn_bucket(store: Store) -> None:
    store.acquire("first", row(TPM))
    store.settle("first", figures(500, 500))
    assert isinstance(store.acquire("second", row(TPM, cost=figures(0, 0))), Granted)


def test_the_same_lease_asked_again_hears_the_same(store: Store) -> None:
    verdict = store.acquire("mine", row(RPM))
    store.now_ms += 5
    assert store.acquire("mine", row(RPM)) is verdict
    assert store.level("k:ci", Dimension.RPM) == (0, 1)


def test_an_ended_lease_is_spent(store: Store) -> None:
    store.acquire("mine", row(RPM))
    store.settle("mine")
    assert store.acquire("mine", row(RPM)) == Spent(NOW_MS)
    assert store.switch("mine", row(RPM)) == Spent(NOW_MS)


def test_an_end_posts_what_was_used_and_releases_the_rest(store: Store) -> None:
    store.acquire("mine", row(RPM, TPM, RPD, SLOTS, cost=figures(30, 30)))
    assert store.settle("mine", figures(30, 5)) == Posted(NOW_MS, opened=True)
    assert store.level("k:ci", Dimension.RPM) == (1, 0)
    assert store.level("k:ci", Dimension.TPM) == (35, 0)
    assert store.level("k:ci", Dimension.RPD) == (1, 0)
    assert store.level("k:ci", Dimension.CONCURRENCY) == (0, 0)
    assert store.kinds() == ["open", "close"]


def test_an_over_run_is_posted_in_full(store: Store) -> None:
    store.acquire("mine", row(TPM))
    store.settle("mine", figures(100, 150))
    assert store.level("k:ci", Dimension.TPM) == (250, 0)


def test_an_end_in_capacity_posts_nothing(store: Store) -> None:
    store.acquire("mine", row(RPM, TPM, RPD))
    store.settle("mine", figures(9, 9), capacity=True)
    assert [store.level("k:ci", dimension) for dimension in (Dimension.RPM, Dimension.TPM, Dimension.RPD)] == [(0, 0)] * 3


def test_a_second_end_writes_nothing(store: Store) -> None:
    store.acquire("mine", row(TPM))
    store.settle("mine", figures(5, 5))
    assert store.settle("mine", figures(50, 50)) == Posted(NOW_MS, opened=True)
    assert store.level("k:ci", Dimension.TPM) == (10, 0)
    assert store.kinds() == ["open", "close"]


def test_an_end_of_an_unknown_lease_still_reaches_the_ledger(store: Store) -> None:
    assert store.settle("never") == Posted(NOW_MS, opened=True)
    assert store.settle("never") == Posted(NOW_MS, opened=True)
    assert store.kinds() == ["close"]


def test_an_uncertain_end_tells_whether_there_was_a_lease_however_often_it_is_reported(store: Store) -> None:
    assert store.settle("never", certain=False) == store.settle("never", certain=False) == Posted(NOW_MS, opened=False)
    assert store.acquire("never", row(RPM)) == Spent(NOW_MS)
    store.acquire("mine", row(RPM))
    assert store.settle("mine", certain=False) == store.settle("mine", certain=False) == Posted(NOW_MS, opened=True)
    store.acquire("lapsed", row(SLOTS))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    assert store.settle("lapsed", certain=False) == Posted(store.now_ms, opened=True)
    assert store.kinds() == ["open", "close", "open", "abandoned", "close"]


def test_progress_moves_what_was_used_once(store: Store) -> None:
    store.acquire("mine", row(RPM, TPM, cost=figures(30, 30)))
    store.progress("mine", figures(30, 0, request=0))
    assert (store.level("k:ci", Dimension.RPM), store.level("k:ci", Dimension.TPM)) == ((0, 1), (30, 30))
    store.progress("mine", figures(30, 10))
    store.progress("mine", figures(30, 10))
    assert (store.level("k:ci", Dimension.RPM), store.level("k:ci", Dimension.TPM)) == ((1, 0), (40, 20))
    store.settle("mine", figures(30, 15))
    assert (store.level("k:ci", Dimension.RPM), store.level("k:ci", Dimension.TPM)) == ((1, 0), (45, 0))


def test_progress_renews_the_lease_and_names_lost_ones(store: Store) -> None:
    store.acquire("mine", row(SLOTS))
    store.now_ms += TTL_MS - 1
    assert store.progress("mine", figures(0, 0)) == ()
    store.now_ms += TTL_MS - 1
    assert store.buckets.expire(store.now_ms) == 0
    assert store.progress("gone", figures(0, 0)) == ("gone",)


def test_a_lapsed_lease_posts_its_request_and_what_it_had_reported(store: Store) -> None:
    store.acquire("mine", row(RPM, TPM, SLOTS, cost=figures(30, 30)))
    store.progress("mine", figures(30, 0, request=0))
    store.now_ms += TTL_MS
    assert store.buckets.expire(store.now_ms) == 1
    assert store.level("k:ci", Dimension.RPM) == (1, 0)
    assert store.level("k:ci", Dimension.TPM) == (0, 0), "30 tokens have leaked by now"
    assert store.level("k:ci", Dimension.CONCURRENCY) == (0, 0)
    assert store.kinds() == ["open", "abandoned"]
    assert store.acquire("mine", row(RPM)) == Spent(store.now_ms)


def test_a_late_end_posts_the_difference_and_closes_the_ledger(store: Store) -> None:
    store.acquire("mine", row(RPM, TPM, cost=figures(30, 30)))
    store.progress("mine", figures(30, 5))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    before = store.level("k:ci", Dimension.RPM)
    assert store.settle("mine", figures(30, 45)) == Posted(store.now_ms, opened=True)
    assert (store.level("k:ci", Dimension.TPM), store.level("k:ci", Dimension.RPM)) == ((40, 0), before)
    store.settle("mine", figures(30, 99))
    assert store.kinds() == ["open", "abandoned", "close"]


def test_a_late_end_waits_for_an_hour(store: Store) -> None:
    store.acquire("mine", row(TPM))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    store.now_ms += LATE_MS
    store.buckets.expire(store.now_ms)
    assert store.buckets.done == {}
    store.settle("mine", figures(30, 30))
    assert store.level("k:ci", Dimension.TPM) == (0, 0)


def test_every_call_for_room_ends_a_few_lapsed_leases_the_oldest_first(store: Store) -> None:
    for number in range(REAPED_AT_ONCE + 2):
        store.acquire(f"lease-{number}", row())
        store.now_ms += 1
    store.now_ms += TTL_MS
    store.acquire("next", row())
    assert list(store.buckets.leases) == [f"lease-{REAPED_AT_ONCE}", f"lease-{REAPED_AT_ONCE + 1}", "next"]


def test_a_switch_swaps_what_the_model_and_the_deployment_held(store: Store) -> None:
    store.acquire("mine", row(RPM, MODEL_A, ONE))
    verdict = store.switch("mine", row(RPM, MODEL_B, TWO), capacity=True)
    assert isinstance(verdict, Granted)
    assert [store.level(scope, Dimension.RPM) for scope in ("k:ci", "m:a", "m:b")] == [(0, 1), (0, 0), (0, 1)]
    assert [store.level(scope, Dimension.CONCURRENCY) for scope in ("d:a/one", "d:a/two")] == [(0, 0), (0, 1)]
    assert store.level("m:a", Dimension.TPM) == (0, 0)


def test_a_failed_attempt_posts_its_request_and_returns_its_tokens(store: Store) -> None:
    store.acquire("mine", row(RPM, MODEL_A, ONE))
    store.switch("mine", row(RPM, MODEL_B, TWO))
    assert [store.level(scope, Dimension.RPM) for scope in ("k:ci", "m:a", "d:a/one", "m:b")] == [(1, 0), (1, 0), (1, 0), (0, 1)]
    assert store.level("m:a", Dimension.TPM) == (0, 0)
    store.settle("mine", capacity=True)
    assert [store.level(scope, Dimension.RPM) for scope in ("k:ci", "m:b")] == [(1, 0), (0, 0)]


def test_a_bucket_that_both_rows_charge_is_not_tested_again(store: Store) -> None:
    store.acquire("mine", row(RPM, MODEL_A, ONE))
    store.acquire("other", row(RPM))
    verdict = store.switch("mine", row(RPM, MODEL_A, TWO))
    assert isinstance(verdict, Granted)
    assert (store.level("k:ci", Dimension.RPM), store.level("m:a", Dimension.RPM)) == ((1, 1), (1, 0))
    store.settle("mine")
    assert (store.level("k:ci", Dimension.RPM), store.level("m:a", Dimension.RPM)) == ((1, 1), (1, 0))


def test_only_the_difference_is_tested_and_held(store: Store) -> None:
    store.acquire("mine", row(TPM, ONE, cost=figures(30, 30)))
    assert isinstance(store.switch("mine", row(TPM, TWO, cost=figures(30, 71))), Refused)
    assert isinstance(store.switch("mine", row(TPM, TWO, cost=figures(30, 70))), Granted)
    assert store.level("k:ci", Dimension.TPM) == (0, 100)
    assert isinstance(store.switch("mine", row(TPM, ONE, cost=figures(5, 5))), Granted)
    assert store.level("k:ci", Dimension.TPM) == (0, 10)


def test_a_switch_without_room_keeps_what_the_whole_request_holds(store: Store) -> None:
    store.acquire("other", row(TWO))
    store.acquire("mine", row(RPM, SLOTS, MODEL_A, ONE))
    assert isinstance(store.switch("mine", row(RPM, SLOTS, MODEL_B, TWO), capacity=True), Refused)
    assert set(store.buckets.leases["mine"].claims) == {("k:ci", Dimension.RPM), ("k:ci", Dimension.CONCURRENCY)}
    assert store.level("d:a/one", Dimension.CONCURRENCY) == (0, 0)
    store.settle("mine", capacity=True)
    assert store.level("k:ci", Dimension.RPM) == (0, 0)
    assert store.kinds() == ["open", "open", "close"]


def test_a_model_that_is_come_back_to_is_not_charged_a_second_request(store: Store) -> None:
    store.acquire("mine", row(MODEL_A, ONE))
    store.switch("mine", row(MODEL_B, TWO))
    assert isinstance(store.switch("mine", row(MODEL_A, ONE)), Granted)
    store.settle("mine")
    assert (store.level("m:a", Dimension.RPM), store.level("m:b", Dimension.RPM)) == ((1, 0), (1, 0))
