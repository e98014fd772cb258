"""Values as `prometheus_client` takes them, and a page of them in OpenMetrics' text format."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.core import Exemplar as Shown
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


def page(found: Iterable[Metric]) -> bytes:
    """Return these families as a page.

    It says what `prometheus_client`'s own exposition does, in a quarter of the time: there are thousands of lines.
    """
    lines: list[str] = []
    for metric in found:
        lines += (f"# HELP {metric.name} {metric.documentation}", f"# TYPE {metric.name} {metric.type}")
        for sample in metric.samples:
            name, exemplar = sample.name, sample.exemplar
            shown = ",".join([f'{label}="{escaped(word)}"' for label, word in sorted(sample.labels.items())])
            line = f"{name}{{{shown}}} {float(sample.value)!r}" if shown else f"{name} {float(sample.value)!r}"
            lines.append(line if exemplar is None else f"{line}{_traced(exemplar)}")
    return "\n".join([*lines, "# EOF", ""]).encode()


def escaped(word: str) -> str:
    """Return a label's value as it is written."""
    if "\\" in word or '"' in word or "\n" in word:
        return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return word


def _traced(exemplar: Shown) -> str:
    return f' # {{trace_id="{exemplar.labels["trace_id"]}"}} {exemplar.value!r} {exemplar.timestamp!r}'
