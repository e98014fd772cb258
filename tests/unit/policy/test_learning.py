from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.admission import Lesson
from gateway.policy.answers import Learned
from gateway.policy.learning import BOUNDS, BUCKETS, KEPT_DAYS, MOST_SAMPLES, SMOOTHING, Learning
from gateway.policy.limits import DAY_MS
from gateway.wire.prompts import USUAL_RATIO_PPM

NOW_MS = 20_000 * DAY_MS
LENGTHS = st.integers(1, BOUNDS[-1])


def bucket(output_tokens: int) -> int:
    return next(place for place, bound in enumerate(BOUNDS) if output_tokens <= bound)


def taught(learning: Learning, *lengths: int, org: str = "acme", now_ms: int = NOW_MS) -> Learned:
    found = Learned()
    for length in lengths:
        found = learning.learn(Lesson(org, "m", output_tokens=length), now_ms)
    return found


def test_buckets_grow_by_an_eighth_beyond_what_any_hold_is_for() -> None:
    assert (BOUNDS[0], BOUNDS[-1], len(BOUNDS)) == (128, 8_679, BUCKETS)
    assert all(8 * other <= 9 * bound < 8 * other + 8 for bound, other in pairwise(BOUNDS))


@given(st.lists(LENGTHS, min_size=1, max_size=MOST_SAMPLES - 1))
def test_the_percentile_is_the_bound_of_the_true_ones_bucket(lengths: list[int]) -> None:
    true = sorted(lengths)[ceil(0.95 * len(lengths)) - 1]
    assert taught(Learning(), *lengths) == Learned(USUAL_RATIO_PPM, BOUNDS[bucket(true)], len(lengths))


@pytest.mark.parametrize(("before", "since"), [(100, 5_000), (8_000, 300)])
def test_what_is_recent_replaces_what_was(before: int, since: int) -> None:
    learning = Learning()
    taught(learning, *[before] * 2 * MOST_SAMPLES)
    found = taught(learning, *[since] * 4 * MOST_SAMPLES)
    assert found.p95_tokens == BOUNDS[bucket(since)]
    assert MOST_SAMPLES // 3 < found.samples < MOST_SAMPLES


@given(st.lists(LENGTHS, max_size=30), st.lists(LENGTHS, min_size=1, max_size=30))
def test_an_orgs_answers_are_its_own(others: list[int], own: list[int]) -> None:
    learning = Learning()
    taught(learning, *others, org="other")
    assert taught(learning, *own) == taught(Learning(), *own)


@given(st.lists(st.integers(150_000, 1_000_000), min_size=1))
def test_the_ratio_stays_between_the_figures_that_it_is_a_mean_of(ratios: list[int]) -> None:
    learning, found = Learning(), Learned()
    for ratio in ratios:
        found = learning.learn(Lesson("acme", "m", ratio), NOW_MS)
    assert min(*ratios, USUAL_RATIO_PPM) <= found.ratio_ppm <= max(*ratios, USUAL_RATIO_PPM)
    for _ in range(300):
        found = learning.learn(Lesson("other", "m", ratios[-1]), NOW_MS)
    assert abs(found.ratio_ppm - ratios[-1]) < SMOOTHING


def test_what_nobody_adds_to_is_forgotten() -> None:
    learning = Learning()
    taught(learning, 500, 500)
    assert taught(learning, 500, now_ms=NOW_MS + KEPT_DAYS * DAY_MS).samples == 3
    assert taught(learning, 500, now_ms=NOW_MS + (2 * KEPT_DAYS + 1) * DAY_MS).samples == 1
