"""Samples as Markdown: the median over the rounds (least-most). Ratios are taken within each round, before the median."""

import os
import platform
import timeit
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.metadata import version
from statistics import median

import msgspec

from tests.bench.loads import LOADS, Load
from tests.bench.measure import Sample


def ratios(samples: Sequence[Sample], floor: Sequence[Sample]) -> list[float]:
    """Return the CPU time of each sample as a multiple of the floor's in the same round."""
    return [one.cpu_us / under.cpu_us for one, under in zip(samples, floor, strict=True)]


def figure(values: Iterable[float], digits: int = 1) -> str:
    """Return median and range."""
    ordered = sorted(values)
    return f"{median(ordered):,.{digits}f} ({ordered[0]:,.{digits}f}-{ordered[-1]:,.{digits}f})"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells, heads first, as a table."""
    heads, *body = rows
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ("---", *("--:" for _ in heads[1:])), *body))


def conditions(rounds: str) -> str:
    """Return what a run ran on, in a line."""
    machine, python, uvloop = platform.machine(), platform.python_version(), version("uvloop")
    now = f"load average {os.getloadavg()[0]:.1f}, yardstick {yardstick_us():.2f} us"
    return f"{machine}, Python {python}, uvloop {uvloop}; {rounds}; {now}"


def yardstick_us() -> float:
    """Return what it takes here and now to decode the request: figures of two machines, or of two hours, compare by it."""
    body = LOADS["json"].request.partition(b"\r\n\r\n")[2]
    return min(timeit.repeat(partial(msgspec.json.decode, body), number=5_000, repeat=5)) / 5_000 * 1e6


def table(load: Load, found: dict[str, Sequence[Sample]], floor: str, calls: dict[str, float]) -> str:
    """Return one load's table."""
    unit = load.unit
    heads = (
        "target",
        f"CPU us/{unit}",
        f"x {floor}",
        f"{unit}s/s",
        "p50 ms",
        "p99 ms",
        f"store us/{unit}",
        f"scripts/{unit}",
        "core %",
    )
    return markdown([heads, *(row(name, samples, found[floor], calls.get(name)) for name, samples in found.items())])


def row(name: str, samples: Sequence[Sample], floor: Sequence[Sample], calls: float | None) -> tuple[str, ...]:
    """Return one target's cells; an error voids them."""
    errors = sum((one.errors for one in samples), Counter[str]())
    if errors:
        return (name, f"void: {', '.join(f'{count} x {reason}' for reason, count in errors.items())}", *("-" for _ in range(7)))
    store = ("-", "-") if calls is None else (figure(one.store_us for one in samples), f"{calls:.2f}")
    return (
        name,
        figure(one.cpu_us for one in samples),
        figure(ratios(samples, floor)),
        figure((one.rate for one in samples), 0),
        figure((one.p50_ms for one in samples), 2),
        figure((one.p99_ms for one in samples), 2),
        *store,
        figure((one.busy_percent for one in samples), 0),
    )
