from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.pace import FADES_S, FAULT, LONGEST_S, MOST_S, NEWEST, Pace, after_answer, after_departure, after_fault

ANSWERS = st.lists(st.tuples(st.floats(0.001, 100), st.integers(1, 5_000), st.floats(0, 1_000)), min_size=1, max_size=30)
"""What answers took and brought, and the time between two of them."""


def paced(*seconds: float, units: float = 1, now_s: float = 0) -> Pace:
    """The pace of answers that came one right after the other."""
    found: Pace | None = None
    for each in seconds:
        found = after_answer(found, each, units, now_s)
    assert found is not None
    return found


@given(ANSWERS)
def test_the_mean_lies_between_what_was_told(answers: list[tuple[float, int, float]]) -> None:
    pace, now_s = None, 0.0
    for seconds, units, pause_s in answers:
        now_s += pause_s
        pace = after_answer(pace, seconds, units, now_s)
    assert pace is not None
    told = [seconds / units for seconds, units, _ in answers]
    assert min(told) * 0.999 <= pace.sum_s / pace.units <= max(told) * 1.001
    assert min(told) * 0.999 <= pace.seconds <= told[-1] * 1.001, "never slower than the latest, which one answer may change"
    assert 1 <= pace.answers <= 1 / NEWEST


def test_the_newest_counts_for_its_share_and_for_more_where_the_rest_is_old() -> None:
    many = paced(*[1.0] * 100)
    assert after_answer(many, 2.0, 1, 0).sum_s / after_answer(many, 2.0, 1, 0).units == pytest.approx(1 + NEWEST)
    later = after_answer(many, 2.0, 1, 10 * FADES_S)
    assert later.sum_s / later.units > 1.99


def test_a_short_answer_tells_as_little_as_there_is_of_it() -> None:
    steady = paced(*[1.0] * 50, units=100)
    assert after_answer(steady, 0.5, 1, 0).seconds < 1.5 * steady.seconds, "half a second for one token is no slow deployment"


def test_one_answer_is_enough_to_see_that_it_has_become_fast_and_a_few_that_it_has_become_slow() -> None:
    assert paced(*[10.0] * 50, 1.0).seconds == 1.0
    assert paced(*[1.0] * 50, 10.0).seconds == pytest.approx(1 + 9 * NEWEST)
    assert paced(*[1.0] * 50, *[10.0] * 6).seconds > 8


@given(st.floats(0.01, 100), st.floats(0, 10_000), st.floats(0, 10_000))
def test_it_fades_with_time_and_never_grows(seconds: float, one_s: float, other_s: float) -> None:
    pace = paced(seconds, now_s=100.0)
    sooner, later = sorted((one_s, other_s))
    assert pace.seconds >= pace.faded(100 + sooner) >= pace.faded(100 + later) >= 0
    assert pace.faded(0) == pace.seconds, "a clock that stands before it"
    assert pace.faded(100 + FADES_S) == pytest.approx(pace.seconds / 2)


@given(st.one_of(st.none(), st.builds(paced, st.floats(0.01, 100))), st.floats(0, 900))
def test_a_fault_counts_as_slow(pace: Pace | None, seconds: float) -> None:
    after = after_fault(pace, seconds, 0)
    assert after.seconds >= (LONGEST_S if pace is None else pace.seconds * 0.999)
    assert after.seconds * (1 + FAULT) >= seconds


def test_faults_in_a_row_make_it_slower_each_time_up_to_a_bound() -> None:
    pace = paced(1.0, units=50)
    seen = [pace.seconds]
    for _ in range(300):
        pace = after_fault(pace, 0.01, 0)
        seen.append(pace.seconds)
    assert seen == sorted(seen)
    assert seen[1] == pytest.approx(seen[0] * (0.75 + FAULT) / 1.75)
    assert MOST_S / 50 * 0.9 < seen[-1] <= MOST_S / 50 * 1.001
    assert after_answer(pace, 1.0, 50, 0).seconds == pytest.approx(1 / 50), "and one answer tells that it is well again"


def test_whoever_leaves_tells_something_only_where_others_had_their_answer() -> None:
    pace = paced(2.0)
    assert after_departure(pace, 1.9, 5.0) is pace
    assert after_departure(pace, 20.0, 5.0).seconds > 8
    assert after_departure(None, 0.1, 5.0).seconds == LONGEST_S, "nobody had one: others are not sent after it"
    assert after_departure(None, 100.0, 5.0).seconds == 100.0


def test_nothing_is_as_slow_as_never() -> None:
    assert paced(MOST_S).seconds < inf
