"""What the admission store answers: a row granted or the reasons why none was, a place in a queue, what an end came to.

Times are Unix milliseconds of the store. Pure.
"""

from enum import IntEnum

import msgspec

from gateway.policy.charges import Charge
from gateway.wire.prompts import USUAL_RATIO_PPM


class Growth(msgspec.Struct, frozen=True, gc=False):
    """How far a dynamic limit has grown: its scale in thousandths, what was posted in its window, and what is left of that."""

    scale_milli: int
    posted: int
    remaining_ms: int


class Level(msgspec.Struct, frozen=True, gc=False):
    """A bucket after the decision: `level` was used and leaks (units, rounded up), `held` is reserved.

    `reset_ms` is when the bucket would be empty if its holds were posted now, 0 where only a holder's end tells. A charge that is
    dynamic comes with `growth`, and is the one in force.
    """

    charge: Charge
    level: int
    held: int
    reset_ms: int
    growth: Growth | None = None


class Levels(msgspec.Struct, frozen=True, gc=False):
    """Buckets as they were at `now_ms`, for who only looks."""

    now_ms: int
    levels: tuple[Level, ...]


class Cause(IntEnum):
    """What a row was refused for."""

    LIMIT = 0
    TOO_LARGE = 1
    """The cost is above the charge's whole bucket: it will never fit."""
    COOLING = 2
    """The deployment, or all of its credential, is left alone for a while."""
    OPEN = 3
    """Its breaker is open, or its one probe is under way."""
    DISABLED = 4
    """The operator took it out of service."""


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why one row did not fit: its first violated charge, of those that end the walk if any does; one that never fits goes first.

    `wait_ms` is when the row would fit if nothing else happened (the longest over its violations), None if only another
    request's end can tell. What its upstream is refused for names the deployment's slot.
    """

    row: int
    charge: Charge
    wait_ms: int | None
    cause: Cause = Cause.LIMIT

    @property
    def never(self) -> bool:
        """Return whether the request is too large for the charge's bucket."""
        return self.cause is Cause.TOO_LARGE


class Granted(msgspec.Struct, frozen=True, gc=False):
    """The row that was committed, at `now_ms`. `local`: by one gateway alone, while the store was away.

    `watched`: its upstream had trouble lately, and word of the first content is not to wait for the end. `epoch` counts the
    changes of keys, None where the store did not tell.
    """

    row: int
    now_ms: int
    levels: tuple[Level, ...]
    refusals: tuple[Refusal, ...] = ()
    local: bool = False
    watched: bool = False
    epoch: int | None = 0


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


class Unseeded(msgspec.Struct, frozen=True, gc=False):
    """What was spent of these budgets the store does not know: nothing was decided, and nothing of the request written."""

    now_ms: int
    charges: tuple[Charge, ...]


class Turn(IntEnum):
    """What became of a waiter."""

    GONE = 0
    WAITING = 1
    COME = 2


class Learned(msgspec.Struct, frozen=True, gc=False):
    """What is known of a model and of one org's answers from it.

    Tokens a byte of prompts, in millionths; the tokens that 19 of 20 answers keep to, and how many recent answers tell so.
    """

    ratio_ppm: int = USUAL_RATIO_PPM
    p95_tokens: int = 0
    samples: int = 0


class Posted(msgspec.Struct, frozen=True, gc=False):
    """When an end came, and whether there is a lease that it ended: by this call, or before.

    Only this tells what became of a grant whose answer was lost, and it is the same however often an end is reported.
    For the call that ended it: `budgets` is what was spent then of each budget of the lease, in the order of its charges, and
    `learned` what is known now, where it had something to teach.
    """

    now_ms: int
    opened: bool
    budgets: tuple[int, ...] = ()
    learned: Learned | None = None


Answer = Granted | Refused | Queued | Spent

Verdict = Answer | Unseeded
