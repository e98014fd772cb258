"""The metrics as Prometheus reads them: every family, its help, its labels, projected from the cells at each scrape.

Rendering takes milliseconds and runs in a thread, never on the event loop. Seconds, tokens and USD.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.policy.pricing import NANO_USD
from gateway.policy.shadows import DIMENSIONS as SHADOW_DIMENSIONS
from gateway.policy.shadows import SCOPES as SHADOW_SCOPES
from gateway.telemetry.cells import Cells, Histogram
from gateway.telemetry.health import LedgerHealth
from gateway.telemetry.labels import ATTEMPT_OUTCOMES, BUDGETS, OUTCOMES, POSITIONS, STREAM, TIERS, tier

KINDS = ("input", "cached", "output", "reasoning")

Key = tuple[str, ...]
Values = Mapping[Key, float]
Distributions = Mapping[Key, Histogram]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A gauge that another room keeps: its values by label values, read at each scrape. The label sets must be closed."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[], Values]


class Build(msgspec.Struct, frozen=True):
    """What runs, and since when (Unix seconds)."""

    version: str
    started_unix_s: float


class Exposition(Collector):
    """One worker's metrics."""

    def __init__(self, cells: Cells, ledger: LedgerHealth, build: Build, readings: Sequence[Reading] = ()) -> None:
        self._cells = cells
        self._ledger = ledger
        self._build = build
        self._readings = readings
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def render(self) -> bytes:
        """Return the metrics in the text format."""
        return await asyncio.to_thread(generate_latest, self._registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry would collect once to learn the names, before there is anything to collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._requests()
        yield from self._spending()
        yield from self._attempts()
        yield from self._ends()
        yield from self._stores()
        for reading in self._readings:
            yield gauge(reading.name, reading.help, reading.labels, reading.read())
        yield gauge("tiergate_build_info", "What runs.", ("version",), {(self._build.version,): 1})
        yield gauge("tiergate_start_time_seconds", "When this worker started.", (), {(): self._build.started_unix_s})

    def _requests(self) -> Iterator[Metric]:
        labels = ("route", "tier", "outcome", "stream")
        counts = zeros(sorted(self._cells.labels.routes), TIERS, OUTCOMES, STREAM)
        durations: dict[Key, Histogram] = {}
        first_bytes: dict[Key, Histogram] = {}
        for cell in list(self._cells.requests.values()):
            counts[cell.route, cell.tier, cell.outcome, cell.stream] += cell.count
            add(durations, (cell.route, cell.tier, cell.outcome), cell.duration)
            add(first_bytes, (cell.route, cell.tier, cell.model), cell.first_byte)
        yield counter("tiergate_requests_total", "Requests that ended.", labels, counts)
        yield histogram("tiergate_request_duration_seconds", "From receipt to the end.", labels[:3], durations)
        help_text = "From receipt to the first content; streams only."
        yield histogram("tiergate_time_to_first_byte_seconds", help_text, ("route", "tier", "model"), first_bytes)
        inflight = zeros(TIERS, STREAM)
        for record in list(self._cells.running.values()):
            inflight[tier(record.tier_served or record.tier_requested), STREAM[record.stream]] += 1
        yield gauge("tiergate_inflight_requests", "Requests under way.", ("tier", "stream"), inflight)

        waits = self._cells.waits.copy()
        yield histogram("tiergate_queue_wait_seconds", "In the queue of a busy model.", ("tier", "outcome"), waits)

    def _spending(self) -> Iterator[Metric]:
        served = self._cells.labels.served
        tokens: Counter[Key] = zeros(TIERS, sorted({model for _, model in served}), KINDS)
        nano_usd = zeros(TIERS, sorted({provider for provider, _ in served}))
        for cell in list(self._cells.requests.values()):
            for kind, count in zip(KINDS, (cell.input, cell.cached, cell.output, cell.reasoning), strict=True):
                tokens[cell.tier, cell.model, kind] += count
            nano_usd[cell.tier, cell.provider] += cell.cost_nano_usd
        help_text = "Tokens of answers; input includes cached, output includes reasoning."
        yield counter("tiergate_tokens_total", help_text, ("tier", "model", "kind"), tokens)
        usd: Values = {key: value / NANO_USD for key, value in nano_usd.items()}
        yield counter("tiergate_cost_usd_total", "What orgs were charged.", ("tier", "provider"), usd)
        alerts = zeros(BUDGETS)
        alerts.update(self._cells.budget_alerts.copy())
        yield counter("tiergate_budget_alerts_total", "Budgets that came to their alert.", ("scope",), alerts)

    def _attempts(self) -> Iterator[Metric]:
        labels = ("provider", "model", "outcome", "attempt")
        counts: Counter[Key] = Counter()
        for pair in sorted(self._cells.labels.served):
            counts.update({(*pair, *rest): 0 for rest in product(ATTEMPT_OUTCOMES, POSITIONS)})
        durations: dict[Key, Histogram] = {}
        for key, cell in list(self._cells.attempts.items()):
            counts[key] += sum(cell.buckets)
            add(durations, key[:2], cell)
        yield counter("tiergate_upstream_attempts_total", "Calls to upstreams that were sent.", labels, counts)
        help_text = "One call to an upstream, to its end."
        yield histogram("tiergate_upstream_attempt_duration_seconds", help_text, labels[:2], durations)

    def _ends(self) -> Iterator[Metric]:
        rejections = zeros(TIERS, sorted(self._cells.labels.reasons))
        rejections.update(self._cells.rejections.copy())
        yield counter("tiergate_rejections_total", "Requests refused before admission.", ("tier", "reason"), rejections)
        shadows = zeros(SHADOW_SCOPES, SHADOW_DIMENSIONS)
        shadows.update(self._cells.shadows.copy())
        help_text = "Requests that a shadow limit would have refused."
        yield counter("tiergate_shadow_rejections_total", help_text, ("scope", "dimension"), shadows)
        labels = ("from_model", "to_model", "reason")
        yield counter("tiergate_fallbacks_total", "Moves to another model.", labels, self._cells.fallbacks.copy())
        sides = zeros(("client", "upstream", "drain"))
        sides.update(self._cells.interruptions.copy())
        yield counter("tiergate_stream_interruptions_total", "Streams that broke after content.", ("side",), sides)
        strange: Counter[Key] = Counter(dict.fromkeys(sorted(self._cells.labels.served), 0))
        strange.update(self._cells.strange_events.copy())
        help_text = "Events of streams that were no chunk, and were left out."
        yield counter("tiergate_stream_events_dropped_total", help_text, ("provider", "model"), strange)

    def _stores(self) -> Iterator[Metric]:
        ledger = self._ledger
        yield gauge("tiergate_usage_stream_length", "Ledger events not yet stored.", (), {(): ledger.length})
        yield gauge("tiergate_usage_stream_pending", "Of these, in the consumer's hands.", (), {(): ledger.pending})
        help_text = "Age of the oldest ledger event not yet stored."
        yield gauge("tiergate_usage_stream_oldest_age_seconds", help_text, (), {(): ledger.oldest_age_s})
        yield counter("tiergate_usage_stored_total", "Ledger events stored.", (), {(): ledger.stored_count})
        yield counter("tiergate_usage_dead_total", "Ledger events that can never be stored.", (), {(): ledger.dead_count})
        help_text = "Traces of requests that were not stored."
        yield counter("tiergate_traces_dropped_total", help_text, (), {(): ledger.dropped_count})
        yield counter("tiergate_spans_exported_total", "Spans that the collector took.", (), {(): ledger.spans_exported_count})
        help_text = "Spans that found no room, or that the collector did not take."
        yield counter("tiergate_spans_dropped_total", help_text, (), {(): ledger.spans_dropped_count})
        errors: Values = {(op,): count for op, count in ledger.redis_errors.copy().items()}
        yield counter("tiergate_redis_errors_total", "Calls to Redis that failed.", ("op",), errors)


def zeros(*values: Iterable[str]) -> Counter[Key]:
    """Return a zero for each combination of label values: a series that begins with its first event has no rate."""
    return Counter(dict.fromkeys(product(*values), 0))


def add(found: dict[Key, Histogram], key: Key, more: Histogram) -> None:
    """Add a distribution to those found; one without values makes no series."""
    if any(more.buckets):
        found.setdefault(key, Histogram(more.bounds_s)).merge(more)


def counter(name: str, help_text: str, labels: Sequence[str], values: Values) -> Metric:
    """Return a family of counters."""
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def gauge(name: str, help_text: str, labels: Sequence[str], values: Values) -> Metric:
    """Return a family of gauges."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def histogram(name: str, help_text: str, labels: Sequence[str], distributions: Distributions) -> Metric:
    """Return a family of histograms."""
    family = HistogramMetricFamily(name, help_text, labels=labels)
    for key, each in distributions.items():
        ends = [*(f"{bound:g}" for bound in each.bounds_s), "+Inf"]
        family.add_metric(key, list(zip(ends, accumulate(each.buckets), strict=True)), each.sum_s)
    return family
