"""What one gateway may spend of a budget while the store that knows what is left of it is away. Nano-USD, or tokens. Pure.

Nothing where little was left when it was last heard of: then the others may have spent it since. Else a two-hundredth of the
budget in each of its periods, and no more than its share of what was left, so that all of them together do not pass it either.
"""

from collections.abc import Sequence

from gateway.policy.admission import Row
from gateway.policy.answers import Level
from gateway.policy.charges import Charge, Unit

LITTLE_PPM = 20_000
LITTLE_NANO_USD = 10**9
ALONE_PPM = 5_000
WHOLE_PPM = 1_000_000


class Allowances:
    """What was left of each budget when the store last said so."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def note(self, levels: Sequence[Level]) -> None:
        """Take what the store says of a row's buckets: budgets stand first."""
        for level in levels:
            if not level.charge.is_budget:
                return
            self._left[level.charge.scope] = level.charge.capacity - level.level - level.held

    def of(self, charge: Charge, gateways: int) -> int:
        """Return what one of so many gateways may spend of a budget, 0 where nothing is known of it."""
        left = self._left.get(charge.scope, 0)
        least = LITTLE_NANO_USD if charge.unit is Unit.NANO_USD else 0
        if left < max(least, charge.capacity * LITTLE_PPM // WHOLE_PPM):
            return 0
        return min(charge.capacity * ALONE_PPM // WHOLE_PPM, left // gateways)

    def cover(self, row: Row, gateways: int) -> bool:
        """Return whether a row takes no more than may be spent of each of its budgets."""
        return all(self.of(charge, gateways) >= row.estimate.of(charge.unit) for charge in row.charges if charge.is_budget)
