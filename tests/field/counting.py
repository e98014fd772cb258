"""The metrics of a running gateway as numbers, and what moved them."""

from collections import defaultdict
from collections.abc import Mapping

from tests.running import Running

Numbers = Mapping[str, float]
"""Values by series, as a page has them."""

OF_OURS = "tiergate_"


def numbers(page: str) -> Numbers:
    """Return the numbers of a page that are the gateway's own; those of its process move by themselves."""
    lines = (line.rpartition(" ") for line in page.splitlines() if line.startswith(OF_OURS))
    return {series: float(value) for series, _, value in lines}


async def counted(run: Running) -> Numbers:
    """Return the numbers once everything is settled."""
    await run.settled()
    return numbers((await run.gateway._exposition.render()).decode())


def moved(before: Numbers, after: Numbers) -> Numbers:
    """Return by how much each series moved that did."""
    deltas = {series: value - before.get(series, 0) for series, value in after.items()}
    return {series: delta for series, delta in deltas.items() if delta}


def total(found: Numbers, family: str, **labels: str) -> float:
    """Return the sum over the series of a family that have these labels."""
    wanted = {f'{name}="{value}"' for name, value in labels.items()}
    return sum(value for series, value in found.items() if name_of(series) == family and wanted <= {*labels_of(series)})


def by_label(found: Numbers, family: str, label: str) -> dict[str, float]:
    """Return the sums over the series of a family by one of their labels."""
    sums: defaultdict[str, float] = defaultdict(float)
    for series, value in found.items():
        if name_of(series) == family:
            [words] = [each for each in labels_of(series) if each.startswith(f'{label}="')]
            sums[words[len(label) + 2 : -1]] += value
    return dict(sums)


def name_of(series: str) -> str:
    return series.partition("{")[0]


def labels_of(series: str) -> list[str]:
    """Return the labels of a series as they are written."""
    return series.partition("{")[2].removesuffix("}").split(",")
