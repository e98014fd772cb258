"""What a worker decides by itself while the store is away: by its own share of every limit, from the same rules."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gateway.policy.admission import NO_ENDING, Acquire, Order, Report, Row, Seed, Settle, Switch, Upstream, Word
from gateway.policy.allowances import Allowances
from gateway.policy.answers import Cause, Granted, Queued, Refused, Spent, Unseeded, Verdict
from gateway.policy.breaker import USUAL_BREAKER, Breaker
from gateway.policy.leases import Buckets
from gateway.policy.shares import NOTHING_WAIVED, Waived, placed, shared, without_flex

FOR_EVER_MS = 10**12
"""A lease of this worker's own ends with its request, or with the worker."""


class Local:
    """This worker's own buckets. While the store is there they only leak: one that comes and goes is worth one burst."""

    def __init__(self, now_ms: Callable[[], int], breaker: Breaker = USUAL_BREAKER, waived: Waived = NOTHING_WAIVED) -> None:
        self._now_ms = now_ms
        self._buckets = Buckets(lambda _: None, breaker=breaker)
        self._allowances = Allowances()
        self._waived = waived
        self._disabled: set[str] = set()

    def __contains__(self, lease_id: str) -> bool:
        return lease_id in self._buckets.leases

    @property
    def rates(self) -> str:
        """Return the word of the configuration for what callers are held to."""
        return "open" if self._waived.rates else "local"

    def judge_by(self, breaker: Breaker) -> None:
        """Judge upstreams by other terms from now on."""
        self._buckets.upstreams.breaker = breaker

    def decide(self, request: Acquire | Switch, gateways: int) -> Granted | Refused | None:
        """Return a verdict by the share of one of so many gateways, None where nothing can be said of what is asked."""
        places, rows = shared(request.rows, gateways, self._allowances, self._waived)
        if not rows:
            return without_flex(request.rows, self._now_ms())
        verdict = self._verdict(request, rows)
        while isinstance(verdict, Unseeded):
            self._buckets.seed([Seed(charge, verdict.now_ms, 0) for charge in verdict.charges])
            verdict = self._verdict(request, rows)
        if isinstance(verdict, Queued | Spent) or any(refusal.charge.is_budget for refusal in verdict.refusals):
            return None
        return placed(verdict, places)

    def _verdict(self, request: Acquire | Switch, rows: tuple[Row, ...]) -> Verdict:
        if request.id in self:
            ending = request.ending if isinstance(request, Switch) else NO_ENDING
            return self._buckets.switch(Switch(request.id, ending, rows, FOR_EVER_MS), self._now_ms())
        return self._buckets.acquire(Acquire(request.id, rows, FOR_EVER_MS, b""), self._now_ms())

    def note(self, rows: Sequence[Row], verdict: Verdict) -> None:
        """Take what the store says of budgets, and of deployments that the operator took out of service or put back."""
        if not isinstance(verdict, Granted | Refused | Queued):
            return
        self._allowances.note(verdict.levels)
        for refusal in verdict.refusals:
            if refusal.cause is Cause.DISABLED:
                self._obey(Word.DISABLE, rows[refusal.row].upstream)
        if self._disabled and isinstance(verdict, Granted):
            self._obey(Word.ENABLE, rows[verdict.row].upstream)

    def _obey(self, word: Word, upstream: Upstream) -> None:
        if (word is Word.DISABLE) != (upstream.deployment in self._disabled):
            self._disabled ^= {upstream.deployment}
            self._buckets.upstreams.obey(Order(word, (upstream,)))

    def report(self, reports: Sequence[Report]) -> None:
        """Say how upstreams do that this worker's own leases have."""
        self._buckets.report(reports, self._now_ms())

    def settle(self, request: Settle) -> None:
        """End a lease of this worker's own, where it is one. What there is to learn, the store learns alone."""
        if request.id in self:
            self._buckets.settle(replace(request, lesson=None), self._now_ms())
            del self._buckets.done[request.id]
