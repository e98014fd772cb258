"""`python -m tests.bench.ledger`: what it costs to bring the two events of a request from the stream into the database.

CPU time of the whole process, the database's thread included; the rate has the fsyncs in it.
"""

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.stores.database import Writer
from gateway.telemetry.logs import configure
from tests.bench.processes import Machine
from tests.bench.report import conditions, figure, markdown
from tests.integration.stores.ledger_world import Tally, add, consumer, fields
from tests.valkey import Valkey

LONGEST_S = 30.0
HEADS = ("events", "CPU us/request", "requests/s")


async def rounds(url: str, reps: int, count: int) -> list[tuple[float, float]]:
    """Store so many requests, again and again. Return, of each round, CPU microseconds a request and requests a second."""
    async with open_client(locator(url), timeout_s=LONGEST_S) as redis:
        found = []
        for _ in range(reps):
            await redis.flushall()
            await add(redis, *(fields(kind, number) for number in range(count) for kind in ("open", "close")))
            with TemporaryDirectory(prefix="tgb") as directory:
                writer = Writer(f"sqlite:///{Path(directory) / 'tiergate.db'}")
                await writer.migrate()
                began_s, cpu_s = time.perf_counter(), time.process_time()
                if not await consumer(redis, writer, Tally()).flush(LONGEST_S):
                    raise TimeoutError(f"{count} requests were not stored in {LONGEST_S:g} s")
                found.append(((time.process_time() - cpu_s) * 1e6 / count, count / (time.perf_counter() - began_s)))
                await writer.close()
    return found


def table(found: Sequence[tuple[float, float]]) -> str:
    """Return the rounds as a table."""
    cells = ("open and close", figure(cpu_us for cpu_us, _ in found), figure((rate for _, rate in found), 0))
    return markdown([HEADS, cells])


def main() -> None:
    """Run what the command line asks for."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.ledger", description=__doc__)
    options.add_argument("--reps", type=int, default=5, metavar="N", help="rounds (5)")
    options.add_argument("--count", type=int, default=5_000, metavar="N", help="requests in each round (5000)")
    asked = options.parse_args()
    configure("console", "error", sys.stderr.buffer)
    machine = Machine()
    print(conditions(f"{asked.reps} rounds of {asked.count} requests"), flush=True)
    os.sched_setaffinity(0, {machine.rest})
    gc.freeze()
    with Valkey() as valkey, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        os.sched_setaffinity(0, {machine.under_test})
        print(table(runner.run(rounds(valkey.url, asked.reps, asked.count))))


if __name__ == "__main__":
    main()
