"""Rates that grow with use: the scale after a window, and a bucket over several of them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.answers import Growth
from gateway.policy.catalogue import Dynamic, Limits
from gateway.policy.charges import Charge, Reach
from gateway.policy.growth import BASE_MILLI, at_scale, next_scale, window_quota
from gateway.policy.limits import DAY_MS, MINUTE_MS, Bucket, charges, weight

NOW_MS = 20_000 * DAY_MS
WINDOW_MS = 2 * MINUTE_MS
DYNAMIC = Dynamic(window_ms=WINDOW_MS, ceiling_milli=2_000)


def only(limits: Limits) -> Charge:
    (charge,) = charges("k:ci", limits, reach=Reach.REQUEST, tenant=True)
    return charge


CHARGE = only(Limits(rpm=100, dynamic=DYNAMIC))
STRICT = only(Limits(rpm=100, strict=True, dynamic=DYNAMIC))


@pytest.mark.parametrize(
    ("scale_milli", "posted", "after_milli"),
    [
        pytest.param(1000, 160, 1200, id="four fifths of 200"),
        pytest.param(1000, 159, 1000, id="less than that"),
        pytest.param(1200, 160, 1440, id="it is asked for once more"),
        pytest.param(1800, 200, 2000, id="up to the ceiling"),
        pytest.param(1800, 101, 1800, id="more than half"),
        pytest.param(1800, 100, 1200, id="half"),
        pytest.param(1200, 0, 1000, id="never below the base"),
        pytest.param(3000, 150, 2000, id="a ceiling that was lowered"),
    ],
)
def test_a_window_makes_the_next_scale(scale_milli: int, posted: int, after_milli: int) -> None:
    assert next_scale(DYNAMIC, scale_milli, posted, 200) == after_milli


def test_a_window_that_can_give_nothing_is_no_reason_to_grow() -> None:
    assert next_scale(DYNAMIC, 1000, 0, 0) == 1000


@given(st.integers(1000, 2000), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_scale_stays_between_base_and_ceiling(scale_milli: int, posted: int, quota: int) -> None:
    after_milli = next_scale(DYNAMIC, scale_milli, posted, quota)
    assert BASE_MILLI <= after_milli <= DYNAMIC.ceiling_milli
    assert Fraction(2, 3) * scale_milli - 1 < after_milli <= Fraction(6, 5) * scale_milli


@given(st.integers(2, 10**6), st.integers(1000, 2000))
def test_a_strict_limit_is_one_at_every_scale(limit: int, scale_milli: int) -> None:
    charge = at_scale(only(Limits(tpm=limit, strict=True, dynamic=DYNAMIC)), scale_milli)
    assert charge.capacity + charge.rate <= charge.limit == limit * scale_milli // BASE_MILLI


def test_burst_rate_and_limit_grow_alike() -> None:
    charge = at_scale(STRICT, 1440)
    assert (charge.capacity, charge.rate, charge.limit) == (21, 122, 144)
    assert window_quota(charge, DYNAMIC) == 244
    assert at_scale(STRICT, BASE_MILLI) is STRICT


def used(charge: Charge, units: int, at_ms: int = NOW_MS) -> Bucket:
    """Return a bucket whose first window has seen so much use."""
    bucket = Bucket()
    bucket.fold(charge, at_ms)
    bucket.post(charge, units)
    return bucket


def test_a_window_begins_with_the_first_use_and_ends_a_window_later() -> None:
    bucket = used(CHARGE, 160)
    bucket.fold(CHARGE, NOW_MS + WINDOW_MS - 1)
    assert bucket.growth(CHARGE, NOW_MS + WINDOW_MS - 1) == Growth(1000, 160, 1)
    bucket.fold(CHARGE, NOW_MS + WINDOW_MS)
    assert bucket.growth(CHARGE, NOW_MS + WINDOW_MS) == Growth(1200, 0, WINDOW_MS)


def test_a_window_without_use_at_the_base_does_not_count_down() -> None:
    bucket = Bucket()
    for now_ms in (NOW_MS, NOW_MS + 7, NOW_MS + 5 * WINDOW_MS):
        bucket.fold(CHARGE, now_ms)
        assert bucket.growth(CHARGE, now_ms) == Growth(1000, 0, WINDOW_MS)


def test_each_window_without_use_divides_once() -> None:
    bucket = used(CHARGE, 200)
    for windows, scale_milli in ((1, 1200), (2, 1000), (9, 1000)):
        bucket.fold(CHARGE, NOW_MS + windows * WINDOW_MS)
        assert bucket.scale_milli == scale_milli
    bucket = Bucket(at_ms=NOW_MS, scale_milli=2000, began_ms=NOW_MS, posted=400)
    bucket.fold(CHARGE, NOW_MS + 3 * WINDOW_MS)
    assert bucket.scale_milli == 1000


def test_what_was_posted_leaks_at_the_rate_of_its_window() -> None:
    """At the end of its window 1,000 of 1,200 are left; then 120 a minute go, not 100."""
    bucket = used(CHARGE, 1_200)
    bucket.fold(CHARGE, NOW_MS + WINDOW_MS + MINUTE_MS)
    assert (bucket.level(CHARGE), bucket.debt) == (880, 880 * MINUTE_MS)


def test_a_limit_without_growth_has_none() -> None:
    fixed = only(Limits(rpm=100))
    bucket = used(fixed, 160)
    bucket.fold(fixed, NOW_MS + WINDOW_MS)
    assert bucket.growth(fixed, NOW_MS) is None
    assert bucket.in_force(fixed) is fixed


@pytest.mark.parametrize("rpm", [2**37 // 60, 10_000_000_000])
def test_a_limit_whose_ceiling_cannot_be_counted_is_refused(rpm: int) -> None:
    only(Limits(rpm=rpm))
    with pytest.raises(ValueError, match="out of range"):
        only(Limits(rpm=rpm, dynamic=Dynamic(window_ms=DAY_MS, ceiling_milli=100_000)))


def test_days_and_slots_do_not_grow() -> None:
    found = charges("k:ci", Limits(rpd=5, concurrency=2, dynamic=DYNAMIC), reach=Reach.REQUEST, tenant=True)
    assert [charge.dynamic for charge in found] == [None, None]


STEPS = st.lists(st.tuples(st.integers(0, WINDOW_MS), st.integers(0, 60)), max_size=16)


@given(st.sampled_from((CHARGE, STRICT)), STEPS)
def test_no_stretch_passes_burst_and_rate_of_the_scales_in_force(charge: Charge, steps: list[tuple[int, int]]) -> None:
    """What was admitted since any instant is at most a burst and what leaked meanwhile, both at the highest scale till then."""
    bucket, now_ms = Bucket(), NOW_MS
    admitted: list[tuple[int, int]] = []
    highest_milli = BASE_MILLI
    for step_ms, units in steps:
        now_ms += step_ms
        bucket.fold(charge, now_ms)
        assert BASE_MILLI <= bucket.scale_milli <= DYNAMIC.ceiling_milli
        highest_milli = max(highest_milli, bucket.scale_milli)
        if bucket.excess(bucket.in_force(charge), units) <= 0:
            bucket.post(charge, units)
            admitted.append((now_ms, units))
    most = at_scale(charge, highest_milli)
    for at, (first_ms, _) in enumerate(admitted):
        in_all = 0
        for last_ms, units in admitted[at:]:
            in_all += units
            assert in_all * weight(most) <= most.capacity * weight(most) + most.rate * (last_ms - first_ms)


@given(STEPS, st.lists(st.integers(1, 3 * WINDOW_MS), max_size=6))
def test_looking_often_is_looking_once(steps: list[tuple[int, int]], looks_ms: list[int]) -> None:
    bucket, now_ms = Bucket(), NOW_MS
    for step_ms, units in steps:
        now_ms += step_ms
        bucket.fold(CHARGE, now_ms)
        bucket.post(CHARGE, units)
    often, once = (Bucket(bucket.debt, bucket.at_ms, 0, bucket.scale_milli, bucket.began_ms, bucket.posted) for _ in range(2))
    for look_ms in looks_ms:
        now_ms += look_ms
        often.fold(CHARGE, now_ms)
    often.fold(CHARGE, now_ms + 1)
    once.fold(CHARGE, now_ms + 1)
    assert often == once
