"""What limits charge, and the arithmetic of one bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.catalogue import NO_LIMITS, Limits
from gateway.policy.charges import Charge, Dimension, Kind, Reach, Unit
from gateway.policy.limits import DAY_MS, EXACT, MINUTE_MS, Bucket, charges, weight

NOW_MS = 20_000 * DAY_MS + 1_000


def only(limits: Limits) -> Charge:
    (charge,) = charges("k:ci", limits, reach=Reach.REQUEST, tenant=True)
    return charge


def test_every_dimension_has_its_kind_unit_and_period() -> None:
    limits = Limits(rpm=1, tpm=2, tpm_in=3, tpm_out=4, rpd=5, concurrency=6)
    found = {charge.dimension: charge for charge in charges("k:ci", limits, reach=Reach.REQUEST, tenant=True)}
    shapes = {dimension: (charge.kind, charge.unit, charge.period_ms, charge.limit) for dimension, charge in found.items()}
    assert shapes == {
        Dimension.RPM: (Kind.RATE, Unit.REQUEST, MINUTE_MS, 1),
        Dimension.TPM: (Kind.RATE, Unit.TOTAL, MINUTE_MS, 2),
        Dimension.TPM_IN: (Kind.RATE, Unit.INPUT, MINUTE_MS, 3),
        Dimension.TPM_OUT: (Kind.RATE, Unit.OUTPUT, MINUTE_MS, 4),
        Dimension.RPD: (Kind.CALENDAR, Unit.REQUEST, DAY_MS, 5),
        Dimension.CONCURRENCY: (Kind.HELD, Unit.SLOT, 0, 6),
    }


def test_charges_say_whose_they_are() -> None:
    (charge,) = charges("om:acme:a", Limits(rpm=5), reach=Reach.MODEL, tenant=True, ends_walk=True)
    assert (charge.scope, charge.reach, charge.tenant, charge.ends_walk) == ("om:acme:a", Reach.MODEL, True, True)


def test_no_limits_charge_nothing() -> None:
    assert charges("k:ci", NO_LIMITS, reach=Reach.REQUEST, tenant=True) == ()


@pytest.mark.parametrize(
    ("limits", "capacity", "rate"),
    [
        (Limits(rpm=600), 600, 600),
        (Limits(rpm=600, burst_ratio=0.1), 60, 600),
        (Limits(rpm=100, burst_ratio=0.29), 29, 100),
        (Limits(rpm=3, burst_ratio=0.1), 1, 3),
        (Limits(rpm=10, burst_ratio=2.5), 25, 10),
        (Limits(rpm=100, strict=True), 15, 85),
        (Limits(rpm=2, strict=True), 1, 1),
        (Limits(rpm=100, strict=True, burst_ratio=0.5), 15, 85),
    ],
)
def test_burst_and_rate_of_a_limit(limits: Limits, capacity: int, rate: int) -> None:
    charge = only(limits)
    assert (charge.capacity, charge.rate) == (capacity, rate)


@given(st.integers(2, 10**9))
def test_a_strict_limit_holds_in_every_minute(limit: int) -> None:
    charge = only(Limits(rpm=limit, strict=True))
    assert charge.capacity + charge.rate == limit
    assert charge.rate >= 1


@pytest.mark.parametrize(
    "limits",
    [Limits(rpm=0), Limits(concurrency=0), Limits(rpd=-1), Limits(rpm=1, strict=True), Limits(tpm=EXACT // MINUTE_MS + 1)],
)
def test_a_limit_that_cannot_be_counted_is_refused(limits: Limits) -> None:
    with pytest.raises(ValueError, match=r"limit|range"):
        only(limits)


RATE = only(Limits(tpm=600))
DAILY = only(Limits(rpd=10))
SLOTS = only(Limits(concurrency=3))


def test_a_rate_leaks_to_the_unit_and_never_below_nothing() -> None:
    bucket = Bucket(2 * MINUTE_MS, NOW_MS)
    bucket.fold(RATE, NOW_MS + 199)
    assert (bucket.debt, bucket.level(RATE)) == (2 * MINUTE_MS - 199 * 600, 1)
    bucket.fold(RATE, NOW_MS + 10 * MINUTE_MS)
    assert bucket.debt == 0


def test_a_hold_never_leaks() -> None:
    bucket = Bucket(0, NOW_MS, held=600)
    bucket.fold(RATE, NOW_MS + DAY_MS)
    assert bucket.excess(RATE, 1) == MINUTE_MS


def test_a_day_ends_at_midnight_and_keeps_its_holds() -> None:
    bucket = Bucket(7, NOW_MS, held=3)
    midnight_ms = 20_001 * DAY_MS
    bucket.fold(DAILY, midnight_ms - 1)
    assert (bucket.debt, bucket.excess(DAILY, 1)) == (7, 1)
    assert bucket.wait_ms(DAILY, 1, midnight_ms - 1) == 1
    bucket.fold(DAILY, midnight_ms)
    assert (bucket.debt, bucket.held) == (0, 3)


def test_a_clock_that_goes_back_gives_nothing_twice() -> None:
    bucket = Bucket(600 * MINUTE_MS, NOW_MS)
    bucket.fold(RATE, NOW_MS - 5_000)
    assert (bucket.debt, bucket.at_ms) == (600 * MINUTE_MS, NOW_MS)
    assert bucket.wait_ms(RATE, 1, NOW_MS - 5_000) == 5_100
    assert bucket.reset_ms(RATE, NOW_MS - 5_000) == 65_000


@given(debt=st.integers(0, 900 * MINUTE_MS), held=st.integers(0, 500), cost=st.integers(1, 600))
def test_a_wait_is_exact(debt: int, held: int, cost: int) -> None:
    bucket = Bucket(debt, NOW_MS, held)
    if bucket.excess(RATE, cost) <= 0:
        return
    wait_ms = bucket.wait_ms(RATE, cost, NOW_MS)
    if wait_ms is None:
        assert held + cost > RATE.capacity
        return
    early, due = Bucket(debt, NOW_MS, held), Bucket(debt, NOW_MS, held)
    early.fold(RATE, NOW_MS + wait_ms - 1)
    due.fold(RATE, NOW_MS + wait_ms)
    assert early.excess(RATE, cost) > 0 >= due.excess(RATE, cost)


@given(debt=st.integers(0, 900 * MINUTE_MS), held=st.integers(0, 900))
def test_a_reset_is_exact(debt: int, held: int) -> None:
    reset_ms = Bucket(debt, NOW_MS, held).reset_ms(RATE, NOW_MS)
    posted, early = (Bucket(debt + held * weight(RATE), NOW_MS) for _ in range(2))
    posted.fold(RATE, NOW_MS + reset_ms)
    assert posted.debt == 0
    early.fold(RATE, NOW_MS + reset_ms - 1)
    assert early.debt > 0 or reset_ms == 0


def test_slots_have_neither_a_wait_nor_a_reset() -> None:
    bucket = Bucket(0, NOW_MS, held=3)
    assert bucket.excess(SLOTS, 1) == 1
    assert bucket.wait_ms(SLOTS, 1, NOW_MS) is None
    assert bucket.reset_ms(SLOTS, NOW_MS) == 0


def test_a_day_resets_at_midnight_if_there_is_anything_in_it() -> None:
    assert Bucket(0, NOW_MS).reset_ms(DAILY, NOW_MS) == 0
    assert Bucket(1, NOW_MS).reset_ms(DAILY, NOW_MS) == DAY_MS - 1_000


@given(st.sampled_from((RATE, DAILY)), st.integers(0, 700), st.lists(st.integers(-500, 90_000), max_size=6))
def test_folding_in_steps_is_folding_at_once(charge: Charge, units: int, steps_ms: list[int]) -> None:
    stepped = Bucket(units * weight(charge), NOW_MS)
    at_once = Bucket(units * weight(charge), NOW_MS)
    now_ms = latest_ms = NOW_MS
    for step_ms in steps_ms:
        now_ms += step_ms
        before_ms = stepped.at_ms
        stepped.fold(charge, now_ms)
        latest_ms = max(latest_ms, now_ms)
        assert stepped.at_ms >= before_ms
    at_once.fold(charge, latest_ms)
    assert stepped == at_once


@given(debt=st.integers(0, 900 * MINUTE_MS), held=st.integers(0, 700), cost=st.integers(1, 700), more=st.integers(1, 500))
def test_a_larger_limit_never_refuses_more(debt: int, held: int, cost: int, more: int) -> None:
    larger = only(Limits(tpm=600 + more))
    mine, theirs = Bucket(debt, NOW_MS - 70, held), Bucket(debt, NOW_MS - 70, held)
    mine.fold(RATE, NOW_MS)
    theirs.fold(larger, NOW_MS)
    assert theirs.excess(larger, cost) <= mine.excess(RATE, cost)
