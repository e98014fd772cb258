"""What is asked of the admission core: candidates to test, turns to wait for, ends to settle.

A *row* is one candidate: the deployment, the tier it would be served at and its charges (`gateway.policy.charges`). The scripts
know rows and buckets only. Times are Unix milliseconds of the store.
Pure.
"""

from enum import IntEnum, StrEnum

import msgspec

from gateway.policy.catalogue import Tier
from gateway.policy.charges import Charge, Estimate


class Precedence(IntEnum):
    """Who is served before whom where there is no room for all."""

    PRIORITY = 0
    DEFAULT = 1
    OVER_LIMIT = 2
    FLEX = 3


class Upstream(msgspec.Struct, frozen=True, gc=False):
    """Where a row's request would go, as far as its state is shared: the deployment and whose credential it takes.

    `slots` are those that the operator declared, 0 for no ceiling; `share_ppm` is the part of them, in millionths, that the row's
    tier may fill. A deployment without a name has no state.
    """

    deployment: str = ""
    credential: str = ""
    slots: int = 0
    share_ppm: int = 1_000_000


class Row(msgspec.Struct, frozen=True, gc=False):
    """One candidate: charge these buckets and this deployment serves the request at this tier.

    Budgets stand first among the charges; all rows of a request, which are one caller's, have the same.
    `pool` is the queue in which requests wait for such a deployment, empty where none does. `last`: nothing comes after it, so
    that it is tried even if its breaker is open.
    """

    upstream: Upstream
    model: str
    tier: Tier
    charges: tuple[Charge, ...]
    estimate: Estimate
    pool: str = ""
    precedence: Precedence = Precedence.DEFAULT
    last: bool = False


class Wait(msgspec.Struct, frozen=True, gc=False):
    """How a request may wait for the deployments of its last row's pool: in whose turn, how long, and behind how many.

    `worker` is told when the turn has come.
    """

    org: str
    worker: str
    patience_ms: int
    max_waiters: int
    max_of_org: int


class Sign(IntEnum):
    """What the end of an attempt says of its upstream."""

    NOTHING = 0
    """The client left or ran out of time, or the request itself was refused."""
    GOOD = 1
    BUSY = 2
    """No room there: the deployment is left alone for a while, and takes fewer at once."""
    RATE = 3
    """Our account is out of something: all that takes the same credential is left alone for a while."""
    SLOW = 4
    """No content in time: a fault, and a sign of too many at once."""
    FAULT = 5
    DENIED = 6
    """Our credential, bill or name for the model was refused: the next one would be too."""
    ONE_RATE = 7
    """Of several credentials this one is out of something: it alone is left alone, and nobody has to take fewer at once."""
    ONE_DENIED = 8
    """Of several credentials this one, or its bill, was refused: it alone is passed over where another may be taken."""

    @property
    def is_capacity(self) -> bool:
        """Return whether the attempt used nothing, for want of room."""
        return self in (Sign.BUSY, Sign.RATE, Sign.ONE_RATE)


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How an attempt ended, as its upstream is judged by it.

    `hint_ms` is the wait that it asked for, 0 without one; `dice` (0 to 999) keeps what is opened or cooled at once from coming
    back at once. `exhausted_ms` is for how long our account there has nothing left, as it said.
    """

    sign: Sign = Sign.NOTHING
    hint_ms: int = 0
    dice: int = 0
    exhausted_ms: int = 0

    @property
    def is_news(self) -> bool:
        """Return whether it is worth writing down even of an upstream that is well."""
        return self.sign not in (Sign.NOTHING, Sign.GOOD) or self.exhausted_ms > 0


NO_ENDING = Ending()


class Word(StrEnum):
    """What an operator may say of a deployment."""

    DISABLE = "disable"
    """Ask it no more, until it is enabled again."""
    ENABLE = "enable"
    RESET = "reset"
    """Forget how it and its credential did; that it is disabled is the operator's own word, and stays."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """An operator's word on some deployments, carried out on all at once."""

    word: Word
    upstreams: tuple[Upstream, ...]


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
    """End a lease's attempt, or its wait, and at the same instant try `rows` for it.

    Without a row that fits it may wait like an `Acquire`, before its org's others.
    """

    id: str
    ending: Ending
    rows: tuple[Row, ...]
    ttl_ms: int
    wait: Wait | None = None


class Lesson(msgspec.Struct, frozen=True, gc=False):
    """What a whole answer teaches: tokens a byte of its prompt (in millionths) and tokens of one choice, each 0 for nothing."""

    org: str
    model: str
    ratio_ppm: int = 0
    output_tokens: int = 0


class Settle(msgspec.Struct, frozen=True, gc=False):
    """End a lease: post what was really used, nothing where `capacity` says that there was none. `closed` is the ledger's event.

    `certain` says that there is to be a row: the lease was granted, or its client has left the queue. An end that is not certain
    of it, where no lease was granted either, writes no event; it keeps a grant that is still under way from coming true.
    A `lesson` is learned once, by the call that ends the lease.
    """

    id: str
    capacity: bool
    actual: Estimate
    closed: bytes
    certain: bool = True
    ending: Ending = NO_ENDING
    lesson: Lesson | None = None


class Progress(msgspec.Struct, frozen=True, gc=False):
    """A lease that is still at work: what it has used so far (`request` is 1 once there was content)."""

    id: str
    so_far: Estimate


class Adopt(msgspec.Struct, frozen=True, gc=False):
    """A lease that its worker goes on with, to be put back where the store has lost it: what runs counts, whether it fits or not.

    `row` is what it was granted, `opened` the ledger's `open` event.
    """

    id: str
    row: Row
    ttl_ms: int
    opened: bytes


class Report(msgspec.Struct, frozen=True, gc=False):
    """Word of a lease's attempt that goes on, as if it had ended."""

    id: str
    ending: Ending


class Seed(msgspec.Struct, frozen=True, gc=False):
    """What was spent of a budget by `at_ms` in the period that this lies in, for a store that knows nothing of it, or less."""

    charge: Charge
    at_ms: int
    spent: int
