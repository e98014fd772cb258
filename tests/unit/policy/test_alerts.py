"""When an operator is to hear of a budget, and what."""

import pytest

from gateway.policy.alerts import Alert, alert, is_due
from gateway.policy.catalogue import Budget
from gateway.policy.limits import budget_charges
from gateway.policy.periods import DAY_MS

NOON_MS = 1_790_942_400_000
"""12:00 UTC of a Friday, 2026-10-02."""

MIDNIGHT_MS = NOON_MS + DAY_MS // 2


@pytest.mark.parametrize(
    ("capacity", "alert_ppm", "least"),
    [(100, 800_000, 80), (1, 800_000, 1), (3, 500_000, 2), (7, 1_000_000, 7), (10**15, 1, 10**9), (0, 800_000, 1)],
)
def test_it_is_due_from_the_share_on_and_never_before_anything_is_spent(capacity: int, alert_ppm: int, least: int) -> None:
    for charge in budget_charges("kb:ci", Budget(nano_usd=capacity, tokens=capacity, alert_ppm=alert_ppm)):
        assert [is_due(charge, spent) for spent in (0, least - 1, least, capacity + 1)] == [False, False, True, True]


def test_an_alert_says_whose_budget_it_is_and_how_far_it_is() -> None:
    money, tokens = budget_charges("pb:acme:search", Budget(nano_usd=100, tokens=50, period="day", alert_ppm=900_000))
    assert alert(money, 91, NOON_MS) == Alert(
        name=f"pb:day:acme:search:{MIDNIGHT_MS}:100:900000",
        scope="project",
        whose="acme/search",
        period="day",
        share=0.9,
        unit="nano_usd",
        limit=100,
        spent=91,
        ends_ms=MIDNIGHT_MS,
    )
    found = alert(tokens, 45, NOON_MS)
    assert (found.whose, found.unit, found.limit, found.spent) == ("acme/search", "tokens", 50, 45)
    assert found.name == f"pb:day:acme:search:tokens:{MIDNIGHT_MS}:50:900000"


@pytest.mark.parametrize(("owner", "scope", "whose"), [("kb:ci", "key", "ci"), ("ob:acme", "org", "acme")])
def test_keys_and_orgs_are_named(owner: str, scope: str, whose: str) -> None:
    for charge in budget_charges(owner, Budget(nano_usd=1, tokens=1)):
        found = alert(charge, 1, NOON_MS)
        assert (found.scope, found.whose) == (scope, whose)


def test_each_period_and_each_amount_has_its_own() -> None:
    of = [budget_charges("kb:ci", Budget(tokens=amount, period="day"))[0] for amount in (50, 60)]
    names = {alert(charge, 60, at_ms).name for charge in of for at_ms in (NOON_MS, NOON_MS + 1, NOON_MS + DAY_MS)}
    assert len(names) == 4
