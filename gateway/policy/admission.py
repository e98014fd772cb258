"""The admission core's values: what a candidate would charge, what was granted or refused, how a lease ends.

A *bucket* is one limit's counter in one scope; a *charge* is what one candidate would take from a bucket; a *row* is one
candidate: the deployment, the tier it would be served at and its charges. The scripts know rows and buckets only; what a
limit means stays here. Times are Unix milliseconds of the store, costs are units (requests, tokens or slots).
Pure.
"""

from enum import IntEnum, StrEnum

import msgspec

from gateway.policy.catalogue import Tier


class Dimension(StrEnum):
    """What a bucket counts; the field's name inside a scope's hash."""

    RPM = "rpm"
    TPM = "tpm"
    TPM_IN = "tpm_in"
    TPM_OUT = "tpm_out"
    RPD = "rpd"
    CONCURRENCY = "conc"


class Unit(IntEnum):
    """Which of a request's figures a charge takes; an index into `Estimate` and `Actual`."""

    REQUEST = 0
    INPUT = 1
    OUTPUT = 2
    TOTAL = 3
    SLOT = 4


class Kind(IntEnum):
    """How a bucket gives back: by leaking, at the end of its UTC day, or only when its holder ends."""

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

    `scope` is the bucket's key without the store's prefix (`k:…`, `km:…:…`, `o:…`, `om:…:…`, `m:…`, `d:…`). A RATE bucket
    holds `capacity` (B) and leaks `rate` (L) a `period_ms` (P); CALENDAR empties at the end of each period of the epoch; HELD
    has no rate. `limit` is the figure that the operator wrote and that headers show. `ends_walk` marks a limit of the caller's
    own that no other candidate may be tried past.
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


class Estimate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a request is held to cost, indexed by `Unit`."""

    request: int
    input: int
    output: int
    total: int
    slot: int = 1

    def of(self, unit: Unit) -> int:
        """Return the figure that charges of this unit take."""
        return (self.request, self.input, self.output, self.total, self.slot)[unit]


class Precedence(IntEnum):
    """Who is served before whom where there is no room for all."""

    PRIORITY = 0
    DEFAULT = 1
    OVER_LIMIT = 2
    FLEX = 3


class Row(msgspec.Struct, frozen=True, gc=False):
    """One candidate: charge these buckets and this deployment serves the request at this tier.

    `pool` is the queue in which requests wait for such a deployment, empty where there is no ceiling to wait under.
    """

    deployment: str
    model: str
    tier: Tier
    charges: tuple[Charge, ...]
    estimate: Estimate
    pool: str = ""
    precedence: Precedence = Precedence.DEFAULT


class Wait(msgspec.Struct, frozen=True, gc=False):
    """How a request may wait for the deployments of its last row's pool: in whose turn, how long, and behind how many.

    `worker` is told when the turn has come.
    """

    org: str
    worker: str
    patience_ms: int
    max_waiters: int
    max_of_org: int


class Acquire(msgspec.Struct, frozen=True, gc=False):
    """Test `rows` in order at one instant and commit the first that fits; without one, wait if there is a `wait` and reason to.

    `opened` is the ledger's `open` event.
    """

    id: str
    rows: tuple[Row, ...]
    ttl_ms: int
    opened: bytes
    wait: Wait | None = None


class Switch(msgspec.Struct, frozen=True, gc=False):
    """End a lease's attempt and, at the same instant, try `rows` for it. `capacity` says that the end was one of capacity.

    Without a row that fits it may wait like an `Acquire`, before its org's others.
    """

    id: str
    capacity: bool
    rows: tuple[Row, ...]
    ttl_ms: int
    wait: Wait | None = None


class Settle(msgspec.Struct, frozen=True, gc=False):
    """End a lease: post what was really used. `capacity` as in `Switch`. `closed` is the ledger's `close` event.

    `certain` says that there is to be a row: the lease was granted, or its client has left the queue. An end that is not certain
    of it, where no lease was granted either, writes no event; it keeps a grant that is still under way from coming true.
    """

    id: str
    capacity: bool
    actual: Estimate
    closed: bytes
    certain: bool = True


class Progress(msgspec.Struct, frozen=True, gc=False):
    """A lease that is still at work: what it has used so far (`request` is 1 once there was content)."""

    id: str
    so_far: Estimate


class Level(msgspec.Struct, frozen=True, gc=False):
    """A bucket after the decision: `level` was used and leaks (units, rounded up), `held` is reserved.

    `reset_ms` is when the bucket would be empty if its holds were posted now, 0 where only a holder's end tells.
    """

    charge: Charge
    level: int
    held: int
    reset_ms: int


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why one row did not fit: its first violated charge, of those that end the walk if any does; one that never fits goes first.

    `wait_ms` is when the row would fit if nothing else happened (the longest over its violated charges), None if only another
    request's end can tell. `never` marks a cost above that charge's whole bucket.
    """

    row: int
    charge: Charge
    wait_ms: int | None
    never: bool


class Granted(msgspec.Struct, frozen=True, gc=False):
    """The row that was committed, at `now_ms`. `local`: by one gateway alone, while the store was away."""

    row: int
    now_ms: int
    levels: tuple[Level, ...]
    refusals: tuple[Refusal, ...] = ()
    local: bool = False


class Refused(msgspec.Struct, frozen=True, gc=False):
    """No row fitted; nothing was written. `refusals` has one entry for each row that was tested; `levels` are the last one's.

    `local`: by one gateway alone; whether the store was written to is not known.
    """

    now_ms: int
    refusals: tuple[Refusal, ...]
    levels: tuple[Level, ...]
    local: bool = False


class Spent(msgspec.Struct, frozen=True, gc=False):
    """This lease's life is over already: its id was settled or expired before."""

    now_ms: int


class Queued(msgspec.Struct, frozen=True, gc=False):
    """No row fitted, and the request waits: `ahead` of it are so many. What the whole request takes of its caller is held."""

    now_ms: int
    ahead: int
    refusals: tuple[Refusal, ...]
    levels: tuple[Level, ...]


class Turn(IntEnum):
    """What became of a waiter."""

    GONE = 0
    WAITING = 1
    COME = 2


class Posted(msgspec.Struct, frozen=True, gc=False):
    """When an end came, and whether there is a lease that it ended: by this call, or before.

    Only this tells what became of a grant whose answer was lost, and it is the same however often an end is reported.
    """

    now_ms: int
    opened: bool


Verdict = Granted | Refused | Queued | Spent
