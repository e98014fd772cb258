"""The metrics of several workers as one page: each family once, each series with its worker's label, no total ever falling.

A worker that restarts begins at zero, and one that is down says nothing: what its predecessors had counted by their last scrape
is carried on, so that a sum over workers only rises. Gauges are never carried. Does no IO.
"""

from collections.abc import Sequence

STARTED = "tiergate_start_time_seconds"
"""The series that tells one process from the next in the same place."""

CARRIED = frozenset({"counter", "histogram"})


class Family:
    """One family of a page: its head (HELP and TYPE lines), its type, its values by series, in the page's order."""

    __slots__ = ("head", "kind", "values")

    def __init__(self) -> None:
        self.head: list[str] = []
        self.kind = "untyped"
        self.values: dict[str, float] = {}


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

    def join(self, pages: Sequence[bytes | None]) -> bytes:
        """Return one page for the workers' pages in their places; None is a worker that did not answer."""
        while len(self._places) < len(pages):
            self._places.append(Place())
        heads: dict[str, list[str]] = {}
        lines: dict[str, list[str]] = {}
        for worker, (place, page) in enumerate(zip(self._places, pages, strict=False)):
            if page is not None:
                place.take(parse(page.decode()))
            for name, family in place.show(up=page is not None).items():
                heads.setdefault(name, family.head)
                lines.setdefault(name, []).extend(labelled(family, worker))
        text = [line for name, head in heads.items() for line in (*head, *lines[name])]
        text += ["# HELP tiergate_worker_up Whether the worker answered.", "# TYPE tiergate_worker_up gauge"]
        text += [f'tiergate_worker_up{{worker="{worker}"}} {int(page is not None)}' for worker, page in enumerate(pages)]
        return "\n".join([*text, ""]).encode()


def parse(text: str) -> Page:
    """Return the families of a page in the text format."""
    page: Page = {}
    family = Family()
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            family = page.setdefault(name, Family())
            family.head.append(line)
            if word == "TYPE":
                family.kind = rest
        elif line:
            series, value = line.rsplit(" ", 1)
            family.values[series] = float(value)
    return page


def started(page: Page) -> float | None:
    """Return when the process behind a page started."""
    family = page.get(STARTED)
    return None if family is None else family.values.get(STARTED)


def totals(before: Page, latest: Page) -> Page:
    """Return the carried families of both pages, added up."""
    found: Page = {}
    for page in (before, latest):
        for name, family in page.items():
            if family.kind in CARRIED:
                total = found.setdefault(name, Family())
                total.head, total.kind = family.head, family.kind
                for series, value in family.values.items():
                    total.values[series] = total.values.get(series, 0.0) + value
    return found


def labelled(family: Family, worker: int) -> list[str]:
    """Return a family's lines with the worker's label first."""
    label = f'worker="{worker}"'
    lines = []
    for series, value in family.values.items():
        name, brace, labels = series.partition("{")
        lines.append(f"{name}{{{label},{labels} {value!r}" if brace else f"{name}{{{label}}} {value!r}")
    return lines
