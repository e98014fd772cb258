"""The numbers behind the metrics, kept so that a request costs one look-up and a few additions.

Requests alike in every label share one wide cell; `gateway.telemetry.exposition` projects the cells on families when somebody
asks. One thread writes. Buckets hold counts that are not cumulative; bounds are seconds, upper ends included.
"""

from bisect import bisect_left
from collections import Counter
from itertools import pairwise

from gateway.faults import EndClass, Fault
from gateway.policy.record import Attempt, Outcome, Record
from gateway.telemetry.labels import POSITIONS, STREAM, Labels, attempt_outcome, tier
from gateway.wire.usage import Usage

DURATION_BOUNDS_S = tuple(0.01 * 2**n for n in range(17))
FIRST_BYTE_BOUNDS_S = tuple(0.01 * 2**n for n in range(14))

OK = Outcome.OK
NEXT = dict(zip(POSITIONS, (*POSITIONS[1:], POSITIONS[-1]), strict=True))
"""The label of the attempt after the one so labelled."""

RequestKey = tuple[str, str | None, str, bool, str | None, str | None]
"""Route, tier, outcome, stream, provider, model, as records have them; only those that are labels as they stand are kept."""

AttemptKey = tuple[str, str, str, str]
"""Provider, model, outcome, position; the same holds."""


class Histogram:
    """One distribution of seconds."""

    __slots__ = ("bounds_s", "buckets", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.buckets = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def add(self, value_s: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds_s, value_s)] += 1
        self.sum_s += value_s

    def merge(self, other: "Histogram") -> None:
        """Add another distribution with the same bounds."""
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        self.sum_s += other.sum_s


class RequestCell:
    """What requests with the same labels came to."""

    __slots__ = (
        "cached", "cost_nano_usd", "count", "duration", "first_byte", "input", "model", "outcome", "output", "provider",
        "reasoning", "route", "stream", "tier",
    )  # fmt: skip

    def __init__(self, key: tuple[str, str, str, bool, str, str]) -> None:
        self.route, self.tier, self.outcome, stream, self.provider, self.model = key
        self.stream = STREAM[stream]
        self.count = 0
        self.input = self.cached = self.output = self.reasoning = 0
        self.cost_nano_usd = 0
        self.duration = Histogram(DURATION_BOUNDS_S)
        self.first_byte = Histogram(FIRST_BYTE_BOUNDS_S)

    def add(self, usage: Usage, cost_nano_usd: int) -> None:
        """Add what one answer used and cost."""
        self.input += usage.input
        self.output += usage.output
        self.cached += usage.cached
        self.reasoning += usage.reasoning
        self.cost_nano_usd += cost_nano_usd


class Cells:
    """All numbers of one worker."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.requests: dict[RequestKey, RequestCell] = {}
        self.attempts: dict[AttemptKey, Histogram] = {}
        self.waits: dict[tuple[str, ...], Histogram] = {}
        """In a queue, by tier and outcome."""
        self.rejections: Counter[tuple[str, ...]] = Counter()
        self.fallbacks: Counter[tuple[str, ...]] = Counter()
        self.interruptions: Counter[tuple[str, ...]] = Counter()
        self.strange_events: Counter[tuple[str, ...]] = Counter()
        """Left out of streams, by provider and model."""
        self.budget_alerts: Counter[tuple[str, ...]] = Counter()
        """By whose budget it was: a key's, a project's or an org's."""
        self.shadows: Counter[tuple[str, ...]] = Counter()
        """Refusals of limits that are shadows, by scope and dimension."""
        self.running: dict[str, Record] = {}

    def begin(self, record: Record) -> None:
        """Count a request as in flight until it is observed."""
        self.running[record.request_id] = record

    def observe(self, record: Record) -> None:
        """Count a request that is over."""
        self.running.pop(record.request_id, None)
        tier_shown = record.tier_served or record.tier_requested
        key = (record.route, tier_shown, record.outcome, record.stream, record.provider, record.model_served)
        cell = self.requests.get(key) or self._request_cell(key)
        cell.count += 1
        if record.ended_s is not None:
            cell.duration.add(record.ended_s - record.started_s)
        if record.stream and record.ttft_s is not None:
            cell.first_byte.add(record.ttft_s)
        cell.add(record.usage, record.cost_nano_usd or 0)
        if record.queued_ms:
            waited = self.waits.setdefault((tier(tier_shown), str(record.outcome)), Histogram(DURATION_BOUNDS_S))
            waited.add(record.queued_ms / 1000)
        attempts = record.attempts
        self._observe_attempts(attempts)
        if len(attempts) > 1:
            self._observe_fallbacks(attempts)
        if record.strange_events:
            self.strange_events[self.labels.pair(record.provider, record.model_served)] += record.strange_events
        for limit in record.shadowed:
            self.shadows[tuple(limit.split(":"))] += 1
        if record.outcome is not OK:
            self._observe_end(record)

    def _request_cell(self, raw: RequestKey) -> RequestCell:
        route, tier_shown, outcome, stream, provider, model = raw
        key = (self.labels.route(route), tier(tier_shown), str(outcome), stream, *self.labels.pair(provider, model))
        return self.requests.setdefault(key, RequestCell(key))

    def _observe_attempts(self, attempts: list[Attempt]) -> None:
        position = POSITIONS[0]
        for attempt in attempts:
            if attempt.sent:
                key = (attempt.provider, attempt.model, attempt.outcome, position)
                (self.attempts.get(key) or self._attempt_cell(key)).add(attempt.duration_ms / 1000)
                position = NEXT[position]

    def _observe_fallbacks(self, attempts: list[Attempt]) -> None:
        labels = self.labels
        for before, after in pairwise(attempts):
            if before.model != after.model:
                self.fallbacks[labels.model(before.model), labels.model(after.model), _reason(before.outcome)] += 1

    def _attempt_cell(self, raw: AttemptKey) -> Histogram:
        provider, model, outcome, position = raw
        key = (*self.labels.pair(provider, model), attempt_outcome(outcome), position)
        return self.attempts.setdefault(key, Histogram(DURATION_BOUNDS_S))

    def _observe_end(self, record: Record) -> None:
        if record.outcome is Outcome.REJECTED:
            reason = self.labels.reason(record.error_code)
            self.rejections[tier(record.tier_served or record.tier_requested), reason] += 1
        elif record.stream and record.ttft_s is not None:
            if record.outcome is Outcome.CANCELLED:
                self.interruptions["client",] += 1
            else:
                self.interruptions["drain" if record.error_code == "draining" else "upstream",] += 1


def _reason(outcome: str) -> str:
    return Fault(outcome).end_class.value if outcome in set(Fault) else EndClass.CAPACITY.value
