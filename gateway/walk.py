"""The walk of one admitted request along its plan: a candidate is granted, tried, and given up for the next, until one commits.

What comes next is decided in `gateway.policy.routing`; here it is carried out. The admission store moves the lease from candidate
to candidate in one step, so that a request never holds two and never none.
"""

from asyncio import CancelledError

from msgspec.structs import replace

from gateway.errors import GatewayError, LimiterUnavailable
from gateway.exchange import Exchange, Hold
from gateway.faults import EndClass, Failed, Fault
from gateway.job import Job, Store
from gateway.policy import verdicts
from gateway.policy.adjustments import adjust
from gateway.policy.admission import NO_ENDING, Acquire, Adopt, Report, Row, Switch, Wait
from gateway.policy.answers import Answer, Granted, Queued, Refusal, Refused, Spent
from gateway.policy.ends import End, end_of, refusal_class, refused_attempt, refused_end
from gateway.policy.experience import asked
from gateway.policy.record import Attempt
from gateway.policy.retries import repeats_work
from gateway.policy.routing import Candidate, offer, remaining
from gateway.policy.shadows import Shadows
from gateway.policy.trace import reason_of
from gateway.providers.protocol import edits_for
from gateway.upstream.attempt import Committed, Dispatch, Flowing
from gateway.waiting import Waiting
from gateway.watch import Cut

LOST_WAIT_MS = 1_000
"""When to come back to a store that has just restarted."""


class Walk:
    """The state of one walk: how candidates ended so far, and the one that is being tried."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store = store
        self._job = job
        self._waiting = Waiting(store, job)
        self._ends: list[End] = []
        self._failed: Failed | None = None
        self._hints_ms: list[int] = []
        self._refusals: list[Refusal] = []
        """Of all offers; `row` is a place in the plan."""
        self._ahead: tuple[int, ...] = ()
        """What is left of the plan."""
        self._offered: tuple[int, ...] = ()
        """The part of it that the store was asked about last."""
        self._place = 0
        """Where in the plan the candidate stands that was granted."""
        self._watched = False
        """Its upstream had trouble lately."""
        self._dispatched_s = 0.0
        self._shadows = Shadows()

    async def run(self) -> Exchange:
        """Return the committed answer. Raises `GatewayError` when the plan is exhausted."""
        if len(self._job.plan.candidates) > 1:
            self._store.retries.request(self._job.plan.candidates[0].target.model.name, self._job.now_s())
        verdict = await self._acquire()
        while True:
            candidate = self._granted(verdict)
            if not self._job.principal.stands:
                await self._job.check_principal()
            outcome = await self._attempt(candidate)
            if not isinstance(outcome, Failed):
                return self._commit(candidate, outcome)
            verdict = await self._switch(candidate, outcome)

    def _commit(self, candidate: Candidate, committed: Committed) -> Exchange:
        job = self._job
        job.reservation.commit(committed)
        self._report(committed)
        record = job.reservation.record
        record.ttft_s = job.now_s() - record.started_s
        record.status = 200
        timeouts = candidate.target.model.timeouts
        end = (Cut.TOTAL, self._dispatched_s + timeouts.total_s)
        if job.due.ends_s is not None and job.due.ends_s < end[1]:
            end = (Cut.DEADLINE, job.due.ends_s)
        return Exchange(committed=committed, reservation=job.reservation, watch=job.watch, end=end, timeouts=timeouts)

    def _report(self, committed: Committed) -> None:
        """Pass on at once what would come too late with the end: a long stream's first content, an account with nothing left."""
        reservation = self._job.reservation
        if isinstance(committed, Flowing) and (self._watched or reservation.holder.exhausted_ms):
            self._store.reports.tell(Report(reservation.record.request_id, reservation.hand_over_ending()))

    async def _acquire(self) -> Answer:
        """Ask for a first candidate: of the model asked for alone where that is to be waited for, then of all that follow it."""
        plan = self._job.plan
        self._ahead = self._offered = remaining(plan, ())
        own = self._waiting.next(plan.own_patience)
        if own is None:
            return await self._ask(self._wait())
        self._offered = tuple(place for place in self._ahead if plan.candidates[place].stage == 0)
        verdict = await self._ask(own)
        if isinstance(verdict, Granted | Spent) or verdicts.ends_walk(verdict.refusals):
            return verdict
        for refusal in verdict.refusals:
            self._note_refusal(refusal)
        self._ahead = self._offered = remaining(plan, self._ends)
        if not self._offered or self._waiting.time_is_up:
            raise self._refused(verdict.now_ms)
        return await self._ask(self._wait())

    async def _ask(self, wait: Wait | None) -> Answer:
        """Return what the store says of the offer, once the wait that it may bring is over."""
        job = self._job
        reservation, ttl_ms = job.reservation, job.snapshot.lease_ttl_ms
        if reservation.hold is not Hold.NONE:
            switch = Switch(reservation.record.request_id, NO_ENDING, self._rows(), ttl_ms, wait)
            verdict = await self._store.admission.switch(switch, job.opened)
        else:
            reservation.hold = Hold.UNCERTAIN
            verdict = await self._store.admission.acquire(self._asking(wait))
        reservation.record.admitted_unix_ms = verdict.now_ms
        if wait is not None and isinstance(verdict, Queued):
            reservation.hold = Hold.WAITING
            verdict = await self._turn(verdict, wait)
        if isinstance(verdict, Granted):
            reservation.hold = Hold.GRANTED
        elif not isinstance(verdict, Queued) and not (isinstance(verdict, Refused) and verdict.local):
            reservation.hold = Hold.NONE
        return verdict

    def _asking(self, wait: Wait | None) -> Acquire:
        job = self._job
        return Acquire(job.reservation.record.request_id, self._rows(), job.snapshot.lease_ttl_ms, job.opened, wait)

    async def _switch(self, candidate: Candidate, failed: Failed) -> Answer:
        """Give the candidate up and ask for the next. Raises the failure's own error when none may follow."""
        job = self._job
        reservation = job.reservation
        self._failed = told = verdicts.telling(self._failed, failed)
        if failed.retry_after_ms is not None:
            self._hints_ms.append(failed.retry_after_ms)
        self._ends.append(end_of(self._place, failed))
        reservation.end_attempt(failed, job.dice)
        waits = self._waiting.next(job.plan.patience) is not None
        self._ahead = self._offered = remaining(job.plan, self._ends, waits=waits)
        if not self._offered or not self._may_repeat(failed):
            raise verdicts.exhausted(told, candidate.target.tier, self._hints_ms)
        wait = self._wait()
        ending = reservation.hand_over_ending()
        switch = Switch(reservation.record.request_id, ending, self._rows(), job.snapshot.lease_ttl_ms, wait)
        # A lease that may come to wait is not one to put back: it runs again when it is granted.
        self._store.leases.remove(switch.id)
        verdict = await self._store.admission.switch(switch, job.opened, self._adoption(candidate.row))
        return verdict if wait is None or not isinstance(verdict, Queued) else await self._turn(verdict, wait)

    def _may_repeat(self, failed: Failed) -> bool:
        """Return whether another attempt keeps within what may be repeated of the first model's requests."""
        job = self._job
        model = job.plan.candidates[0].target.model.name
        refused = repeats_work(failed) and not self._store.retries.allows(model, job.now_s())
        job.reservation.record.retry_refused = refused
        return not refused

    def _wait(self) -> Wait | None:
        """Return how the request may wait for what it is offered."""
        plan = self._job.plan
        # Every model but the last is asked as if the client could not wait.
        if not self._offered or plan.candidates[self._offered[-1]].stage != plan.candidates[-1].stage:
            return None
        return self._waiting.next(plan.patience)

    async def _turn(self, queued: Queued, wait: Wait) -> Answer:
        """Return the turn for the offer's last model, with the refusals that it passed by; `queued` where it does not come."""
        candidates = self._job.plan.candidates
        last = candidates[self._offered[-1]].stage
        # Faults lead on at once, and so does an open breaker: nobody waits for a model's recovery that has others behind it.
        if self._offered != self._ahead and all(refusal_class(each) != EndClass.CAPACITY for each in queued.refusals):
            return queued
        # Of its model's rows the first is what it waits for; one over the limit, which never waits, may come after it.
        target = next(each.target for each in candidates if each.stage == last)
        verdict = await self._waiting.turn(queued, self._asking(wait), target)
        if not isinstance(verdict, Granted):
            return verdict
        passed_by = (each for each in queued.refusals if candidates[self._offered[each.row]].stage != last)
        return replace(verdict, refusals=tuple(passed_by))

    def _rows(self) -> tuple[Row, ...]:
        return offer(self._job.plan, self._ahead)[: len(self._offered)]

    def _granted(self, verdict: Answer) -> Candidate:
        """Return the candidate that was granted. Raises what the refusals amount to when none was."""
        if isinstance(verdict, Spent):
            # The store has lost the lease, or has given it up as lapsed: it cannot say any more what is free.
            raise LimiterUnavailable("The gateway lost track of this request's limits", retry_after_ms=LOST_WAIT_MS)
        record = self._job.reservation.record
        record.rate_headers = verdicts.rate_headers(verdict.levels)
        for refusal in verdict.refusals:
            self._note_refusal(refusal)
        if isinstance(verdict, Granted):
            self._place = self._offered[verdict.row]
            self._watched = verdict.watched
            candidate = self._job.plan.candidates[self._place]
            self._job.reservation.budgets = candidate.way.budgets
            record.shadowed += self._shadows.met(verdict.levels, candidate.row.estimate)
            self._store.leases.add(self._adoption(candidate.row), self._job.reservation.so_far)
            return candidate
        raise self._refused(verdict.now_ms)

    def _adoption(self, row: Row) -> Adopt:
        job = self._job
        return Adopt(job.reservation.record.request_id, row, job.snapshot.lease_ttl_ms, job.opened)

    def _refused(self, now_ms: int) -> GatewayError:
        """Return the error of a walk without room: a contacted provider's word, unless the caller's own limit ended it."""
        rows = [candidate.row for candidate in self._job.plan.candidates]
        if self._failed is None or verdicts.ends_walk(self._refusals):
            return verdicts.refused(rows, self._refusals, now_ms)
        return verdicts.exhausted(self._failed, rows[self._refusals[-1].row].tier, self._hints_ms)

    def _note_refusal(self, refusal: Refusal) -> None:
        place = self._offered[refusal.row]
        came_back = any(end.candidate == place for end in self._ends)
        self._ends.append(refused_end(place, refusal))
        self._refusals.append(replace(refusal, row=place))
        if refusal.wait_ms is not None and not refusal.charge.tenant and not came_back:
            self._hints_ms.append(refusal.wait_ms)
        candidates = self._job.plan.candidates
        target, *behind = (candidates[each].target for each in (place, *self._offered[refusal.row + 1 :]))
        if any(each is target for each in behind):
            return  # it comes again with another credential: that one tells how it ended
        if any(each.deployment is target.deployment for each in behind):
            self._job.reservation.record.limited = reason_of(refusal)
            return  # the same deployment comes again, over the limit: that one tells how it ended
        if came_back or any(end.sent and candidates[end.candidate].target is target for end in self._ends):
            return  # it was tried before, with whichever credential, and told then how that ended
        self._job.reservation.record.attempts.append(refused_attempt(target, refusal))

    async def _attempt(self, candidate: Candidate) -> Committed | Failed:
        job = self._job
        started_s = self._dispatched_s = job.now_s()
        dispatch = self._prepare(candidate)
        timeouts = candidate.target.model.timeouts
        timers = [(Cut.DEADLINE, job.due.commit_s), (Cut.TOTAL, started_s + timeouts.total_s)]
        if job.request.stream:
            timers.append((Cut.FIRST_CONTENT, started_s + timeouts.first_content_s))
        job.watch.arm(*timers)
        try:
            outcome = await job.reservation.attempt(dispatch, outlives=candidate.target.deployment.provider.hears_out)
        except CancelledError:
            if job.watch.cut not in (Cut.FIRST_CONTENT, Cut.TOTAL):
                self._note_attempt(candidate, (0, "cancelled"), started_s)
                raise
            job.watch.resume()
            outcome = Failed(fault=Fault.TIMEOUT)
            job.reservation.holder.note_fault(outcome.fault)
        if isinstance(outcome, Failed):
            job.watch.arm((Cut.DEADLINE, job.due.commit_s))
            self._note_attempt(candidate, (outcome.status, outcome.fault), started_s)
            job.reservation.give_up()
        else:
            self._note_attempt(candidate, (200, "ok"), started_s)
        return outcome

    def _prepare(self, candidate: Candidate) -> Dispatch:
        """Return what is sent to the candidate's upstream, and how; from here on the record names the candidate."""
        job, target = self._job, candidate.target
        provider = target.deployment.provider
        dialect = job.snapshot.dialects[candidate.row.upstream.credential]
        last = target is job.plan.candidates[self._ahead[-1]].target
        record = job.reservation.record
        if record.overhead_s is None:
            record.overhead_s = max(0.0, self._dispatched_s - record.started_s - record.queued_ms / 1000)
        is_bounded = bool(candidate.way.budgets) or provider.nature.bounded
        adjusted = adjust(job.request, target, record.org or "", is_bounded=is_bounded)
        call = dialect.call(adjusted.request, target.deployment, target.tier, last=last)
        if record.span is not None:
            hop = record.span.hop(target.deployment, self._dispatched_s)
            call = replace(call, headers=call.headers + record.span.headers(hop))
        edits = edits_for(job.request, candidate, record)
        teaches = asked(job.request, record.org or "", target.model.name)
        job.reservation.begin(edits.tariff, candidate.row.estimate.input, teaches, of_one=bool(provider.further_keys))
        record.model_served, record.model_shown, record.provider = target.model.name, candidate.shown, provider.name
        record.deployment, record.tier_served = target.deployment.id, target.tier
        record.dropped_params, record.adjusted_params = adjusted.dropped + call.dropped, adjusted.lowered + call.lowered
        transport = job.snapshot.transports[target.deployment.id]
        return Dispatch(transport=transport, dialect=dialect, edits=edits, call=call, stream=job.request.stream, now_s=job.now_s)

    def _note_attempt(self, candidate: Candidate, end: tuple[int, str], started_s: float) -> None:
        noted = Attempt(
            model=candidate.target.model.name,
            provider=candidate.target.deployment.provider.name,
            status=end[0],
            outcome=end[1],
            sent=True,
            duration_ms=round((self._job.now_s() - started_s) * 1000),
        )
        self._job.reservation.record.attempts.append(noted)
