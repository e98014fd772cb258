"""`python -m tests.bench.admission`: what an admission and its settlement cost, by the number of limits that they pass.

Client CPU over our connection and over redis-py with one pipeline a loop turn, 64 calls in flight on a unix socket; and what each
script takes in the store, by its own statistics: a heartbeat is one lease's share of a call that renews 64. The second table is
that of `verdicts`; the exit status is 1 where it shows more than is promised. The client has the last core, the store the first.
"""

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import uvloop

from gateway.admission.client import Admission
from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.policy.admission import Acquire, Lesson, Progress, Row, Settle, Upstream
from gateway.policy.answers import Granted
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.charges import Charge, Estimate, Reach
from gateway.tasks import Owned
from tests.bench import verdicts
from tests.bench.batch import Batch, BatchedAdmission
from tests.bench.leases import COST, EVENT, IN_FLIGHT, TTL_MS, supply, tenant
from tests.bench.processes import Machine
from tests.bench.report import conditions, figure, markdown
from tests.bench.store import Store
from tests.valkey import Valkey

TIMEOUT_S = 5.0
HALFWAY = Estimate(1, 200, 50, 250)
LESSON = Lesson("org", "model", 300_000, COST.output)

VERDICT_ROUNDS = 3
"""How many rounds of the second table go with one of the first: they are short."""

RATES = Limits(rpm=1_000_000_000, tpm=10_000_000_000)
USUAL = Limits(rpm=1_000_000_000, tpm=10_000_000_000, concurrency=1_000_000)
DAILY = Limits(rpm=1_000_000_000, rpd=100_000_000, tpm=10_000_000_000, concurrency=1_000_000)

HEADS = (
    "limits",
    "connection: CPU us",
    "redis-py: CPU us",
    "redis-py / connection",
    "store: us/acquire",
    "store: us/heartbeat",
    "store: us/settle",
)


@dataclass(frozen=True)
class Cost:
    """One round, by the lease: the client's CPU time of acquire and settle, and the store's time of each script. Microseconds."""

    client_us: float
    acquire_us: float
    heartbeat_us: float
    settle_us: float


def charged() -> Iterator[tuple[Charge, ...]]:
    """Yield what requests are charged: the key's limits; the organisation's and the deployment's too; a day's and the model's."""
    yield tenant("k:key", USUAL)
    yield tenant("k:key", USUAL) + tenant("o:org", USUAL) + supply("d:one", RATES, Reach.DEPLOYMENT)
    serving = supply("m:model", RATES, Reach.MODEL) + supply("d:one", RATES, Reach.DEPLOYMENT)
    yield tenant("k:key", DAILY) + tenant("o:org", DAILY) + serving


async def cost(admission: Admission, row: Row, count: int, store: Store) -> Cost:
    """Measure one round. Raises RuntimeError where a lease is refused."""

    async def acquire(lease_id: str) -> None:
        verdict = await admission.acquire(Acquire(lease_id, (row,), TTL_MS, EVENT))
        if not isinstance(verdict, Granted):
            raise RuntimeError("limits that are out of reach refused a request")  # noqa: TRY004 - no fault of a type

    async def settle(lease_id: str) -> None:
        await admission.settle(Settle(lease_id, capacity=False, actual=COST, closed=EVENT, lesson=LESSON))

    store.clear()
    acquire_cpu_s, acquire_us = await spent(acquire, count, store)
    _, before_us = store.calls()
    await admission.progress([Progress(str(number), HALFWAY) for number in range(count)])
    heartbeat_us = store.calls()[1] - before_us
    settle_cpu_s, settle_us = await spent(settle, count, store)
    return Cost((acquire_cpu_s + settle_cpu_s) * 1e6 / count, acquire_us / count, heartbeat_us / count, settle_us / count)


async def spent(call: Callable[[str], Awaitable[None]], count: int, store: Store) -> tuple[float, float]:
    """Make so many calls, each with an id of its own. Return the client's CPU seconds and the store's microseconds."""
    ids = map(str, range(count))

    async def one_after_another() -> None:
        for each in ids:
            await call(each)

    _, before_us = store.calls()
    began_s = time.process_time()
    await asyncio.gather(*(one_after_another() for _ in range(IN_FLIGHT)))
    cpu_s = time.process_time() - began_s
    return cpu_s, store.calls()[1] - before_us


async def run(valkey: Valkey, reps: int, leases: int) -> list[str]:
    """Print both tables. Return what is not as promised."""
    owned, store = Owned(), Store(valkey.socket)
    connection = Connection(locator(valkey.url), owned, timeout_s=TIMEOUT_S)
    await connection.open()
    async with open_client(locator(valkey.url), timeout_s=TIMEOUT_S) as redis:
        print(await compare(Admission(connection), BatchedAdmission(connection, Batch(redis, owned)), store, (reps, leases)))
    found = await verdicts.rounds_of_each(connection, store, VERDICT_ROUNDS * reps)
    print(f"\n{verdicts.table(found)}")
    await connection.close()
    return verdicts.too_dear(found)


async def compare(ours: Admission, theirs: Admission, store: Store, rounds: tuple[int, int]) -> str:
    """Return the table: for each number of limits, rounds of our connection and of redis-py in turn."""
    reps, count = rounds
    lines: list[Sequence[str]] = [HEADS]
    for each in charged():
        row = Row(Upstream(), "model", Tier.DEFAULT, each, COST)
        await cost(ours, row, IN_FLIGHT, store)
        pairs = [(await cost(ours, row, count, store), await cost(theirs, row, count, store)) for _ in range(reps)]
        lines.append((str(len(each)), *cells(pairs)))
    return markdown(lines)


def cells(pairs: Sequence[tuple[Cost, Cost]]) -> tuple[str, ...]:
    """Return one row of the table, of rounds of ours and theirs."""
    return (
        figure(ours.client_us for ours, _ in pairs),
        figure(theirs.client_us for _, theirs in pairs),
        figure(theirs.client_us / ours.client_us for ours, theirs in pairs),
        figure(ours.acquire_us for ours, _ in pairs),
        figure(ours.heartbeat_us for ours, _ in pairs),
        figure(ours.settle_us for ours, _ in pairs),
    )


def main() -> None:
    """Run what the command line asks for."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.admission", description=__doc__)
    options.add_argument("--reps", type=int, default=5, metavar="N", help="rounds of each row (5)")
    options.add_argument("--count", type=int, default=1_500, metavar="N", help="leases in each round (1500)")
    asked = options.parse_args()
    machine = Machine()
    print(conditions(f"{asked.reps} rounds of {asked.count} leases"), flush=True)
    os.sched_setaffinity(0, {machine.rest})
    gc.freeze()
    gc.disable()
    with Valkey() as valkey, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        os.sched_setaffinity(0, {machine.under_test})
        broken = runner.run(run(valkey, asked.reps, asked.count))
    sys.exit("\n".join(broken) or None)


if __name__ == "__main__":
    main()
