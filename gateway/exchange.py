"""What one request holds from admission to settlement, and how it is let go: exactly once, on every path.

A `Reservation` is registered before the store is asked, since a call that is cut short may have been carried out all the same.
Closing is synchronous: the settlement itself runs in a task of its own, which no cancellation of the request can reach. Where a
client has left and the provider is heard out, the lease is held until its answer has been read on; only then is it let go.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import ceil
from typing import Protocol

import msgspec
from msgspec.structs import replace

from gateway.faults import Failed
from gateway.policy.admission import NO_ENDING, Ending, Lesson, Settle, Sign
from gateway.policy.answers import Posted
from gateway.policy.catalogue import Timeouts
from gateway.policy.charges import NOTHING, Charge, Estimate, used
from gateway.policy.experience import Asked, lesson
from gateway.policy.pricing import FREE, Tariff
from gateway.policy.record import Opened, Outcome, Record, closed
from gateway.policy.tiers import Echo
from gateway.policy.upstreams import ending_of
from gateway.providers.protocol import Answer, StreamReader
from gateway.tasks import Owned
from gateway.upstream.attempt import Committed, Dispatch, Flowing, Holder
from gateway.upstream.remainder import Remainders, read_on
from gateway.watch import Cut, Watch
from gateway.wire.usage import Usage

BYTES_PER_OUTPUT_TOKEN = 4
"""What an output token is taken to weigh where the upstream reported no usage; English text, where most vocabularies agree."""

encode = msgspec.msgpack.Encoder().encode


class Hold(Enum):
    """What is known of the lease in the store."""

    NONE = "none"
    UNCERTAIN = "uncertain"
    """The store was asked and has not answered: the lease may be there."""
    WAITING = "waiting"
    """The store lets the request wait: a client that leaves has a row, one whose time is up has none."""
    GRANTED = "granted"


class Books(Protocol):
    """Where a request's end goes: the store's settlement, then metrics and access line."""

    durable: bool
    """Ends are on disk before their clients have the last."""

    async def settle(self, settlement: Settle, budgets: Sequence[Charge]) -> Posted | None:
        """Settle what spends these budgets, however long the store takes; return None when it never answered."""
        ...

    async def secure(self, end: Callable[[], Settle]) -> None:
        """Bring an end to the disk."""
        ...

    def begin(self, record: Record, fields: Mapping[bytes, bytes]) -> None:
        """Take a record whose request, with these headers, has begun."""
        ...

    def observe(self, record: Record) -> None:
        """Project a record that is complete."""
        ...

    def now_s(self) -> float:
        """Return the monotonic clock."""
        ...


class Reservation:
    """One request's lease, the upstream reply that it pays for, and the record of both."""

    def __init__(
        self, record: Record, books: Books, tasks: Owned, remainders: Remainders, on_release: Callable[[str], None]
    ) -> None:
        self.record = record
        self.holder = Holder()
        self.hold = Hold.NONE
        self.capacity = False
        """The last attempt ended in capacity: nothing is posted."""
        self.left = False
        """The client has gone before it had all of its answer."""
        self.budgets: tuple[Charge, ...] = ()
        """What the lease that was granted spends."""
        self._ending = NO_ENDING
        self._tariff, self._prompt_tokens = FREE, 0
        self._asked: Asked | None = None
        self._of_one = False
        self._asked_tier: str | None = None
        """Of the upstream whose answer is on its way."""
        self._attempt: asyncio.Task[Committed | Failed] | None = None
        """There where the attempt may outlive the request."""
        self._flow: Flowing | None = None
        self._source: Answer | StreamReader | None = None
        self._opened: Opened | None = None
        self._books = books
        self._tasks = tasks
        self._remainders = remainders
        self._on_release = on_release
        self._closed = False

    def open(self, event: Opened) -> bytes:
        """Return the ledger's `open` event as it is stored; kept for the `close`, which repeats it."""
        self._opened = event
        return encode(event)

    def begin(self, tariff: Tariff, prompt_tokens: int, asked: Asked, *, of_one: bool) -> None:
        """Start an attempt: from here on it is charged at `tariff`, for an estimated prompt where nobody knows better.

        What `asked` came to is learned if the answer is whole. `of_one`: it takes one of several credentials.
        """
        self._tariff, self._prompt_tokens, self._asked, self._of_one = tariff, prompt_tokens, asked, of_one
        self.capacity, self._ending = False, NO_ENDING

    async def attempt(self, dispatch: Dispatch, *, outlives: bool) -> Committed | Failed:
        """Make the attempt; one that `outlives` its request goes on where this call is cancelled, until it is let go of.

        An attempt of several calls never does: nobody is left to make the next call for.
        """
        if not outlives or dispatch.call.further:
            return await self.holder.attempt(dispatch)
        self._attempt = self._tasks.spawn(self.holder.attempt(dispatch), name="attempt")
        await asyncio.wait({self._attempt})
        return self._attempt.result()

    def end_attempt(self, failed: Failed, dice: int) -> None:
        """Take note of how an attempt failed; `dice` are random bits."""
        self.break_off(failed, dice)
        self.capacity = self._ending.sign.is_capacity

    def break_off(self, failed: Failed, dice: int) -> None:
        """Take note of how an answer broke off that was under way: what it used is paid for all the same."""
        self._ending = ending_of(failed, dice, of_one=self._of_one)

    def hand_over_ending(self) -> Ending:
        """Return how the attempt ended, for the one call that tells the store: it must not be told twice."""
        ending, self._ending = self._ending, NO_ENDING
        return ending

    def give_up(self) -> None:
        """End an attempt that failed: what it used is not the client's to pay."""
        self._drop()
        self.holder.sent = self.holder.accepted = False

    def commit(self, committed: Committed) -> None:
        """Take note of what is on its way to the client: its usage is what will be paid for."""
        self._flow = committed if isinstance(committed, Flowing) else None
        self._source = committed.reader if isinstance(committed, Flowing) else committed
        self._ending = Ending(Sign.GOOD, exhausted_ms=self.holder.exhausted_ms)
        self._asked_tier = self.record.tier_served
        self._note_tier(self._echo())

    def _note_tier(self, echo: Echo | None) -> None:
        """Write down the tier that the upstream names: at the commit, and at the end, where some streams tell it anew."""
        if self._source is not None:
            self.record.tier_served = self._asked_tier if echo is None else echo.tier

    def so_far(self) -> Estimate:
        """Return what has been used up to now, for the heartbeat: nothing before the commit, for the attempt may yet fail."""
        if self._source is None:
            return NOTHING
        usage, _ = self.usage()
        return used(usage, self._tariff.cost_nano_usd(usage, self._echo()))

    def usage(self) -> tuple[Usage, bool]:
        """Return the usage and whether it is an estimate.

        What the upstream reported counts, and more output where more was received since. Without a report, the prompt's estimate
        and the bytes received; nothing when no upstream had taken the request on.
        """
        source = self._source
        received = 0 if source is None else ceil(source.output_bytes / BYTES_PER_OUTPUT_TOKEN)
        if source is not None and source.usage is not None:
            told = source.usage
            return (told, False) if received <= told.output else (replace(told, output=received), True)
        if not self.holder.accepted:
            return Usage(), False
        return Usage(input=self._prompt_tokens, output=received), True

    def close(self) -> None:
        """Let go of everything that is held, once the upstream has been heard out where that is wanted. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.record.ended_s = self._books.now_s()
        if self.left and self._has_more() and not self._remainders.full:
            self._remainders.read(self._hear_out()).add_done_callback(lambda _: self._let_go())
        else:
            self._let_go()

    def _has_more(self) -> bool:
        """Return whether the upstream is to be heard out, and is not done."""
        if self._attempt is None:
            return False
        return self.holder.sent if self._source is None else self._flow is not None and not self._flow.reader.done

    async def _hear_out(self) -> None:
        """Read on for nobody, from wherever the request was."""
        if self._attempt is not None and self._source is None:
            outcome = await self._attempt
            if isinstance(outcome, Failed):
                self.end_attempt(outcome, 0)
                self.give_up()
                return
            self.commit(outcome)
        if self._flow is not None and (broken := await read_on(self._flow)) is not None:
            self.break_off(broken, 0)

    def _drop(self) -> None:
        """Give up what is under way at the upstream."""
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None
        self.holder.close()

    def _let_go(self) -> None:
        self._drop()
        if self.hold is Hold.NONE or self._opened is None:
            self._books.observe(self.record)
            return
        self._on_release(self.record.request_id)
        self._tasks.detach(self._settle(self._opened), name="settle")

    async def secure(self, outcome: Outcome) -> None:
        """Have it written down, where that is waited for, that the request ends so: its client is about to have the last."""
        if not self._books.durable:
            return
        opened, now_s = self._opened, self._books.now_s()
        if opened is not None and self.hold is Hold.GRANTED:
            await self._books.secure(lambda: self._end(opened, replace(self._accounted(), outcome=outcome, ended_s=now_s)))

    def _end(self, opened: Opened, record: Record) -> Settle:
        """Return the settlement of a request that ends as this record has it."""
        left_queue = self.hold is Hold.WAITING and record.outcome is Outcome.CANCELLED
        return Settle(
            id=record.request_id,
            # What was never dispatched spends nothing, even where it was granted.
            capacity=self.capacity or self.hold is not Hold.GRANTED,
            actual=used(record.usage, record.cost_nano_usd),
            closed=encode(closed(record, opened)),
            certain=left_queue or self.hold is Hold.GRANTED,
            ending=self._ending,
            lesson=self._lesson(record),
        )

    async def _settle(self, opened: Opened) -> None:
        record = self._accounted()
        settlement = self._end(opened, record)
        record.opened = settlement.certain
        try:
            posted = await self._books.settle(settlement, self.budgets)
            if posted is not None:
                # What a grant that was never heard of came to, only its end can tell.
                record.opened, record.settled_unix_ms = posted.opened, posted.now_ms
        finally:
            self._books.observe(record)

    def _accounted(self) -> Record:
        """Return the record with what the request used, what that costs the org and the operator, and by which price."""
        record, tariff, echo = self.record, self._tariff, self._echo()
        record.usage, record.estimated = (Usage(), False) if self.capacity else self.usage()
        self._note_tier(echo)
        if self.capacity:  # nobody did anything, whatever it would have cost
            record.cost_nano_usd = record.own_cost_nano_usd = 0
            return record
        record.cost_nano_usd = tariff.cost_nano_usd(record.usage, echo)
        record.own_cost_nano_usd = tariff.own_cost_nano_usd(record.usage, echo)
        record.price_version = tariff.version
        return record

    def _lesson(self, record: Record) -> Lesson | None:
        if self._asked is None or record.estimated or record.outcome is not Outcome.OK:
            return None
        return lesson(self._asked, record.usage)

    def _echo(self) -> Echo | None:
        return None if self._source is None else self._tariff.echo(self._source.tier)


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A committed answer on its way downstream, and the reservation that pays for it."""

    committed: Committed
    reservation: Reservation
    watch: Watch
    end: tuple[Cut, float]
    """When it has to be over, and why: the upstream's `total`, or the client's own deadline where that comes first."""
    timeouts: Timeouts

    def close(self) -> None:
        """Let go of all that is held; idempotent."""
        self.reservation.close()
