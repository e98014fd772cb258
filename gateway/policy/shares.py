"""What one gateway may grant by itself while the store that all share is away: its share of every limit. Pure.

A rate's share is rounded down and never nothing, a caller's concurrency is rounded up, a deployment's down. One request that the
whole bucket would hold still fits a share that nobody uses. Only priority and default are served: flex and no-limit take what
nobody counts, and service over the limit needs a limit to be over. Of a budget there is an allowance, if any. How far a limit has
grown only the store knows: here each is as it is written. What callers are held to may be waived, what providers are may not.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gateway.policy.admission import Row
from gateway.policy.allowances import Allowances
from gateway.policy.answers import Granted, Refusal, Refused
from gateway.policy.catalogue import Tier
from gateway.policy.charges import Charge, Kind
from gateway.policy.claims import ceiling_of

SERVED_ALONE = frozenset({Tier.PRIORITY, Tier.DEFAULT})


class Waived(msgspec.Struct, frozen=True, kw_only=True):
    """What callers are not held to meanwhile: rates a minute or a day, money. What they have at work at once always counts."""

    rates: bool = False
    budgets: bool = False

    def of(self, row: Row) -> Row:
        """Return a row without the charges that are waived."""
        return replace(row, charges=tuple(charge for charge in row.charges if not self._includes(charge)))

    def _includes(self, charge: Charge) -> bool:
        if charge.is_budget:
            return self.budgets
        return self.rates and charge.tenant and charge.kind is not Kind.HELD


NOTHING_WAIVED = Waived()


def shared(
    rows: Sequence[Row], gateways: int, allowances: Allowances, waived: Waived = NOTHING_WAIVED
) -> tuple[tuple[int, ...], tuple[Row, ...]]:
    """Return the rows that one of so many gateways may serve alone, and their places among all."""
    rows = [waived.of(row) for row in rows]
    places = tuple(place for place, row in enumerate(rows) if row.tier in SERVED_ALONE and allowances.cover(row, gateways))
    return places, tuple(_row(rows[place], gateways, allowances) for place in places)


def placed(verdict: Granted | Refused, places: Sequence[int]) -> Granted | Refused:
    """Return a verdict about the rows at these places as one about all."""
    refusals = tuple(replace(each, row=places[each.row]) for each in verdict.refusals)
    if isinstance(verdict, Granted):
        return replace(verdict, row=places[verdict.row], refusals=refusals, local=True)
    return replace(verdict, refusals=refusals, local=True)


def without_flex(rows: Sequence[Row], now_ms: int) -> Refused | None:
    """Return what flex hears, which takes only what is known to be left; None where no row is flex."""
    refusals = tuple(Refusal(at, ceiling_of(row), None) for at, row in enumerate(rows) if row.tier is Tier.FLEX)
    return Refused(now_ms, refusals, (), local=True) if refusals else None


def _row(row: Row, gateways: int, allowances: Allowances) -> Row:
    charges = (
        replace(charge, capacity=allowances.of(charge, gateways))
        if charge.is_budget
        else _charge(charge, row.estimate.of(charge.unit), gateways)
        for charge in row.charges
    )
    return replace(row, charges=(*charges,))


def _charge(charge: Charge, cost: int, gateways: int) -> Charge:
    if charge.kind is Kind.HELD:
        share = -(-charge.capacity // gateways) if charge.tenant else charge.capacity // gateways
        return replace(charge, capacity=max(1, share))
    capacity = max(1, charge.capacity // gateways, min(cost, charge.capacity))
    return replace(charge, capacity=capacity, rate=_rate(charge, gateways), dynamic=None)


def _rate(charge: Charge, gateways: int) -> int:
    return max(1, charge.rate // gateways) if charge.kind is Kind.RATE else charge.rate
