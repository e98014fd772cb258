"""One worker's metrics, projected from its cells at each scrape, in OpenMetrics' text format.

Rendering takes milliseconds and runs in a thread, never on the event loop. Seconds, tokens and USD.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from gateway.faults import EndClass
from gateway.policy.catalogue import Tier
from gateway.policy.pricing import NANO_USD
from gateway.policy.shadows import DIMENSIONS as SHADOW_DIMENSIONS
from gateway.policy.shadows import SCOPES as SHADOW_SCOPES
from gateway.telemetry import families
from gateway.telemetry.cells import Cells
from gateway.telemetry.families import Family
from gateway.telemetry.genai import gen_ai
from gateway.telemetry.health import LedgerHealth
from gateway.telemetry.histogram import DURATION_BOUNDS_S, FIRST_BYTE_BOUNDS_S, OWN_BOUNDS_S, Histogram
from gateway.telemetry.labels import (
    ATTEMPT_OUTCOMES,
    BUDGETS,
    DIMENSIONS,
    DOWNGRADES,
    LIMITS,
    NONE,
    ORG_REASONS,
    OTHER,
    OUTCOMES,
    POSITIONS,
    STREAM,
    TIERS,
    tier,
)
from gateway.telemetry.metrics import Key, Values, add, counter, gauge, histogram, page

KINDS = ("input", "cached", "output", "reasoning")


class Reading(msgspec.Struct, frozen=True):
    """A gauge that another room keeps: its values by label values, read at each scrape. The label sets must be closed."""

    family: Family
    read: Callable[[], Values]


class Build(msgspec.Struct, frozen=True):
    """What runs, and since when (Unix seconds)."""

    version: str
    started_unix_s: float


class Exposition:
    """One worker's metrics."""

    def __init__(self, cells: Cells, health: LedgerHealth, build: Build, readings: Sequence[Reading] = ()) -> None:
        self._cells = cells
        self._health = health
        self._build = build
        self._readings = readings
        self._process = ProcessCollector(registry=CollectorRegistry())

    async def render(self) -> bytes:
        """Return the page."""
        return await asyncio.to_thread(self._page)

    def _page(self) -> bytes:
        return page(chain(self.collect(), self._process.collect()))

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._requests()
        yield from self._tiers()
        yield from self._spending()
        yield from self._orgs()
        yield from self._attempts()
        yield from self._ends()
        yield from self._stores()
        yield from gen_ai(self._cells)
        for reading in self._readings:
            yield gauge(reading.family, reading.read())
        yield gauge(families.BUILD, {(self._build.version,): 1})
        yield gauge(families.STARTED, {(): self._build.started_unix_s})

    def _requests(self) -> Iterator[Metric]:
        counts = zeros(sorted(self._cells.labels.operations), TIERS, OUTCOMES, STREAM)
        durations: dict[Key, Histogram] = {}
        first_bytes: dict[Key, Histogram] = {}
        overheads: dict[Key, Histogram] = {}
        for cell in list(self._cells.requests.values()):
            counts[cell.route, cell.tier, cell.outcome, cell.stream] += cell.count
            add(durations, (cell.route, cell.tier, cell.outcome), cell.duration, DURATION_BOUNDS_S)
            add(first_bytes, (cell.route, cell.tier, cell.model), cell.first_byte, FIRST_BYTE_BOUNDS_S)
            add(overheads, (cell.route,), cell.overhead, OWN_BOUNDS_S)
        yield counter(families.REQUESTS, counts)
        yield histogram(families.DURATION, durations)
        yield histogram(families.FIRST_BYTE, first_bytes)
        yield histogram(families.OVERHEAD, overheads)
        inflight = zeros(TIERS, STREAM)
        for record in list(self._cells.running.values()):
            inflight[tier(record.tier_served or record.tier_requested), STREAM[record.stream]] += 1
        yield gauge(families.INFLIGHT, inflight)

    def _tiers(self) -> Iterator[Metric]:
        models = sorted({model for _, model in self._cells.labels.served})
        grants = zeros(models, [each.value for each in Tier])
        over_limit = zeros(models)
        for cell in list(self._cells.requests.values()):
            if cell.model != NONE:
                grants[cell.model, cell.tier] += cell.count
            if cell.model != NONE and cell.tier == Tier.OVER_LIMIT:
                over_limit[cell.model,] += cell.count
        yield counter(families.GRANTS, grants)
        yield counter(families.OVER_LIMIT, over_limit)
        yield counter(families.DOWNGRADES, counted(DOWNGRADES, self._cells.downgrades))
        yield histogram(families.QUEUE_WAIT, self._cells.waits.copy())

    def _spending(self) -> Iterator[Metric]:
        served = self._cells.labels.served
        providers = sorted({provider for provider, _ in served})
        tokens: Counter[Key] = zeros(TIERS, sorted({model for _, model in served}), KINDS)
        charged, paid = zeros(TIERS, providers), zeros(TIERS, providers)
        for cell in list(self._cells.requests.values()):
            for kind, count in zip(KINDS, (cell.input, cell.cached, cell.output, cell.reasoning), strict=True):
                tokens[cell.tier, cell.model, kind] += count
            charged[cell.tier, cell.provider] += cell.cost_nano_usd
            paid[cell.tier, cell.provider] += cell.own_cost_nano_usd
        yield counter(families.TOKENS, tokens)
        yield counter(families.COST, usd(charged))
        yield counter(families.OWN_COST, usd(paid))
        yield counter(families.BUDGET_ALERTS, counted(product(BUDGETS), self._cells.budget_alerts))

    def _orgs(self) -> Iterator[Metric]:
        orgs = (*sorted(self._cells.labels.orgs), OTHER)
        spent: dict[Key, int] = {(org,): 0 for org in orgs}
        spent.update({(org,): nano_usd for org, nano_usd in self._cells.org_nano_usd.copy().items()})
        yield counter(families.ORG_COST, usd(spent))
        yield counter(families.ORG_REJECTIONS, counted(product((*orgs, NONE), ORG_REASONS), self._cells.org_rejections))

    def _attempts(self) -> Iterator[Metric]:
        served = sorted(self._cells.labels.served)
        counts = counted((pair + rest for pair in served for rest in product(ATTEMPT_OUTCOMES, POSITIONS)), Counter())
        durations: dict[Key, Histogram] = {}
        for key, cell in list(self._cells.attempts.items()):
            counts[key[:4]] += cell.duration.count
            add(durations, key[:2], cell.duration, DURATION_BOUNDS_S)
        yield counter(families.ATTEMPTS, counts)
        yield histogram(families.ATTEMPT_DURATION, durations)

    def _ends(self) -> Iterator[Metric]:
        cells = self._cells
        reasons = sorted(cells.labels.reasons)
        yield counter(families.REJECTIONS, counted(product(TIERS, reasons), cells.rejections))
        yield counter(families.LIMIT_REFUSALS, counted(product(LIMITS, DIMENSIONS), cells.limit_refusals))
        shadows = product(SHADOW_SCOPES, SHADOW_DIMENSIONS)
        yield counter(families.SHADOW_REJECTIONS, counted(shadows, cells.shadows))
        moves = ((*pair, reason.value) for pair in sorted(cells.labels.fallbacks) for reason in EndClass)
        yield counter(families.FALLBACKS, counted(moves, cells.fallbacks))
        yield counter(families.INTERRUPTIONS, counted(product(("client", "upstream", "drain")), cells.interruptions))
        yield counter(families.STRANGE_EVENTS, counted(sorted(cells.labels.served), cells.strange_events))

    def _stores(self) -> Iterator[Metric]:
        health = self._health
        yield gauge(families.USAGE_LENGTH, {(): health.length})
        yield gauge(families.USAGE_PENDING, {(): health.pending})
        yield gauge(families.USAGE_AGE, {(): health.oldest_age_s})
        yield counter(families.USAGE_STORED, {(): health.stored_count})
        yield counter(families.USAGE_DEAD, {(): health.dead_count})
        yield counter(families.TRACES_DROPPED, {(): health.dropped_count})
        yield counter(families.SPANS_EXPORTED, {(): health.spans_exported_count})
        yield counter(families.SPANS_DROPPED, {(): health.spans_dropped_count})
        yield counter(families.REDIS_ERRORS, {(op,): count for op, count in health.redis_errors.copy().items()})
        yield histogram(families.REDIS_DURATION, {(op,): found for op, found in health.redis_calls.items()})


def zeros(*values: Iterable[str]) -> Counter[Key]:
    """Return a zero for each combination of label values: a series that begins with its first event has no rate."""
    return Counter(dict.fromkeys(product(*values), 0))


def counted(keys: Iterable[Key], counts: Counter[Key]) -> Counter[Key]:
    """Return the counts, and a zero for each of these keys that has none."""
    found: Counter[Key] = Counter(dict.fromkeys(keys, 0))
    found.update(counts.copy())
    return found


def usd(nano_usd: Values) -> Values:
    """Return money as metrics have it."""
    return {key: value / NANO_USD for key, value in nano_usd.items()}
