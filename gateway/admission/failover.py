"""Admission that goes on while the store is away: by this worker's own share of every limit, from the same rules.

A call that the store did not answer may still have run there: its lease is settled like any other once the store is back. So is
what was granted here: the store adopts it before it is asked for anything else, and all that was used meanwhile is posted. Even
where it comes back empty, no rate has more than one burst too many. What it has yet to hear of is on disk too (spool.py). A store
that is killed may forget what it took note of a moment before (its file is written and synced behind its answers), so ends are
kept for that moment, and told again after a connection was lost.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

import structlog

from gateway.admission.breaker import StoreBreaker
from gateway.admission.client import Admission
from gateway.admission.connection import AdmissionUnavailable, StoreError
from gateway.admission.local import Local
from gateway.admission.spool import Entry, Spool
from gateway.policy.admission import Acquire, Adopt, Progress, Report, Row, Settle, Switch
from gateway.policy.answers import Granted, Levels, Posted, Spent, Turn, Unseeded, Verdict
from gateway.policy.breaker import Breaker
from gateway.policy.charges import Charge

KEPT_S = 4.0
"""For how long an end is kept that the store has taken note of. With `appendfsync everysec` Valkey is at most two seconds late
with writing to its file, and one more with bringing that to disk."""

AT_ONCE = 64

Asked = ParamSpec("Asked")
Heard = TypeVar("Heard")

log = structlog.get_logger(__name__)


class Failover:
    """The store, left alone while it does not do its work, and `local` in its place then, if any, until the spool is full.

    The tick asks it all the same: twice a second from each worker, whether anybody waits or not. Where it is answered, the store
    first hears of what was granted without it, and is then asked as before. Where ends are `durable`, each is written down before
    the store is told of it, and nothing is granted that could not be.
    """

    def __init__(self, store: Admission, local: Local | None, spool: Spool, *, durable: bool = False) -> None:
        self._store = store
        self._local = local
        self.spool = spool
        self.durable = durable
        """Ends are written down before their clients have the last."""
        self._taken: deque[tuple[float, Settle]] = deque()
        """Ends that the store took note of lately, and when."""
        self._losses = store.losses
        """How many connections had been lost when all that was taken note of was sure to be there."""
        self._breaker = StoreBreaker()
        self._owed: dict[str, Adopt] = {}
        """What was granted here, until the store knows of it."""

    @property
    def alone(self) -> bool:
        """Return whether the store is left alone."""
        return self._breaker.is_open

    @property
    def serves_alone(self) -> bool:
        """Return whether anything is served while the store is away."""
        return self._local is not None

    @property
    def prefix(self) -> str:
        """Return what every key of the cell begins with."""
        return self._store.prefix

    @property
    def epoch(self) -> int | None:
        """Return how many changes of keys there were when the store was heard last."""
        return self._store.epoch

    def judge_by(self, breaker: Breaker) -> None:
        """Have upstreams judged by other terms from now on, here as in the store."""
        self._store.judge_by(breaker)
        if self._local is not None:
            self._local.judge_by(breaker)

    async def acquire(self, request: Acquire) -> Verdict:
        """Take the first row that fits. Raises `AdmissionUnavailable`."""
        if self.durable and self.spool.full:
            raise AdmissionUnavailable("what is granted could not be written down")
        try:
            verdict = await self._ask(self._store.acquire, request)
        except AdmissionUnavailable as lost:
            return self._decide(request, request.opened, lost)
        return self._noted(request.rows, verdict)

    async def switch(self, request: Switch, opened: bytes, lease: Adopt | None) -> Verdict:
        """End the lease's attempt or wait and take the first row that fits. Raises `AdmissionUnavailable`.

        What the store does not know, lost or granted here, is `lease`; without one it has only waited, and asks again.
        """
        try:
            verdict = await self._ask(self._store.switch, request)
            if isinstance(verdict, Spent) and lease is None:
                again = Acquire(request.id, request.rows, request.ttl_ms, opened, request.wait)
                verdict = await self._ask(self._store.acquire, again)
            elif isinstance(verdict, Spent) and lease is not None and not await self._ask(self._store.adopt, (lease,)):
                verdict = await self._ask(self._store.switch, request)
        except AdmissionUnavailable as lost:
            return self._decide(request, opened, lost)
        return self._noted(request.rows, verdict)

    async def confirm(self, request: Acquire) -> Verdict:
        """Take the turn that has come of what was asked for; a waiter that was lost asks again. Raises `AdmissionUnavailable`."""
        try:
            verdict = await self._ask(self._store.confirm, request.id, request.rows)
            if isinstance(verdict, Spent):
                verdict = await self._ask(self._store.acquire, request)
        except AdmissionUnavailable as lost:
            return self._decide(request, request.opened, lost)
        return self._noted(request.rows, verdict)

    async def tick(self, worker: str, waiters: Sequence[str]) -> tuple[Turn, ...]:
        """Say that a worker is there, and ask for its waiters. Raises `AdmissionUnavailable`."""
        turns = await self._heard(self._store.tick(worker, waiters))
        if self._breaker.is_open:
            owed = (*self._owed.values(),)
            await self._heard(self._store.adopt(owed))
            for lease in owed:
                self._known(lease.id)
            self._breaker.close()
            log.info("admission_shared_again", adopted=len(owed))
        await self._tell_again()
        return turns

    async def progress(self, reports: Sequence[Progress]) -> tuple[str, ...]:
        """Renew leases; return the ids of those that the store does not know. Raises `AdmissionUnavailable`."""
        return await self._ask(self._store.progress, reports)

    async def adopt(self, leases: Sequence[Adopt]) -> tuple[str, ...]:
        """Put lost leases back; return the ids of those whose lives are over. Raises `AdmissionUnavailable`."""
        return await self._ask(self._store.adopt, leases)

    async def report(self, reports: Sequence[Report]) -> None:
        """Say how upstreams do while attempts go on, here and in the store. Raises `AdmissionUnavailable`."""
        if self._local is not None:
            self._local.report(reports)
        await self._ask(self._store.report, reports)

    async def levels(self, charges: Sequence[Charge]) -> Levels | Unseeded:
        """Look at buckets in the store: those of one worker alone say little. Raises `AdmissionUnavailable`."""
        return await self._ask(self._store.levels, charges)

    async def settle(self, request: Settle) -> Posted:
        """End a lease, here and in the store. Raises `AdmissionUnavailable` until the store has taken note."""
        if self._local is not None:
            self._local.settle(request)
        try:
            if request.id in self._owed:
                await self._ask(self._store.adopt, (self._owed[request.id],))
                self._known(request.id)
            posted = await self._ask(self._store.settle, request)
        except AdmissionUnavailable:
            self.spool.ended(request)
            raise
        self._taken.append((asyncio.get_running_loop().time(), request))
        return posted

    async def secure(self, end: Callable[[], Settle]) -> None:
        """Write down an end and wait until it is on disk."""
        self.spool.ended(end())
        await self.spool.on_disk()

    def forget(self) -> None:
        """Take what the store took note of to be there for good."""
        while self._taken:
            self.spool.told(self._taken.popleft()[1].id)

    async def stays(self) -> bool:
        """Return whether the store has what it takes note of now, once it would be sure to."""
        losses = self._store.losses
        await asyncio.sleep(KEPT_S)
        return self._store.losses == losses

    def leave(self, request_id: str) -> bool:
        """Leave it to the spool to tell the store of an end. Return whether the spool has it."""
        self._owed.pop(request_id, None)
        return self.spool.leave(request_id)

    async def replay(self, entries: Sequence[Entry]) -> None:
        """Tell the store what a spool has to tell. Raises `AdmissionUnavailable`."""
        await self._ask(self._store.adopt, [entry.lease for entry in entries if entry.lease is not None])
        for entry in entries:
            if entry.end is not None:
                await self._ask(self._store.settle, entry.end)

    async def _tell_again(self) -> None:
        """Tell a store that was lost what it may have forgotten; else let go of what it is sure to know by now."""
        losses, kept_s = self._store.losses, asyncio.get_running_loop().time() - KEPT_S
        if losses != self._losses:
            ends = [end for _, end in self._taken]
            for start in range(0, len(ends), AT_ONCE):
                await self._heard(asyncio.gather(*map(self._store.settle, ends[start : start + AT_ONCE])))
            self._taken = deque((kept_s + KEPT_S, end) for _, end in self._taken)
            self._losses = losses
        while self._taken and self._taken[0][0] < kept_s:
            self.spool.told(self._taken.popleft()[1].id)

    def _noted(self, rows: Sequence[Row], verdict: Verdict) -> Verdict:
        if self._local is not None:
            self._local.note(rows, verdict)
        return verdict

    def _known(self, request_id: str) -> None:
        self._owed.pop(request_id, None)
        self.spool.adopted(request_id)

    def _decide(self, request: Acquire | Switch, opened: bytes, lost: AdmissionUnavailable) -> Verdict:
        local = None if self.spool.full else self._local
        verdict = None if local is None else local.decide(request, max(1, self._store.gateways))
        if verdict is None:
            raise lost
        if isinstance(verdict, Granted):
            lease = Adopt(request.id, request.rows[verdict.row], request.ttl_ms, opened)
            self._owed[request.id] = lease
            self.spool.granted(lease)
        return verdict

    async def _ask(self, call: Callable[Asked, Awaitable[Heard]], *args: Asked.args, **kwargs: Asked.kwargs) -> Heard:
        if self._breaker.is_open:
            raise AdmissionUnavailable("the store is left alone until it does its work again")
        return await self._heard(call(*args, **kwargs))

    async def _heard(self, call: Awaitable[Heard]) -> Heard:
        try:
            reply = await call
        except AdmissionUnavailable as error:
            self._failed(error)
            raise
        self._breaker.answered()
        return reply

    def _failed(self, error: AdmissionUnavailable) -> None:
        now_s, with_error = asyncio.get_running_loop().time(), isinstance(error, StoreError)
        if self._breaker.failed(now_s, with_error=with_error):
            rates = "closed" if self._local is None else self._local.rates
            log.error("admission_alone", gateways=self._store.gateways, rates=rates, reason=str(error))
