"""What the admission benches ask for: the charges of a row, what a request is held to cost, and what the ledger is told."""

from gateway.policy.catalogue import Limits
from gateway.policy.charges import Charge, Estimate, Reach
from gateway.policy.limits import charges

IN_FLIGHT = 64
TTL_MS = 30_000
COST = Estimate(1, 200, 100, 300)
EVENT = bytes(250)
"""What the ledger is told of a request, at its usual length."""


def tenant(scope: str, limits: Limits) -> tuple[Charge, ...]:
    """Return the charges of a key or an organisation."""
    return charges(scope, limits, reach=Reach.REQUEST, tenant=True, ends_walk=True)


def supply(scope: str, limits: Limits, reach: Reach) -> tuple[Charge, ...]:
    """Return the charges of a model or a deployment."""
    return charges(scope, limits, reach=reach, tenant=False)
