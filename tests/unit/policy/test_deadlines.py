import pytest

from gateway.errors import InvalidValue
from gateway.policy.deadlines import LONGEST_S, Deadline, deadline


def test_without_a_word_the_longest() -> None:
    assert deadline({}, 100.0, stream=True) == Deadline(100.0 + LONGEST_S, None)


def test_an_explicit_word_ends_streams_too() -> None:
    assert deadline({b"x-request-timeout": b"2.5"}, 100.0, stream=True) == Deadline(102.5, 102.5)


def test_an_explicit_word_never_delays_the_commit_beyond_the_longest() -> None:
    assert deadline({b"x-request-timeout": b"1000"}, 0.0, stream=True) == Deadline(LONGEST_S, 1000.0)


def test_an_sdks_own_timeout_counts_on_unary_calls_less_a_margin() -> None:
    headers = {b"x-stainless-read-timeout": b"30"}
    assert deadline(headers, 0.0, stream=False) == Deadline(28.0, None)
    assert deadline(headers, 0.0, stream=True) == Deadline(LONGEST_S, None)


def test_a_short_sdk_timeout_keeps_half() -> None:
    assert deadline({b"x-stainless-read-timeout": b"3"}, 0.0, stream=False) == Deadline(1.5, None)


def test_the_explicit_word_wins() -> None:
    headers = {b"x-stainless-read-timeout": b"30", b"x-request-timeout": b"5"}
    assert deadline(headers, 0.0, stream=False).commit_s == 5.0


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"0", b"nan", b"inf"])
def test_nonsense_is_refused_where_it_was_explicit(value: bytes) -> None:
    with pytest.raises(InvalidValue) as raised:
        deadline({b"x-request-timeout": value}, 0.0, stream=True)
    assert raised.value.param == "x-request-timeout"
    assert deadline({b"x-stainless-read-timeout": value}, 0.0, stream=False).commit_s == LONGEST_S
