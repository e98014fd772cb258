"""Whether a request may wait for a busy model, how long and behind how many. Seconds. Pure."""

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from gateway.policy.admission import Precedence, Wait
from gateway.policy.catalogue import Model, Tier, TierTerms

FEWEST_WAITERS = 32
WAITERS_PER_SLOT = 4
"""How many may wait where nobody says: a queue that is longer than four turns of everything is a queue for its own sake."""

PRECEDENCE: Mapping[Tier, Precedence] = {
    Tier.PRIORITY: Precedence.PRIORITY,
    Tier.DEFAULT: Precedence.DEFAULT,
    Tier.NO_LIMIT: Precedence.DEFAULT,
    Tier.OVER_LIMIT: Precedence.OVER_LIMIT,
    Tier.FLEX: Precedence.FLEX,
}


class Patience(msgspec.Struct, frozen=True, gc=False):
    """How requests of one tier may wait for one model. `longest_s` 0 is not at all."""

    longest_s: float
    max_waiters: int
    max_of_org: int


NO_PATIENCE = Patience(0.0, 0, 0)


def patience_with(model: Model, terms: TierTerms) -> Patience:
    """Return how requests at these terms may wait for the model."""
    slots = sum(deployment.max_concurrency or 0 for deployment in model.deployments)
    most = model.queue.max_waiters or max(FEWEST_WAITERS, WAITERS_PER_SLOT * slots)
    return Patience(terms.queue_s, most, max(1, int(most * Fraction(str(model.queue.per_org)))))


def pool_of(model: Model, tiers: Mapping[Tier, TierTerms]) -> str:
    """Return the queue of a model: none where no tier ever waits."""
    return model.name if any(terms.queue_s for terms in tiers.values()) else ""


def wait_of(patience: Patience, org: str, worker: str, rest_s: float) -> Wait | None:
    """Return how a request of this org may wait at this worker, whose client gives it `rest_s` more; None where it may not."""
    patience_ms = int(1000 * min(patience.longest_s, rest_s))
    return Wait(org, worker, patience_ms, patience.max_waiters, patience.max_of_org) if patience_ms > 0 else None
