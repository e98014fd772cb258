"""Programs on real stores: one server, one server with another layout's keys beside it, and a cluster that changes under them."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.admission.client import THE_CELL, Admission, cell_prefix
from gateway.admission.connection import Connection
from gateway.admission.discovery import locator
from gateway.policy.admission import Precedence
from gateway.policy.answers import Cause
from gateway.policy.charges import Dimension
from gateway.tasks import Owned
from tests.clusters import SLOT, Cluster
from tests.integration.admission.rows import Clock
from tests.integration.admission.state import ask
from tests.sim.compare import Comparison, MismatchError, Tally
from tests.sim.supply import BREAKER
from tests.valkey import Valkey

SEEDS = range(201, 215)
OPERATIONS = 1_500
SHORT = 1_000
TIMEOUT_S = 10.0
OTHER_LAYOUT = cell_prefix("tg", "c0", "v0")
"""The keys of the release before, which may still be running beside this one."""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """Keep a connection to a store for the length of the block."""
    connection = Connection(locator(url), Owned(), timeout_s=TIMEOUT_S)
    await connection.open()
    await connection.ready()
    try:
        yield connection
    finally:
        await connection.close()


def comparison(seed: int, connection: Connection, tally: Tally, prefix: str = THE_CELL) -> Comparison:
    """Return a program that has not begun, on a store of its own keys."""
    clock = Clock()
    return Comparison(seed, connection, Admission(connection, clock=clock, breaker=BREAKER, prefix=prefix), clock, tally)


async def compare_on_one() -> bool:
    """Compare program after program; print the table of what they did."""
    tally = Tally()
    with Valkey() as valkey:
        async with connected(valkey.url) as connection:
            for seed in SEEDS:
                await ask(connection, "FLUSHALL")
                program = comparison(seed, connection, tally)
                try:
                    await program.run(OPERATIONS)
                    await program.compare_ledger()
                except MismatchError as different:
                    print(f"scripts: {different}")
                    return False
    print(f"scripts: {tally.operations} operations in {len(SEEDS)} programs, 0 mismatches")
    print(shares("verdicts", tally.verdicts))
    print(shares("refusals by dimension", tally.dimensions))
    print(shares("refusals by class", tally.precedences))
    print(shares("refusals by cause", tally.causes))
    for complaint in tally.complaints():
        print(f"  too few: {complaint}")
    return not tally.complaints()


async def beside_another_layout() -> bool:
    """Run one program in the keys of each layout, step by step in turn, on one store."""
    tally = Tally()
    with Valkey() as valkey:
        async with connected(valkey.url) as connection:
            both = [comparison(301, connection, tally), comparison(302, connection, tally, OTHER_LAYOUT)]
            try:
                for _ in range(SHORT):
                    for program in both:
                        await program.step()
                for program in both:
                    await program.compare_ledger()
            except MismatchError as different:
                print(f"layouts: {different}")
                return False
    print(f"layouts: {tally.operations} operations in the keys of two layouts side by side, 0 mismatches", flush=True)
    return True


async def follow_a_cluster() -> bool:
    """Run a program on three primaries; its slot moves in mid-run, and its primary fails over."""
    tally = Tally()
    async with Cluster() as cluster, connected(cluster.url) as connection:
        program = comparison(303, connection, tally)
        program.moves = True
        try:
            await program.run(SHORT)
            owner = await cluster.owner_of(SLOT)
            [target, *_] = [node for node in cluster.nodes if node is not owner and not await node.is_replica_of(owner)]
            await cluster.move_slot(SLOT, target)
            await program.run(SHORT)
            await cluster.fail_over()
            await program.run(SHORT)
            await program.compare_ledger()
        except MismatchError as different:
            print(f"cluster: {different}")
            return False
    print(f"cluster: {tally.operations} operations on three primaries, slot moved, primary failed over, 0 mismatches", flush=True)
    return True


def shares(what: str, counted: Counter[str] | Counter[Dimension] | Counter[Precedence] | Counter[Cause]) -> str:
    """Return a line of shares, the largest first."""
    parts = (f"{getattr(kind, 'name', kind)} {100 * n / counted.total():.1f} %" for kind, n in counted.most_common())
    return f"  {what}: {', '.join(parts)}"
