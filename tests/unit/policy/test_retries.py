"""The retry budget: never more than its share of any ten seconds, and never less than three a second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.faults import Failed, Fault
from gateway.policy.retries import LEAST, WINDOW_S, RetryBudget, repeats_work

RATIOS = st.floats(0.01, 0.99)
# One step: how many seconds pass (some back), how many requests come, and how often more is asked for than any share gives.
STEPS = st.lists(st.tuples(st.floats(-3, 4) | st.just(0.0), st.integers(0, 400), st.integers(0, 60)), max_size=30)


def taken(budget: RetryBudget, now_s: float, times: int, pool: str = "m") -> int:
    return sum(budget.allows(pool, now_s) for _ in range(times))


def ask(budget: RetryBudget, now_s: float, times: int, pool: str = "m") -> None:
    for _ in range(times):
        budget.request(pool, now_s)


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        *((Failed(fault=fault), False) for fault in (Fault.BUSY, Fault.ACCOUNT_RATE, Fault.REJECTED, Fault.CONNECT, Fault.TLS)),
        *((Failed(fault=fault), True) for fault in (Fault.TIMEOUT, Fault.RESET, Fault.SERVER, Fault.BAD_ANSWER, Fault.WRITE)),
        (Failed(fault=Fault.TIMEOUT, sent=False), False),
        (Failed(fault=Fault.WRITE, sent=False), False),
    ],
)
def test_work_is_repeated_where_the_provider_may_have_done_it(failed: Failed, expected: bool) -> None:
    assert repeats_work(failed) is expected


def test_little_traffic_may_repeat_three_a_second() -> None:
    budget = RetryBudget(0.1)
    assert [taken(budget, second + 0.5, 3) for second in range(100)] == [3] * 100
    assert taken(budget, 99.9, 1) == 0


def test_much_traffic_may_repeat_its_share_and_no_more() -> None:
    budget = RetryBudget(0.1)
    ask(budget, 0, 1000)
    assert taken(budget, 5, 200) == 100
    assert taken(budget, 9.9, 1) == 0


def test_what_is_older_than_ten_seconds_counts_no_more() -> None:
    budget = RetryBudget(0.1)
    ask(budget, 0.9, 1000)
    assert taken(budget, 9.9, 200) == 100
    assert taken(budget, 10, 1) == 0
    assert taken(budget, 18.9, 1) == 0
    assert taken(budget, 19, 200) == LEAST
    assert taken(budget, 1e9, 200) == LEAST


def test_pools_do_not_share_a_budget() -> None:
    budget = RetryBudget(0.1)
    assert [taken(budget, 0, 100, pool) for pool in ("a", "b")] == [LEAST, LEAST]


def test_a_share_of_everything_is_no_bound() -> None:
    assert taken(RetryBudget(1.0), 0, 1000) == 1000


@given(RATIOS, STEPS)
def test_ten_seconds_hold_their_share_or_the_least_and_nothing_less_is_refused(
    ratio: float, steps: list[tuple[float, int, int]]
) -> None:
    budget, now_s, latest = RetryBudget(ratio), 100.0, 100
    requests, repeats = dict[int, int](), dict[int, int]()

    def last(counts: dict[int, int]) -> int:
        return sum(count for second, count in counts.items() if second > latest - WINDOW_S)

    for passed_s, asked, tried in steps:
        now_s += passed_s
        latest = max(latest, int(now_s))
        ask(budget, now_s, asked)
        requests[latest] = requests.get(latest, 0) + asked
        room = max(0, max(LEAST, int(ratio * last(requests))) - last(repeats))
        allowed = taken(budget, now_s, tried)
        assert allowed == min(tried, room)
        repeats[latest] = repeats.get(latest, 0) + allowed


@given(RATIOS, st.floats(0, 100), st.lists(st.floats(0, 100), max_size=20))
def test_a_clock_that_goes_back_gives_nothing_extra(ratio: float, now_s: float, back_s: list[float]) -> None:
    budget = RetryBudget(ratio)
    assert taken(budget, now_s, 2 * LEAST) == LEAST
    assert sum(taken(budget, now_s - back, 1) for back in back_s) == 0
