"""The ways of a key's requests to the targets of one model, and the order in which equal ones are tried. Pure."""

from collections.abc import Sequence
from math import log

import msgspec

from gateway.policy.admission import Upstream
from gateway.policy.charges import Charge
from gateway.policy.charging import Target
from gateway.policy.patience import NO_PATIENCE, Patience
from gateway.policy.pricing import FREE, Tariff

EVERY_BIT = 2**64 - 1


class Way(msgspec.Struct, frozen=True, gc=False):
    """What stays the same for every request of one key to one target: what it takes from which limits, and what answers cost.

    `smallest_bucket_tokens` is the tightest bucket of output. `tariffs` follow each other in time. `detour`: it is made in other
    words than the client's, those of another endpoint.
    """

    target: Target
    upstream: Upstream
    charges: tuple[Charge, ...]
    smallest_bucket_tokens: int | None
    tariffs: tuple[Tariff, ...] = (FREE,)
    pool: str = ""
    patience: Patience = NO_PATIENCE
    budgets: tuple[Charge, ...] = ()
    """Those of its charges that are budgets: the same for all ways of a key."""
    detour: bool = False


def weighted_order(ways: Sequence[Way], dice: int) -> Sequence[Way]:
    """Return the ways in the order to try: detours last, else by the deployments' `order`, inside one by weighted chance.

    Sorting by -ln(u)/weight with one u each draws without replacement in proportion to the weights (Efraimidis and Spirakis); of
    two, one u tells which is first. The ways to one deployment with several credentials follow each other in what is given and
    in what is returned: they have one u together, and chance alone tells which of them is first.
    """
    if len(ways) == 1:
        return ways
    if len(ways) == 2:
        one, other = ways[0].target.deployment, ways[1].target.deployment
        if one.order == other.order and ways[0].detour == ways[1].detour:
            return ways if _chance(dice, 0) * (one.weight + other.weight) <= one.weight else ways[::-1]
    drawn: list[tuple[bool, int, float, int, float, int]] = []
    first, rank, before = 0, 0.0, None
    for place, way in enumerate(ways):
        deployment = way.target.deployment
        if deployment is not before:
            first, rank, before = place, -log(_chance(dice, place)) / deployment.weight, deployment
        lot = _chance(dice, len(ways) + place) if deployment.provider.further_keys else 0.0
        drawn.append((way.detour, deployment.order, rank, first, lot, place))
    drawn.sort()
    return [ways[place] for *_, place in drawn]


def _chance(dice: int, place: int) -> float:
    """Return a number in (0, 1] from the dice, another one for each place: the end of splitmix64, which spreads every bit."""
    mixed = (dice + place * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & EVERY_BIT
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & EVERY_BIT
    return ((mixed ^ mixed >> 31) + 1) / 2**64
