"""Leases that their worker goes on with, and that the store knew no more: what runs counts again, once, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.admission import Acquire, Adopt, Precedence, Row, Upstream, Wait
from gateway.policy.answers import Granted, Posted, Queued, Turn
from gateway.policy.catalogue import Tier
from gateway.policy.charges import Charge, Dimension
from tests.unit.policy.leases import ONE, RPM, SLOTS, TPM, TTL_MS, TWO, Store, figures, row


@pytest.fixture
def store() -> Store:
    return Store()


def adopt(store: Store, lease_id: str, granted: Row) -> tuple[str, ...]:
    return store.buckets.adopt([Adopt(lease_id, granted, TTL_MS, b"")], store.now_ms)


def wait_for(store: Store, lease_id: str, *rows: Row) -> Queued:
    verdict = store.buckets.acquire(Acquire(lease_id, rows, TTL_MS, b"", Wait("acme", "w1", 9_000, 9, 9)), store.now_ms)
    assert isinstance(verdict, Queued)
    return verdict


def pooled(*groups: tuple[Charge, ...]) -> Row:
    return Row(Upstream("a/one"), "a", Tier.DEFAULT, sum(groups, ()), figures(), "a", Precedence.DEFAULT)


def test_a_lost_lease_holds_again_what_it_was_granted_whether_it_fits_or_not(store: Store) -> None:
    store.acquire("other", row(ONE))
    assert store.progress("mine", figures()) == ("mine",)
    assert adopt(store, "mine", row(RPM, ONE)) == ()
    assert store.progress("mine", figures()) == ()
    assert store.level("d:a/one", Dimension.CONCURRENCY) == (0, 2)
    assert store.level("k:ci", Dimension.RPM) == (1, 0)
    assert store.kinds() == ["open", "open"]


def test_a_lease_that_lives_is_left_as_it_is(store: Store) -> None:
    store.acquire("mine", row(RPM, ONE))
    assert adopt(store, "mine", row(RPM, TWO)) == ()
    assert store.level("d:a/two", Dimension.CONCURRENCY) == (0, 0)
    assert store.kinds() == ["open"]


def test_a_life_that_is_over_is_not_begun_again(store: Store) -> None:
    store.acquire("settled", row(RPM))
    store.settle("settled")
    store.acquire("expired", row(RPM))
    store.now_ms += TTL_MS
    store.buckets.expire(store.now_ms)
    assert adopt(store, "settled", row(SLOTS)) == ("settled",)
    assert adopt(store, "expired", row(SLOTS)) == ("expired",)
    assert store.level("k:ci", Dimension.CONCURRENCY) == (0, 0)


def test_what_was_adopted_ends_like_any_other(store: Store) -> None:
    adopt(store, "mine", row(RPM, TPM, SLOTS))
    assert store.settle("mine", figures(30, 30)) == Posted(store.now_ms, opened=True)
    assert store.level("k:ci", Dimension.CONCURRENCY) == (0, 0)
    assert store.level("k:ci", Dimension.TPM) == (60, 0)
    assert store.kinds() == ["open", "close"]


def test_who_still_waits_here_and_was_served_elsewhere_waits_no_more(store: Store) -> None:
    store.acquire("other", pooled(ONE))
    wait_for(store, "mine", pooled(SLOTS, ONE))
    wait_for(store, "next", pooled(ONE))
    assert store.progress("mine", figures()) == ("mine",)
    assert adopt(store, "mine", pooled(SLOTS, TWO)) == ()
    assert store.level("k:ci", Dimension.CONCURRENCY) == (0, 1)
    store.settle("other")
    assert store.buckets.tick(["next", "mine"], store.now_ms) == (Turn.COME, Turn.COME)
    assert isinstance(store.buckets.confirm("next", store.now_ms), Granted)


def test_a_turn_that_is_not_needed_any_more_goes_to_the_next(store: Store) -> None:
    store.acquire("other", pooled(ONE))
    wait_for(store, "mine", pooled(ONE))
    wait_for(store, "next", pooled(ONE))
    store.settle("other")
    adopt(store, "mine", pooled(TWO))
    assert isinstance(store.buckets.confirm("next", store.now_ms), Granted)


def test_a_waiter_that_was_given_up_and_was_served_elsewhere_counts_and_has_its_row(store: Store) -> None:
    for lease_id in ("adopted", "settled"):
        store.acquire("other", pooled(ONE))
        wait_for(store, lease_id, pooled(ONE))
        store.settle(lease_id, certain=False)
    adopt(store, "adopted", pooled(TWO))
    assert store.level("d:a/two", Dimension.CONCURRENCY) == (0, 1)
    assert store.settle("settled").opened
    assert store.settle("settled", certain=False).opened
    assert [event.kind for event in store.events if event.id == "settled"] == ["close"]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=20))
def test_after_a_loss_and_a_heartbeat_just_what_runs_is_held(lives: list[tuple[int, bool]]) -> None:
    before, after = Store(), Store()
    for number, ends in lives:
        lease_id = f"lease-{number}"
        if ends:
            before.settle(lease_id)
        else:
            before.acquire(lease_id, row(ONE), row(TWO))
    running = {lease.id: lease.row for lease in before.buckets.leases.values() if lease.row is not None}
    for _ in range(2):
        after.buckets.adopt([Adopt(lease_id, granted, TTL_MS, b"") for lease_id, granted in running.items()], after.now_ms)
    held = {place: bucket.held for place, bucket in before.buckets.buckets.items() if bucket.held}
    assert {place: bucket.held for place, bucket in after.buckets.buckets.items() if bucket.held} == held
    assert len(after.events) == len(running)
