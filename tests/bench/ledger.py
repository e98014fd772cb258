"""`python -m tests.bench.ledger`: what it costs to bring a request into the database, and to ask a full one for a month's sums.

First the two events of a request from the stream into a file: CPU time of the whole process, the database's thread included; the
rate has the fsyncs in it. Then months of requests, in a file and in a Postgres, see `tests.bench.volume`. Exit code 1 where the
report of a month takes a second or more.
"""

import argparse
import asyncio
import gc
import os
import shutil
import sys
import tempfile
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
from tests.bench.volume import BY, BYTES_A_ROW, MEASURES, Found
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


VOLUME_HEADS = (
    *("database", "report s", "by requests s", "x", "rows of sums: hours, days, months, days of all", "migration s", "GB"),
    *("writer rows/s", "driver rows/s", "ratio"),
)
LONGEST_REPORT_S = 1.0


def line(found: Found) -> tuple[str, ...]:
    """Return one database's cells."""
    return (
        found.database,
        f"{found.report_s:.3f}",
        f"{found.raw_s:.2f}",
        f"{found.raw_s / found.report_s:,.0f}",
        ", ".join(f"{count:,}" for count in found.sums),
        f"{found.migration_s:.0f}",
        f"{found.size_bytes / 1e9:.2f}",
        f"{found.writer_per_s:,.0f}",
        f"{found.bare_per_s:,.0f}",
        f"{found.writer_per_s / found.bare_per_s:.2f}",
    )


def full(databases: Sequence[str], rows: int) -> int:
    """Print what full databases take. Return the exit code."""
    free_bytes, needed_bytes = shutil.disk_usage(tempfile.gettempdir()).free, rows * BYTES_A_ROW
    if free_bytes < needed_bytes:
        print(f"{rows:,} rows need {needed_bytes / 1e9:.1f} GB in {tempfile.gettempdir()}", file=sys.stderr)
        return 1
    print("", conditions(f"{rows:,} requests, reports by {', '.join(BY)}"), "", sep="\n", flush=True)
    found = []
    for name in databases:
        print(f"{name} …", file=sys.stderr, flush=True)
        found.append(asyncio.run(MEASURES[name](rows)))
    print(markdown([VOLUME_HEADS, *map(line, found)]))
    return int(any(each.report_s >= LONGEST_REPORT_S for each in found))


def main() -> int:
    """Run what the command line asks for. Return the exit code."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.ledger", description=__doc__)
    options.add_argument("--reps", type=int, default=5, metavar="N", help="rounds of the stream (5)")
    options.add_argument("--count", type=int, default=5_000, metavar="N", help="requests in each round (5000)")
    options.add_argument(
        "--rows", type=int, default=5_000_000, metavar="N", help="requests in a full database (5000000), 0 for none"
    )
    options.add_argument("--on", action="append", choices=[*MEASURES], help="these databases alone")
    asked = options.parse_args()
    configure("console", "error", sys.stderr.buffer)
    machine = Machine()
    print(conditions(f"{asked.reps} rounds of {asked.count} requests"), flush=True)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {machine.rest})
    gc.freeze()
    with Valkey() as valkey, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        os.sched_setaffinity(0, {machine.under_test})
        print(table(runner.run(rounds(valkey.url, asked.reps, asked.count))), flush=True)
    os.sched_setaffinity(0, cores)
    return full(asked.on or [*MEASURES], asked.rows) if asked.rows else 0


if __name__ == "__main__":
    sys.exit(main())
