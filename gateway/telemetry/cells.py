"""The numbers behind the metrics, kept so that a request costs a few look-ups and additions.

Requests alike in every label share one wide cell; `gateway.telemetry.exposition` projects the cells on families when somebody
asks. One thread writes.
"""

from collections import Counter
from itertools import pairwise

import msgspec

from gateway.faults import EndClass, Fault
from gateway.policy.catalogue import Tier
from gateway.policy.record import Attempt, Outcome, Reason, Record
from gateway.policy.tiers import RANK, WORDS
from gateway.telemetry.histogram import (
    DURATION_BOUNDS_S,
    FIRST_BYTE_BOUNDS_S,
    FIRST_TOKEN_BOUNDS_S,
    NEXT_TOKEN_BOUNDS_S,
    OWN_BOUNDS_S,
    TOKEN_BOUNDS,
    Exemplar,
    Histogram,
)
from gateway.telemetry.labels import POSITIONS, STREAM, Labels, attempt_outcome, limit, org_reason, tier
from gateway.wire.usage import Usage

OK = Outcome.OK
NEXT = dict(zip(POSITIONS, (*POSITIONS[1:], POSITIONS[-1]), strict=True))
"""The label of the attempt after the one so labelled."""

RequestKey = tuple[str, str | None, str, bool, str | None, str | None]
"""Route, tier, outcome, stream, provider, model, as records have them; only those that are labels as they stand are kept."""

AttemptKey = tuple[str, str, str, str, str]
"""Provider, model, outcome, position, operation; the same holds."""


class RequestCell:
    """What requests with the same labels came to."""

    __slots__ = (
        "cached", "cost_nano_usd", "count", "duration", "first_byte", "first_token", "input", "inputs", "model", "next_token",
        "outcome", "output", "outputs", "overhead", "own_cost_nano_usd", "provider", "reasoning", "route", "stream", "tier",
    )  # fmt: skip

    def __init__(self, key: tuple[str, str, str, bool, str, str]) -> None:
        self.route, self.tier, self.outcome, stream, self.provider, self.model = key
        self.stream = STREAM[stream]
        self.count = 0
        self.input = self.cached = self.output = self.reasoning = 0
        self.cost_nano_usd = self.own_cost_nano_usd = 0
        self.duration = Histogram(DURATION_BOUNDS_S)
        self.overhead = Histogram(OWN_BOUNDS_S)
        self.inputs, self.outputs = Histogram(TOKEN_BOUNDS), Histogram(TOKEN_BOUNDS)
        self.first_byte, self.first_token = Histogram(FIRST_BYTE_BOUNDS_S), Histogram(FIRST_TOKEN_BOUNDS_S)
        self.next_token = Histogram(NEXT_TOKEN_BOUNDS_S)

    def add_use(self, usage: Usage, cost_nano_usd: int, own_cost_nano_usd: int) -> None:
        """Add what one answer used and cost."""
        self.input += usage.input
        self.output += usage.output
        self.cached += usage.cached
        self.reasoning += usage.reasoning
        self.cost_nano_usd += cost_nano_usd
        self.own_cost_nano_usd += own_cost_nano_usd
        self.inputs.add(usage.input)
        if usage.output:
            self.outputs.add(usage.output)

    def add_stream(self, ttft_s: float, record: Record) -> None:
        """Add how soon a stream began, and how fast it went on where it is whole."""
        self.first_byte.add(ttft_s)
        self.first_token.add(ttft_s)
        tokens = record.usage.output - 1
        if tokens > 0 and record.ended_s is not None and record.outcome is OK:
            self.next_token.add((record.ended_s - record.started_s - ttft_s) / tokens)


class AttemptCell:
    """How long calls with the same labels took."""

    __slots__ = ("duration", "first_chunk")

    def __init__(self) -> None:
        self.duration = Histogram(DURATION_BOUNDS_S)
        self.first_chunk = Histogram(FIRST_BYTE_BOUNDS_S)


class Cells:
    """All numbers of one worker; with `exemplars`, buckets of durations name the last traced request."""

    def __init__(self, labels: Labels, *, exemplars: bool = False) -> None:
        self.labels = labels
        self.requests: dict[RequestKey, RequestCell] = {}
        self.attempts: dict[AttemptKey, AttemptCell] = {}
        self.waits: dict[tuple[str, ...], Histogram] = {}
        """In a queue, by tier and outcome."""
        self.rejections: Counter[tuple[str, ...]] = Counter()
        self.limit_refusals: Counter[tuple[str, ...]] = Counter()
        self.downgrades: Counter[tuple[str, ...]] = Counter()
        self.fallbacks: Counter[tuple[str, ...]] = Counter()
        self.interruptions: Counter[tuple[str, ...]] = Counter()
        self.strange_events: Counter[tuple[str, ...]] = Counter()
        """Left out of streams, by provider and model."""
        self.budget_alerts: Counter[tuple[str, ...]] = Counter()
        """By whose budget it was: a key's, a project's or an org's."""
        self.org_nano_usd: Counter[str] = Counter()
        self.org_rejections: Counter[tuple[str, ...]] = Counter()
        self.shadows: Counter[tuple[str, ...]] = Counter()
        """Refusals of limits that are shadows, by scope and dimension."""
        self.running: dict[str, Record] = {}
        self._exemplars = exemplars

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
        if record.overhead_s is not None:
            cell.overhead.add(record.overhead_s)
        if record.stream and record.ttft_s is not None:
            cell.add_stream(record.ttft_s, record)
        self._observe_use(cell, record)
        if record.tier_served != record.tier_requested:
            self._observe_downgrade(record)
        self._observe_attempts(record)
        self._observe_rest(cell, record)

    def _observe_use(self, cell: RequestCell, record: Record) -> None:
        usage, cost_nano_usd = record.usage, record.cost_nano_usd or 0
        if usage.input or usage.output:
            cell.add_use(usage, cost_nano_usd, record.own_cost_nano_usd or 0)
            self.org_nano_usd[self.labels.org(record.org)] += cost_nano_usd

    def _observe_rest(self, cell: RequestCell, record: Record) -> None:
        """Count what few requests have: a wait, a trace, events that were left out, an end that is not good."""
        if record.queued_ms:
            labels = (cell.tier, cell.outcome)
            self.waits.setdefault(labels, Histogram(DURATION_BOUNDS_S)).add(record.queued_ms / 1000)
        if record.span is not None and record.span.sampled and self._exemplars:
            _show(cell, record, record.span.trace_id)
        if record.strange_events:
            self.strange_events[self.labels.pair(record.provider, record.model_served)] += record.strange_events
        if record.shadowed:
            self.shadows.update(tuple(shadow.split(":")) for shadow in record.shadowed)
        if record.outcome is not OK:
            self._observe_end(record)

    def _request_cell(self, raw: RequestKey) -> RequestCell:
        route, tier_shown, outcome, stream, provider, model = raw
        key = (self.labels.route(route), tier(tier_shown), str(outcome), stream, *self.labels.pair(provider, model))
        return self.requests.setdefault(key, RequestCell(key))

    def _observe_downgrade(self, record: Record) -> None:
        asked, served = WORDS.get(record.tier_requested or ""), record.tier_served
        if asked is not None and served is not None and RANK[Tier(served)] < RANK[asked]:
            self.downgrades[asked.value, tier(served)] += 1

    def _observe_attempts(self, record: Record) -> None:
        position, attempts, refused = POSITIONS[0], record.attempts, record.limited is not msgspec.UNSET
        for attempt in attempts:
            if not attempt.sent:
                refused = True
                continue
            key = (attempt.provider, attempt.model, attempt.outcome, position, record.route)
            cell, took_s = self.attempts.get(key) or self._attempt_cell(key), attempt.duration_ms / 1000
            if record.stream and record.ttft_s is not None and attempt is attempts[-1]:
                cell.first_chunk.add(took_s)
                took_s += 0.0 if record.ended_s is None else record.ended_s - record.started_s - record.ttft_s
            cell.duration.add(took_s)
            position = NEXT[position]
        if refused:
            self._observe_refused(record)
        if len(attempts) > 1:
            self._observe_fallbacks(attempts)

    def _observe_refused(self, record: Record) -> None:
        reasons = (record.limited, *(attempt.reason for attempt in record.attempts if not attempt.sent))
        for labels in {limit(reason) for reason in reasons if isinstance(reason, Reason) and reason.dimension is not None}:
            self.limit_refusals[labels] += 1

    def _observe_fallbacks(self, attempts: list[Attempt]) -> None:
        labels = self.labels
        for before, after in pairwise(attempts):
            if before.model != after.model:
                self.fallbacks[labels.model(before.model), labels.model(after.model), _reason(before.outcome)] += 1

    def _attempt_cell(self, raw: AttemptKey) -> AttemptCell:
        provider, model, outcome, position, route = raw
        key = (*self.labels.pair(provider, model), attempt_outcome(outcome), position, self.labels.route(route))
        return self.attempts.setdefault(key, AttemptCell())

    def _observe_end(self, record: Record) -> None:
        if record.outcome is Outcome.REJECTED:
            reason = self.labels.reason(record.error_code)
            self.rejections[tier(record.tier_served or record.tier_requested), reason] += 1
            self.org_rejections[self.labels.org(record.org), org_reason(record.error_code)] += 1
        elif record.stream and record.ttft_s is not None:
            if record.outcome is Outcome.CANCELLED:
                self.interruptions["client",] += 1
            else:
                self.interruptions["drain" if record.error_code == "draining" else "upstream",] += 1


def _show(cell: RequestCell, record: Record, trace_id: int) -> None:
    """Keep a traced request as the exemplar of the buckets that it fell into."""
    if record.ended_s is None:
        return
    took_s = record.ended_s - record.started_s
    ended_unix_s = record.started_unix_ms / 1000 + took_s
    cell.duration.show(Exemplar(trace_id, took_s, ended_unix_s))
    if record.stream and record.ttft_s is not None:
        exemplar = Exemplar(trace_id, record.ttft_s, ended_unix_s)
        cell.first_byte.show(exemplar)
        cell.first_token.show(exemplar)


def _reason(outcome: str) -> str:
    return Fault(outcome).end_class.value if outcome in set(Fault) else EndClass.CAPACITY.value
