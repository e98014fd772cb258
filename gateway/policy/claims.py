"""What a lease is made of: its claims on buckets, the place where it waits, what stays of it. Unix milliseconds. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gateway.policy.admission import Row
from gateway.policy.answers import Cause, Granted, Refusal, Refused
from gateway.policy.charges import NOTHING, Charge, Dimension, Estimate
from gateway.policy.queue import Waiter
from gateway.policy.upstreams import is_slot_of_deployment

Place = tuple[str, Dimension]
"""Where a bucket is: its scope and what it counts."""


class Claim(msgspec.Struct):
    """What one lease has in one bucket: still held, and posted already."""

    charge: Charge
    held: int = 0
    posted: int = 0


class Lease(msgspec.Struct):
    """A request that was granted, or waits. `past` are buckets of earlier attempts in which it posted something.

    `waiter` is there while it waits; `turn` is the row that it got then, until it says that it has heard of it; `decision` is
    what it was told. `row` is what it was granted while that attempt has not ended, and `pool` the queue of its deployment.
    """

    id: str
    ttl_ms: int
    expires_ms: int
    decision: Granted | None = None
    claims: dict[Place, Claim] = {}
    past: dict[Place, Claim] = {}
    row: Row | None = None
    pool: str = ""
    waiter: Waiter | None = None
    turn: tuple[int, Row] | None = None
    opened: bool = False
    """The ledger knows of it."""
    so_far: Estimate = NOTHING
    """What it had used when that was last reported."""

    def claim(self, charge: Charge) -> Claim:
        """Return what the lease has in a charge's bucket by now."""
        place = place_of(charge)
        return self.claims.get(place) or self.past.get(place) or Claim(charge)

    @property
    def waits(self) -> bool:
        """Return whether the request does not know yet that it may go on."""
        return self.waiter is not None or self.turn is not None


class Done(msgspec.Struct):
    """What stays of an end until `until_ms`: what expiry posted (None: it was a settlement), and whether there was a lease."""

    until_ms: int
    ttl_ms: int = 0
    claims: dict[Place, Claim] | None = None
    opened: bool = True


class Violation(msgspec.Struct, frozen=True):
    """A charge without room, or an upstream that is not to be asked: why, and when that is over (None: nobody can tell)."""

    charge: Charge
    wait_ms: int | None
    cause: Cause = Cause.LIMIT


class Event(msgspec.Struct, frozen=True):
    """One line for the ledger: `open`, `close` or `abandoned`."""

    kind: str
    id: str


def place_of(charge: Charge) -> Place:
    """Return where a charge's bucket is."""
    return charge.scope, charge.dimension


def ceiling_of(row: Row) -> Charge:
    """Return the charge of the deployment's slot, which every row has whose deployment has a name or a pool."""
    return next(charge for charge in row.charges if is_slot_of_deployment(charge))


def refusal(row: int, violations: Sequence[Violation]) -> Refusal:
    """Return why a row did not fit.

    It names the first violated charge: of those that end the walk if any does, and before others one that can never be met.
    """
    named = min(violations, key=lambda violation: (not violation.charge.ends_walk, violation.cause is not Cause.TOO_LARGE))
    waits = [violation.wait_ms for violation in violations]
    known = [wait_ms for wait_ms in waits if wait_ms is not None]
    return Refusal(row, named.charge, max(known) if len(known) == len(waits) else None, named.cause)


def may_wait(violations: Sequence[Violation], patience_ms: int) -> bool:
    """Return whether the row may fit in time, and nothing of the caller's own is in the way, nor the operator's word."""
    return not any(
        violation.charge.tenant
        or violation.cause in (Cause.TOO_LARGE, Cause.DISABLED)
        or (violation.wait_ms is not None and violation.wait_ms > patience_ms)
        for violation in violations
    )


def told_to_come_back(verdict: Refused, expected_ms: int) -> Refused:
    """Return a refusal that says when a turn could have been expected, where nobody knew better."""
    last = verdict.refusals[-1]
    if last.wait_ms is not None or not expected_ms:
        return verdict
    return replace(verdict, refusals=(*verdict.refusals[:-1], replace(last, wait_ms=expected_ms)))
