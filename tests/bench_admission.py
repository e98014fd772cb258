"""What a verdict costs: microseconds of client CPU, and of the store's, for eight limits in four scopes.

Run with `python -m tests.bench_admission`. Closed loop, 64 calls in flight, on an own server; it takes a few seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter, process_time

import uvloop

from gateway.admission.client import Admission
from gateway.admission.connection import Connection, pack
from gateway.admission.endpoint import parse_endpoint
from gateway.policy.admission import Acquire, Estimate, Progress, Reach, Row, Settle, Upstream
from gateway.policy.answers import Granted
from gateway.policy.catalogue import Limits, Tier
from gateway.policy.limits import charges
from gateway.tasks import Owned
from tests.valkey import Valkey

REQUESTS = 10_000
IN_FLIGHT = 64
STREAMS = 1_024

MANY = Limits(rpm=6_000_000, tpm=40_000_000, concurrency=10_000)
CHARGES = (
    charges("k:ci", MANY, reach=Reach.REQUEST, tenant=True)
    + charges("o:acme", Limits(rpm=6_000_000, tpm=40_000_000), reach=Reach.REQUEST, tenant=True)
    + charges("m:a", Limits(rpm=6_000_000), reach=Reach.MODEL, tenant=False)
    + charges("d:a/one/x", Limits(rpm=6_000_000, concurrency=10_000), reach=Reach.DEPLOYMENT, tenant=False)
)
ROWS = (Row(Upstream(), "a", Tier.DEFAULT, CHARGES, Estimate(1, 100, 200, 300)),)
USED = Estimate(1, 100, 50, 150)
OPENED, CLOSED = b"o" * 200, b"c" * 400


def lease(number: int) -> str:
    return f"0193e4f0-0000-7000-8000-{number:012d}"


async def acquire(admission: Admission, number: int) -> None:
    verdict = await admission.acquire(Acquire(lease(number), ROWS, 30_000, OPENED))
    if not isinstance(verdict, Granted):
        raise TypeError("the bench measures grants")


async def settle(admission: Admission, number: int) -> None:
    await admission.settle(Settle(lease(number), False, USED, CLOSED))


async def measure(connection: Connection, name: str, numbers: range, work: Callable[[int], Awaitable[object]]) -> None:
    """Drive `work` over all numbers, `IN_FLIGHT` at once, and print what one call cost."""
    todo = iter(numbers)

    async def worker() -> None:
        for number in todo:
            await work(number)

    store_s = await store_cpu_s(connection)
    started_s, cpu_s = perf_counter(), process_time()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - started_s
    store_s = await store_cpu_s(connection) - store_s
    each = 1e6 / len(numbers)
    print(f"{name:<10}{cpu_s * each:>12.1f}{store_s * each:>12.1f}{wall_s * each:>12.1f}")


async def store_cpu_s(connection: Connection) -> float:
    """Return the CPU time of the server: commandstats count wall time, and so whatever else the machine does."""
    lines = (await connection.call(pack(("INFO", "cpu")))).decode().splitlines()
    return sum(float(line.split(":")[1]) for line in lines if line.startswith(("used_cpu_user:", "used_cpu_sys:")))


async def main() -> None:
    with Valkey() as server:
        connection = Connection(parse_endpoint(server.url), Owned(), timeout_s=5.0)
        await connection.open()
        admission = Admission(connection)
        await acquire(admission, REQUESTS)
        await settle(admission, REQUESTS)
        print(f"{'':<10}{'client us':>12}{'store us':>12}{'wall us':>12}")
        await measure(connection, "acquire", range(REQUESTS), lambda number: acquire(admission, number))
        reports = [Progress(lease(number), USED) for number in range(STREAMS)]
        await admission.progress(reports[:1])
        await measure(connection, "progress", range(0, STREAMS, 64), lambda at: admission.progress(reports[at : at + 64]))
        await measure(connection, "settle", range(REQUESTS), lambda number: settle(admission, number))
        await connection.close()


if __name__ == "__main__":
    uvloop.run(main())
