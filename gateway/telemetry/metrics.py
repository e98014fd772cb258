"""Values as `prometheus_client` takes them, and a page of them in OpenMetrics' text format."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.core import Exemplar as Shown
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

from gateway.telemetry.families import Family
from gateway.telemetry.histogram import Histogram

Key = tuple[str, ...]
Values = Mapping[Key, float]
Distributions = Mapping[Key, Histogram]


def counter(family: Family, values: Values) -> Metric:
    """Return a family of counters."""
    found = CounterMetricFamily(family.name, family.help, labels=family.labels)
    for key, value in values.items():
        found.add_metric(key, value)
    return found


def gauge(family: Family, values: Values) -> Metric:
    """Return a family of gauges."""
    found = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for key, value in values.items():
        found.add_metric(key, value)
    return found


def histogram(family: Family, distributions: Distributions) -> Metric:
    """Return a family of histograms, with the exemplars of their buckets."""
    found = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    for key, each in distributions.items():
        found.add_metric(key, [*_buckets(each)], each.total)
    return found


def _buckets(found: Histogram) -> Iterator[tuple[str, float] | tuple[str, float, Shown]]:
    exemplars = found.exemplars or {}
    ends = (*map(floatToGoString, found.bounds), "+Inf")
    for place, (end, count) in enumerate(zip(ends, accumulate(found.buckets), strict=True)):
        exemplar = exemplars.get(place)
        if exemplar is None:
            yield end, count
        else:
            yield end, count, Shown({"trace_id": f"{exemplar.trace_id:032x}"}, exemplar.value, exemplar.unix_s)


def add(found: dict[Key, Histogram], key: Key, more: Histogram, bounds: tuple[float, ...]) -> None:
    """Add a distribution to those found, over these bounds; one without values makes no series."""
    if any(more.buckets):
        found.setdefault(key, Histogram(bounds)).merge(more)


class Once(Collector):
    """A collector of families that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry need not know names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


def page(families: Iterable[Metric]) -> bytes:
    """Return these families as a page."""
    registry = CollectorRegistry()
    registry.register(Once(families))
    return rendered(registry)


def rendered(registry: CollectorRegistry) -> bytes:
    """Return the page of a registry."""
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call] # its part for OpenMetrics has no types
    return text
