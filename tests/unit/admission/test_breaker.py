"""The store is left alone when it does not do its work, and not for less."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.breaker import ERRORS, ERRORS_S, UNANSWERED, StoreBreaker


def test_it_opens_once_at_so_many_unanswered_calls_in_a_row_and_closes_once() -> None:
    breaker = StoreBreaker()
    for _ in range(2):
        opened = [breaker.failed(7.0, with_error=False) for _ in range(UNANSWERED + 1)]
        assert opened == [*[False] * (UNANSWERED - 1), True, False]
        breaker.answered()
        assert breaker.is_open
        assert [breaker.close(), breaker.close()] == [True, False]
        assert not breaker.is_open


def test_calls_that_are_answered_between_begin_the_row_anew() -> None:
    breaker = StoreBreaker()
    for _ in range(3):
        assert not any(breaker.failed(0.0, with_error=False) for _ in range(UNANSWERED - 1))
        breaker.answered()
    assert not breaker.is_open


def test_errors_open_it_if_they_come_fast_whatever_is_answered_between() -> None:
    slow, fast = StoreBreaker(), StoreBreaker()
    for number in range(2 * ERRORS):
        assert not slow.failed(number * ERRORS_S / (ERRORS - 2), with_error=True)
        assert fast.failed(number * ERRORS_S / (ERRORS - 1), with_error=True) == (number == ERRORS - 1)
        slow.answered()
        fast.answered()


@given(st.lists(st.sampled_from(["close", "error", "nothing"]), max_size=60))
def test_it_says_each_change_once(heard: list[str]) -> None:
    breaker = StoreBreaker()
    for now_s, each in enumerate(heard):
        was_open = breaker.is_open
        changed = breaker.close() if each == "close" else breaker.failed(now_s / 10, with_error=each == "error")
        assert changed == (breaker.is_open != was_open)
        assert not (each == "close" and breaker.is_open)
