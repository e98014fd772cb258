import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.headroom import MOST_WAIT_MS, RESETS, exhausted_ms

DATE = b"Wed, 21 Oct 2026 07:28:00 GMT"
OPENAI = {
    b"x-ratelimit-limit-requests": b"60",
    b"x-ratelimit-limit-tokens": b"150000",
    b"x-ratelimit-remaining-requests": b"59",
    b"x-ratelimit-remaining-tokens": b"149984",
    b"x-ratelimit-reset-requests": b"1s",
    b"x-ratelimit-reset-tokens": b"6m0s",
}
ANTHROPIC = {
    b"date": DATE,
    b"anthropic-ratelimit-requests-remaining": b"999",
    b"anthropic-ratelimit-requests-reset": b"2026-10-21T07:27:59Z",
    b"anthropic-ratelimit-tokens-remaining": b"96000",
    b"anthropic-ratelimit-tokens-reset": b"2026-10-21T07:28:20Z",
    b"anthropic-ratelimit-input-tokens-remaining": b"80000",
    b"anthropic-ratelimit-input-tokens-reset": b"2026-10-21T07:28:10+00:00",
    b"anthropic-ratelimit-output-tokens-remaining": b"16000",
    b"anthropic-ratelimit-output-tokens-reset": b"2026-10-21T09:28:05.5+02:00",
}


def spent(reset: bytes) -> dict[bytes, bytes]:
    return {b"x-ratelimit-remaining-tokens": b"0", b"x-ratelimit-reset-tokens": reset}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({b"content-type": b"application/json", b"date": DATE}, None),
        (OPENAI, None),
        (OPENAI | {b"x-ratelimit-remaining-requests": b"0"}, 1000),
        (OPENAI | {b"x-ratelimit-remaining-tokens": b"0"}, 360_000),
        (OPENAI | {b"x-ratelimit-remaining-requests": b"0", b"x-ratelimit-remaining-tokens": b"0"}, 360_000),
        (OPENAI | {b"x-ratelimit-remaining-tokens": b"-12"}, 360_000),
        ({b"x-ratelimit-remaining": b"0", b"x-ratelimit-reset": b"1"}, 1000),
        ({b"x-ratelimit-remaining": b"1", b"x-ratelimit-reset": b"1"}, None),
        (
            {b"x-ratelimit-remaining-requests-day": b"0", b"x-ratelimit-reset-requests-day": b"33011.382867097855"},
            33_011_383,
        ),
        (
            {b"x-ratelimit-remaining-tokens-minute": b"0", b"x-ratelimit-reset-tokens-minute": b"11.382867097854614"},
            11_383,
        ),
        (ANTHROPIC, None),
        (ANTHROPIC | {b"anthropic-ratelimit-tokens-remaining": b"0"}, 20_000),
        (ANTHROPIC | {b"anthropic-ratelimit-input-tokens-remaining": b"0"}, 10_000),
        (ANTHROPIC | {b"anthropic-ratelimit-output-tokens-remaining": b"0"}, 5_500),
    ],
)
def test_what_each_provider_says(headers: dict[bytes, bytes], expected: int | None) -> None:
    assert exhausted_ms(headers) == expected


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({b"x-ratelimit-remaining-requests": b"0", b"x-ratelimit-remaining-tokens": b"0"}, id="no reset"),
        pytest.param(spent(b"0") | {b"x-ratelimit-remaining-tokens": b"-1"}, id="Azure, of what it does not count"),
        pytest.param({b"x-ratelimit-remaining-tokens-prompt": b"0", b"x-ratelimit-over-limit": b"yes"}, id="Fireworks"),
        pytest.param({b"x-ratelimit-remaining-req-minute": b"0"}, id="Mistral"),
        pytest.param(ANTHROPIC | {b"anthropic-ratelimit-requests-remaining": b"0"}, id="reset is past"),
        pytest.param(ANTHROPIC | {b"anthropic-ratelimit-tokens-remaining": b"0", b"date": b""}, id="no date to read it against"),
        pytest.param(
            ANTHROPIC
            | {b"anthropic-ratelimit-tokens-remaining": b"0", b"anthropic-ratelimit-tokens-reset": b"2026-10-21T07:28:20"},
            id="no zone",
        ),
    ],
)
def test_nothing_left_without_a_time_is_nothing_to_go_by(headers: dict[bytes, bytes]) -> None:
    assert exhausted_ms(headers) is None


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        (b"12ms", 12),
        (b"1.5s", 1500),
        (b"7.66s", 7660),
        (b"2m59.56s", 179_560),
        (b"1h2m3s", 3_723_000),
        (b"350us", 1),
        (b"20ns", 1),
        (b"1", 1000),
        (b"0.5", 500),
        (b"100h", MOST_WAIT_MS),
        (b"999999999", MOST_WAIT_MS),
        (b"1792567709", None),
        (b"1792567709000", None),
        (b"0", None),
        (b"0s", None),
        (b"-1s", None),
        (b"-5", None),
        (b"nan", None),
        (b"inf", None),
        (b"1e300", None),
        (b"1_0", None),
        (b" 1", None),
        (b"1m30", None),
        (b"1 s", None),
        (b"s", None),
        (b".s", None),
        (b"", None),
        (b"\xc2\xb5s", None),
        (b"\xff\xfe", None),
        (b"\xd9\xa1", None),
        (b"9" * 400, None),
        (b"1s" * 300, None),
    ],
)
def test_a_reset(reset: bytes, expected: int | None) -> None:
    assert exhausted_ms(spent(reset)) == expected


@pytest.mark.parametrize("left", [b"", b"nan", b"-inf", b"0x0", b"0.5", b"none", b"\xff", b"0" * 400, b"-" + b"1" * 400, b"-"])
def test_what_is_left_has_to_be_a_number_to_be_nothing(left: bytes) -> None:
    assert exhausted_ms(OPENAI | {b"x-ratelimit-remaining-tokens": left}) is None


def test_one_broken_reset_does_not_hide_another() -> None:
    headers = OPENAI | {b"x-ratelimit-remaining-requests": b"0", b"x-ratelimit-remaining-tokens": b"0"}
    assert exhausted_ms(headers | {b"x-ratelimit-reset-tokens": b"soon"}) == 1000


VALUES = st.binary(max_size=40) | st.sampled_from(
    [b"0", b"-1", b"5", b"6m0s", b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", DATE]
)
NAMES = st.sampled_from([b"date", *RESETS, *RESETS.values()])


@given(st.dictionaries(NAMES, VALUES))
def test_whatever_it_says_is_a_wait_of_a_day_at_the_most_or_none(headers: dict[bytes, bytes]) -> None:
    wait_ms = exhausted_ms(headers)
    assert wait_ms is None or 0 < wait_ms <= MOST_WAIT_MS
