"""A request's waits for busy models: how long the next one may be, and what comes of it. Seconds of the monotonic clock.

Whose turn it is, the store decides; what follows a wait in vain, the walk does.
"""

from asyncio import CancelledError

from msgspec.structs import replace

from gateway.job import Job, Store
from gateway.policy import verdicts
from gateway.policy.admission import Acquire, Wait
from gateway.policy.answers import Answer, Queued
from gateway.policy.charging import Target
from gateway.policy.patience import Patience, wait_of
from gateway.watch import Cut


class Waiting:
    """The waits of one request, which share its time."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store = store
        self._job = job

    @property
    def time_is_up(self) -> bool:
        """Return whether the request's deadline is here, to which a wait comes as near as whole milliseconds do."""
        return self._job.due.commit_s - self._job.now_s() < 0.001

    def next(self, patience: Patience) -> Wait | None:
        """Return how the request may wait with this patience, of which its earlier waits are taken; None where it may not."""
        job, turns = self._job, self._store.turns
        if not patience.longest_s or turns.full:
            return None
        record = job.reservation.record
        rest_s = min(job.due.commit_s - job.now_s(), patience.longest_s - record.queued_ms / 1000)
        return wait_of(patience, record.org or "", turns.worker, rest_s)

    async def turn(self, queued: Queued, asked: Acquire, target: Target) -> Answer:
        """Return what the store says of what was `asked` when the turn has come, and `queued` where it does not come in time.

        The request counts as waiting for `target`.
        """
        job = self._job
        record, began_s, wait = job.reservation.record, job.now_s(), asked.wait
        if wait is None:
            return queued
        ends_s = began_s + wait.patience_ms / 1000
        record.rate_headers = verdicts.rate_headers(queued.levels)
        verdict: Answer = queued
        try:
            while isinstance(verdict, Queued):
                job.watch.arm((Cut.QUEUE, ends_s))
                await self._store.turns.come(record.request_id, (target.model.name, target.tier))
                # A turn that has come is not given up half-way: the call is short, and has a deadline of its own.
                job.watch.arm((Cut.DEADLINE, job.due.commit_s))
                rest_ms = max(0, round(1000 * (ends_s - job.now_s())))
                verdict = await self._store.admission.confirm(replace(asked, wait=replace(wait, patience_ms=rest_ms)))
        except CancelledError:
            if job.watch.cut is not Cut.QUEUE:
                raise
            job.watch.resume()
            job.watch.arm((Cut.DEADLINE, job.due.commit_s))
            return queued
        finally:
            ended_s = job.now_s()
            record.queued_ms += round((ended_s - began_s) * 1000)
            if record.span is not None:
                record.span.waits.append((began_s, ended_s))
        record.admitted_unix_ms = verdict.now_ms
        return verdict
