"""What one candidate would take, and from where.

A *bucket* is one limit's counter in one scope; a *charge* is what one candidate would take from a bucket. What a limit means
stays here: the scripts know buckets only. Times are Unix milliseconds of the store, costs are units (requests, tokens or slots).
Pure.
"""

from enum import IntEnum, StrEnum

import msgspec

from gateway.policy.catalogue import Dynamic
from gateway.wire.usage import Usage


class Dimension(StrEnum):
    """What a bucket counts; the field's name inside a scope's hash."""

    RPM = "rpm"
    TPM = "tpm"
    TPM_IN = "tpm_in"
    TPM_OUT = "tpm_out"
    RPD = "rpd"
    CONCURRENCY = "conc"
    BUDGET = "budget"
    BUDGET_TOKENS = "budget_tokens"


class Unit(IntEnum):
    """Which of a request's figures a charge takes; an index into `Estimate` and `Actual`."""

    REQUEST = 0
    INPUT = 1
    OUTPUT = 2
    TOTAL = 3
    SLOT = 4
    NANO_USD = 5
    BUDGET_TOKENS = 6
    """All that a request may come to: what limits a minute hold of its tokens is a guess, what budgets hold is not."""


SPENT = (Unit.NANO_USD, Unit.BUDGET_TOKENS)
"""What budgets are of. It is taken once, when the request has ended."""


class Kind(IntEnum):
    """How a bucket gives back: by leaking, at the end of a period of the calendar, or only when its holder ends.

    USE is a RATE that nothing is taken from: service over the limit counts for how far the limit grows, and that is all.
    """

    USE = -1
    RATE = 0
    CALENDAR = 1
    HELD = 2


class Reach(IntEnum):
    """How long a hold lasts: the whole request (key, org), one model (×model, model), or one deployment."""

    REQUEST = 0
    MODEL = 1
    DEPLOYMENT = 2


class Charge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a candidate takes from one bucket.

    `scope` is the bucket's key without the store's prefix (`k:…`, `km:…:…`, `p:…:…`, `o:…`, `om:…:…`, `m:…`, `d:…`; a budget has
    one of its own for money, `kb:…`, `pb:…:…`, `ob:…`, and one for tokens). A RATE bucket holds `capacity` (B) and leaks `rate`
    (L) a `period_ms` (P); CALENDAR empties at the end of each period of the calendar, see `gateway.policy.periods`; HELD has no
    rate. `limit` is the figure that the operator wrote and that headers show. `ends_walk` marks a limit of the caller's own that
    no other candidate may be tried past. `dynamic` is how a RATE grows with use: capacity, rate and limit are then those that it
    begins with, and never goes below.
    `alert_ppm` is the share of a budget, in millionths, at which the operator hears of it. A charge that is a `shadow` is taken
    whether there is room or not, and refuses nothing; a RATE keeps no more of it than it would hold, so that it tells how things
    stand, not how they stood an hour ago.
    """

    scope: str
    dimension: Dimension
    kind: Kind
    unit: Unit
    reach: Reach
    capacity: int
    rate: int
    period_ms: int
    limit: int
    tenant: bool
    ends_walk: bool
    dynamic: Dynamic | None = None
    alert_ppm: int = 0
    shadow: bool = False

    @property
    def is_budget(self) -> bool:
        """Return whether it is spent, not lent: what was is known before anybody asks, or must be asked of the ledger first."""
        return self.unit in SPENT


class Estimate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a request is held to cost, indexed by `Unit`."""

    request: int
    input: int
    output: int
    total: int
    slot: int = 1
    cost_nano_usd: int = 0
    budget_tokens: int = 0

    def of(self, unit: Unit) -> int:
        """Return the figure that charges of this unit take."""
        figures = (self.request, self.input, self.output, self.total, self.slot, self.cost_nano_usd, self.budget_tokens)
        return figures[unit]


NOTHING = Estimate(0, 0, 0, 0)
"""What a request has used that was not served yet."""


def used(usage: Usage, cost_nano_usd: int | None) -> Estimate:
    """Return what a request has used, and what that costs where it is known."""
    total = usage.input + usage.output
    return Estimate(1, usage.input, usage.output, total, cost_nano_usd=cost_nano_usd or 0, budget_tokens=total)
