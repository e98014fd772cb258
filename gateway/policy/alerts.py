"""When an operator is to hear that a budget nears its end, and of what. Unix milliseconds. Pure."""

from collections.abc import Mapping

import msgspec

from gateway.policy.charges import Charge, Unit
from gateway.policy.limits import PAYERS
from gateway.policy.periods import bounds_ms

MILLION = 1_000_000

SCOPES: Mapping[str, str] = {"kb": "key", "pb": "project", "ob": "org"}
"""Whose budgets are, by the first part of their names."""


class Alert(msgspec.Struct, frozen=True):
    """That a share of a budget is spent: `whose` is the key's, project's or org's name, `limit` in nano-USD or in tokens.

    It is told once in the period that ends at `ends_ms`, and again for a budget that was changed. `name` tells these apart.
    """

    name: str
    scope: str
    whose: str
    period: str
    share: float
    unit: str
    limit: int
    spent: int
    ends_ms: int


def is_due(charge: Charge, spent: int) -> bool:
    """Return whether so much of a budget is spent that its operator is to hear of it."""
    return spent > 0 and spent * MILLION >= charge.capacity * charge.alert_ppm


def alert(charge: Charge, spent: int, now_ms: int) -> Alert:
    """Return what the operator is to hear of a budget of which so much is spent."""
    kind, period, *names = charge.scope.split(":")
    ends_ms = bounds_ms(now_ms, charge.period_ms)[1]
    return Alert(
        name=f"{charge.scope}:{ends_ms}:{charge.capacity}:{charge.alert_ppm}",
        scope=SCOPES[kind],
        whose="/".join(names[: len(PAYERS[kind])]),
        period=period,
        share=charge.alert_ppm / MILLION,
        unit="nano_usd" if charge.unit is Unit.NANO_USD else "tokens",
        limit=charge.capacity,
        spent=spent,
        ends_ms=ends_ms,
    )
