"""One window, one sample; rounds of windows, the targets in turn. Durations are seconds unless named otherwise.

A window lasts from the first request until all that it caused is done: the ledger's rows are paid for by the requests that they
are about, even where they are written later.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.client import drive_count, drive_for
from tests.bench.loads import Load
from tests.bench.processes import Machine
from tests.bench.stage import Stage, Target
from tests.bench.store import Store

WARM_UP_COUNT = 500
CALLS_COUNT = 2_000
IDLE_S = 1.0


@dataclass(frozen=True)
class Sample:
    """What one target did in one window, by the request."""

    cpu_us: float
    store_us: float
    rate: float
    """Requests a second."""
    p50_ms: float
    p99_ms: float
    busy_percent: float
    """Of the target's core, while requests came."""
    foreign_percent: float
    """Of one core, gone to processes that are none of the run's."""
    errors: Counter[str]


async def sample(target: Target, load: Load, seconds: float, stage: Stage, machine: Machine) -> Sample:
    """Measure one window."""
    began_s, busy_s, ours_s = time.perf_counter(), machine.busy_s(), stage.cpu_s()
    cpu_s, store_cpu_s = target.cpu_s(), target.store_cpu_s()
    tally = await drive_for(target.port, load, seconds)
    loaded_s = target.cpu_s() - cpu_s
    await target.rest()
    spent_s, store_spent_s = target.cpu_s() - cpu_s, target.store_cpu_s() - store_cpu_s
    foreign_s = machine.busy_s() - busy_s - (stage.cpu_s() - ours_s)
    count, ordered = max(1, len(tally.latencies_s)), sorted(tally.latencies_s) or [0.0]
    return Sample(
        cpu_us=spent_s * 1e6 / count,
        store_us=store_spent_s * 1e6 / count,
        rate=count / tally.elapsed_s,
        p50_ms=ordered[len(ordered) // 2] * 1e3,
        p99_ms=ordered[len(ordered) * 99 // 100] * 1e3,
        busy_percent=100 * loaded_s / tally.elapsed_s,
        foreign_percent=100 * max(0.0, foreign_s) / (time.perf_counter() - began_s),
        errors=tally.errors,
    )


async def ask(target: Target, load: Load, count: int) -> None:
    """Send so many requests, unmeasured, and wait until they are done. Raises RuntimeError where an answer is wrong."""
    tally = await drive_count(target.port, load, count)
    if tally.errors:
        raise RuntimeError(f"{target.name} cannot be measured: {dict(tally.errors)}")
    await target.rest()


async def script_calls(target: Target, store: Store, load: Load) -> float:
    """Return how often scripts are called for one request. What is called at rest is counted before and after, and taken off."""
    before = await calls_at_rest(store)
    began_s, (calls, _) = time.perf_counter(), store.calls()
    await ask(target, load, CALLS_COUNT)
    made, elapsed_s = store.calls()[0] - calls, time.perf_counter() - began_s
    after = await calls_at_rest(store)
    return (made - elapsed_s * (before + after) / 2) / CALLS_COUNT


async def calls_at_rest(store: Store) -> float:
    """Return how often scripts are called in a second in which nobody asks for anything."""
    calls, _ = store.calls()
    await asyncio.sleep(IDLE_S)
    return (store.calls()[0] - calls) / IDLE_S


async def rounds(load: Load, reps: int, seconds: float, stage: Stage, machine: Machine) -> dict[str, Sequence[Sample]]:
    """Measure every target in turn, again and again. Return the samples of each, in the order of the rounds."""
    found: dict[str, list[Sample]] = {target.name: [] for target in stage.targets}
    for _ in range(reps):
        for target in stage.targets:
            found[target.name].append(await sample(target, load, seconds, stage, machine))
    return {**found}
