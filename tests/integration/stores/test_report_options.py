import pytest

from gateway.stores.reports import parse_by, parse_since

NOW = 1_790_000_000_000


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("90m", NOW - 90 * 60_000),
        ("24h", NOW - 86_400_000),
        ("7d", NOW - 7 * 86_400_000),
        ("2026-11-01", 1_793_491_200_000),
        ("2026-11-01T12:00:00Z", 1_793_534_400_000),
        ("2026-11-01T12:00:00+02:00", 1_793_527_200_000),
    ],
)
def test_an_instant_is_a_date_a_time_or_how_long_ago(text: str, instant: int) -> None:
    assert parse_since(text, NOW) == instant


@pytest.mark.parametrize("text", ["", "yesterday", "7w", "2026-13-01", "-1d"])
def test_what_is_no_instant_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write 7d"):
        parse_since(text, NOW)


def test_dimensions_are_a_list_without_repeats() -> None:
    assert parse_by("request") == ("request",)
    assert parse_by("org, month,org") == ("org", "month")


@pytest.mark.parametrize("text", ["", "request,org", "colour", "org;drop"])
def test_other_dimensions_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match="org, key, project, model"):
        parse_by(text)
