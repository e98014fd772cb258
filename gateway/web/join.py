"""The metrics of several workers as one page: each family once, each series with its worker's label, no total ever falling.

A worker that restarts begins at zero, and one that is down says nothing: what its predecessors had counted by their last scrape
is carried on, so that a sum over workers only rises. Gauges are never carried. Pages come as OpenMetrics has them; the one that
is made of them is that, or Prometheus' older text format, which has no exemplars. Does no IO.
"""

import re
from collections.abc import Iterator, Sequence

from gateway.telemetry.families import STARTED, WORKER_UP

CARRIED = frozenset({"counter", "histogram"})

OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
TEXT_TYPE = "text/plain; version=0.0.4"

EXEMPLAR = re.compile(r" # \{trace_id=\"[0-9a-f]{32}\"\} \S+ \S+$")


class Family:
    """One family of a page: its help, its type, its values by series, in the page's order, and their exemplars."""

    __slots__ = ("exemplars", "help", "kind", "values")

    def __init__(self) -> None:
        self.help = ""
        self.kind = "unknown"
        self.values: dict[str, float] = {}
        self.exemplars: dict[str, str] = {}


Page = dict[str, Family]


class Place:
    """One worker's place: what the processes before this one counted, and what this one said last."""

    __slots__ = ("before", "latest")

    def __init__(self) -> None:
        self.before: Page = {}
        self.latest: Page = {}

    def take(self, page: Page) -> None:
        """Take a fresh page; another start time closes the account of the process before."""
        if started(self.latest) not in (None, started(page)):
            self.before = totals(self.before, self.latest)
        self.latest = page

    def show(self, *, up: bool) -> Page:
        """Return what counts now: everything that is carried, and the gauges of a worker that is up."""
        shown = totals(self.before, self.latest)
        return shown | {name: family for name, family in self.latest.items() if name not in shown} if up else shown


class Join:
    """The places of all workers."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    def join(self, pages: Sequence[bytes | None], whole: bytes = b"", *, openmetrics: bool = False) -> bytes:
        """Return one page for the workers' pages in their places; None is a worker that did not answer.

        `whole` is the page of what is told once, for all of them.
        """
        heads: dict[str, Family] = {}
        lines: dict[str, list[str]] = {}
        for worker, shown in enumerate(self.shown(pages)):
            for name, family in shown.items():
                heads.setdefault(name, family)
                lines.setdefault(name, []).extend(labelled(family, worker, openmetrics=openmetrics))
        for name, family in {**parse(whole.decode()), WORKER_UP.name: up([page is not None for page in pages])}.items():
            heads[name] = family
            lines[name] = [f"{series} {value!r}" for series, value in family.values.items()]
        text = [line for name, family in heads.items() for line in (*head(name, family, openmetrics=openmetrics), *lines[name])]
        return "\n".join([*text, *(["# EOF"] if openmetrics else []), ""]).encode()

    def shown(self, pages: Sequence[bytes | None]) -> list[Page]:
        """Take the workers' pages and return what counts now of each worker."""
        while len(self._places) < len(pages):
            self._places.append(Place())
        for place, page in zip(self._places, pages, strict=False):
            if page is not None:
                place.take(parse(page.decode()))
        return [place.show(up=page is not None) for place, page in zip(self._places, pages, strict=False)]


def wants_openmetrics(accept: str) -> bool:
    """Return whether a scraper takes OpenMetrics, which those that know it ask for first."""
    return OPENMETRICS in accept


def parse(text: str) -> Page:
    """Return the families of a page."""
    page: Page = {}
    family = Family()
    for line in text.split("\n"):
        if line.startswith("# "):
            _, word, name, rest = (*line.split(" ", 3), "", "")[:4]
            if word in ("HELP", "TYPE"):
                family = page.setdefault(name, Family())
            if word == "HELP":
                family.help = rest
            elif word == "TYPE":
                family.kind = rest
        elif line:
            exemplar = EXEMPLAR.search(line)
            series, value = line[: exemplar.start() if exemplar else None].rsplit(" ", 1)
            family.values[series] = float(value)
            if exemplar:
                family.exemplars[series] = exemplar[0]
    return page


def head(name: str, family: Family, *, openmetrics: bool) -> Iterator[str]:
    """Yield what stands above a family's lines."""
    shown = f"{name}_total" if family.kind == "counter" and not openmetrics else name
    yield f"# HELP {shown} {family.help}"
    yield f"# TYPE {shown} {family.kind}"


def up(answered: Sequence[bool]) -> Family:
    """Return the family that says which workers answered."""
    family = Family()
    family.help, family.kind = WORKER_UP.help, WORKER_UP.kind
    family.values = {f'{WORKER_UP.name}{{worker="{worker}"}}': int(found) for worker, found in enumerate(answered)}
    return family


def started(page: Page) -> float | None:
    """Return when the process behind a page started: what tells it from the next in the same place."""
    family = page.get(STARTED.name)
    return None if family is None else family.values.get(STARTED.name)


def totals(before: Page, latest: Page) -> Page:
    """Return the carried families of both pages, added up, with the exemplars of the later one."""
    found: Page = {}
    for page in (before, latest):
        for name, family in page.items():
            if family.kind in CARRIED:
                total = found.setdefault(name, Family())
                total.help, total.kind, total.exemplars = family.help, family.kind, family.exemplars
                for series, value in family.values.items():
                    total.values[series] = total.values.get(series, 0.0) + value
    return found


def labelled(family: Family, worker: int, *, openmetrics: bool) -> Iterator[str]:
    """Yield a family's lines with the worker's label first."""
    label = f'worker="{worker}"'
    for series, value in family.values.items():
        name, brace, labels = series.partition("{")
        exemplar = family.exemplars.get(series, "") if openmetrics else ""
        yield f"{name}{{{label},{labels} {value!r}{exemplar}" if brace else f"{name}{{{label}}} {value!r}{exemplar}"
