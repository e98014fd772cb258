"""What an operator reads of a deployment."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.policy.admission import Upstream
from gateway.policy.standing import standing
from gateway.policy.upstreams import Condition

NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 5_000
LATER = datetime(2023, 11, 14, 22, 13, 25, tzinfo=UTC)


@pytest.mark.parametrize(
    ("condition", "cooled_until_ms", "state"),
    [
        (Condition(), 0, "well"),
        (Condition(failures=3), NOW_MS, "well"),
        (Condition(slots_milli=2_700), 0, "lowered"),
        (Condition(open_until_ms=NOW_MS, slots_milli=2_700), 0, "half_open"),
        (Condition(open_until_ms=LATER_MS), 0, "open"),
        (Condition(open_until_ms=LATER_MS), LATER_MS, "cooling"),
        (Condition(cooled_until_ms=LATER_MS), 0, "cooling"),
        (Condition(disabled=True, cooled_until_ms=LATER_MS), 0, "disabled"),
    ],
)
def test_what_weighs_most_is_named(condition: Condition, cooled_until_ms: int, state: str) -> None:
    assert standing(Upstream("d", "p"), condition, {"p": cooled_until_ms}, NOW_MS).state == state


def test_times_that_are_over_are_none_and_the_later_cooldown_counts() -> None:
    found = standing(Upstream("d", "p"), Condition(cooled_until_ms=NOW_MS + 1, open_until_ms=NOW_MS), {"p": LATER_MS}, NOW_MS)
    assert (found.cooling_until, found.breaker_open_until) == (LATER, None)


@pytest.mark.parametrize(
    ("slots", "milli", "told"), [(8, 0, (8, 8)), (8, 5_600, (5, 8)), (0, 0, (None, None)), (0, 7_000, (7, None))]
)
def test_a_ceiling_is_told_beside_what_was_declared(slots: int, milli: int, told: tuple[int | None, int | None]) -> None:
    found = standing(Upstream("d", "p", slots), Condition(slots_milli=milli), {"p": 0}, NOW_MS)
    assert (found.slots, found.slots_declared) == told


def test_of_several_credentials_each_is_told_and_the_deployment_is_left_alone_until_the_first_is_back() -> None:
    upstream, sooner_ms = Upstream("d", "p"), NOW_MS + 2_000
    found = standing(upstream, Condition(), {"p": LATER_MS, "p#2": -sooner_ms, "p#3": NOW_MS}, NOW_MS)
    assert [(each.name, each.state, each.until) for each in found.credentials] == [
        ("p", "cooling", LATER),
        ("p#2", "refused", LATER - timedelta(seconds=3)),
        ("p#3", "well", None),
    ]
    assert (found.state, found.cooling_until) == ("well", None)
    found = standing(upstream, Condition(), {"p": LATER_MS, "p#2": -sooner_ms}, NOW_MS)
    assert (found.state, found.cooling_until) == ("cooling", LATER - timedelta(seconds=3))
