"""`python -m tests.side_by_side [--commit C] [--seconds N] [--seed N]`: this commit and one before it, on one store and database.

Each is `tiergate serve` of its own code, both on one Valkey and one Postgres. Under one load the earlier one serves alone on
tables of its own, then this commit migrates the database and comes to serve beside it, is replaced by itself, and stays alone.
By the provider's log no key has more requests a minute, and none more at a time, than its limits say, no deployment more than
its slots; the ledger has what clients had whole, to the nano-dollar. Prints the table; exits 1 where something is not so.
Without `--commit` it is the last release, else the commit before this one; where that speaks another state of the store, the
nearest before it that does not, and it says so.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from gateway.stores.engine import Database
from gateway.stores.versions import upgrade
from tests.chaos.books import Facts, Line, fault, rows_of, table
from tests.chaos.load import ORGS, Load
from tests.chaos.run import Terms, configured, settled, show, upstream
from tests.chaos.upstream import Served as Call
from tests.chaos.upstream import served
from tests.postgres import Postgres
from tests.side_by_side.releases import ROOT, Chosen, NoneFits, Release, chosen, extract
from tests.valkey import Valkey

RPM, BURST = 90, 0.2
AT_A_TIME = 2
SLOTS = 4
BUDGET_USD = 0.002
ON_BUDGET = "org-0"
NOTICED_S = 1.0
"""What may lie between a verdict and the provider's hearing of it."""


def settings(url: str, redis: str, database: str, directory: Path) -> dict[str, Any]:
    """Return what both are configured with: limits that bind."""
    terms = Terms(requests=0, kills=0, seed=0, strict=False, postgres=True)
    whole = configured(url, directory, terms, database)
    limits = {"rpm": RPM, "burst_ratio": BURST, "concurrency": AT_A_TIME}
    whole["plans"]["all"]["limits"] = limits
    whole["plans"]["all"]["tiers"] = ["priority", "default"]
    whole["orgs"][ON_BUDGET]["budget"] = {"usd": BUDGET_USD, "period": "month"}
    for model in whole["models"].values():
        model["deployments"][0]["max_concurrency"] = SLOTS
    return {**whole, "workers": 1, "redis": {"url": redis, "timeout": "2s"}, "keys_pepper": "a-pepper-that-both-share"}


def seconds(count: float) -> Iterator[int]:
    """Yield numbers for so long."""
    end_s = time.monotonic() + count
    return itertools.takewhile(lambda _: time.monotonic() < end_s, itertools.count())


def most_at_once(calls: Sequence[Call]) -> int:
    """Return how many were under way at one moment at most."""
    steps = sorted([(call.asked_unix_s, 1) for call in calls] + [(call.ended_unix_s, -1) for call in calls])
    return max(itertools.accumulate((step for _, step in steps), initial=0))


def too_many(calls: Sequence[Call]) -> int:
    """Return by how many the worst window has more than its limit: the burst, and what has leaked out since."""
    times = sorted(call.asked_unix_s for call in calls)
    worst = 0.0
    lowest = 0.0
    for count, at_s in enumerate(times):
        leaked = RPM / 60 * (at_s - times[0])
        lowest = min(lowest, count - leaked)
        worst = max(worst, count + 1 - leaked - lowest)
    return max(0, int(worst - RPM * BURST - RPM / 60 * NOTICED_S))


def limits(calls: Sequence[Call], key_of: dict[str, str], rows: Sequence[dict[str, Any]]) -> list[Line]:
    """Return the lines of what limits let through."""
    by_key: dict[str, list[Call]] = defaultdict(list)
    by_model: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.end != "refused" and call.id in key_of:  # what ends in want of room spends nothing; the ledger tells whose it was
            by_key[key_of[call.id]].append(call)
        by_model[call.model].append(call)
    spent = sum(row["cost_nano_usd"] or 0 for row in rows if row["org"] == ON_BUDGET)
    return [
        *(Line(f"{key}: at most at a time, of {AT_A_TIME}", most_at_once(found)) for key, found in sorted(by_key.items())),
        *(Line(f"{model}: at most at a time, of {SLOTS}", most_at_once(found)) for model, found in sorted(by_model.items())),
        Line(f"nano-dollars that {ON_BUDGET} spent, of {int(BUDGET_USD * 1e9)}", spent),
        fault("keys with more at a time than their limit", (key for key, of in by_key.items() if most_at_once(of) > AT_A_TIME)),
        fault("keys with more requests than burst and rate", (key for key, found in by_key.items() if too_many(found))),
        fault("deployments with more than their slots", (name for name, of in by_model.items() if most_at_once(of) > SLOTS)),
        fault("budgets that are overrun", [ON_BUDGET] * (spent > BUDGET_USD * 1e9)),
    ]


@asynccontextmanager
async def held(release: Release) -> AsyncIterator[None]:
    """Have a gateway that is started later end with the block at the latest."""
    try:
        yield
    finally:
        await release.__aexit__(None, None, None)


async def run(other: Chosen, directory: Path, chosen_s: float, seed: int) -> list[Line]:
    """Run both. Return the table."""
    with ExitStack() as stack:
        valkey = stack.enter_context(Valkey())
        database = stack.enter_context(Postgres()).create()
        code = await asyncio.to_thread(extract, other.commit, directory / "code")
        log = directory / "upstream.log"
        async with upstream(log) as url:
            whole = settings(url, valkey.url, database, directory)
            old, new = (
                Release(name, of, {**whole, "state_dir": str(directory / name)}, directory)
                for name, of in (("old", code), ("new", ROOT))
            )
            assert (old.where().is_relative_to(code), new.where().is_relative_to(ROOT)) == (True, True), "each runs its own code"
            old.migrate()
            there, turns = [old], itertools.count()
            load = Load(lambda: there[next(turns) % len(there)].url, seconds(chosen_s), seed)
            async with old, held(new):
                loading = asyncio.create_task(load.run())
                await asyncio.sleep(chosen_s / 4)
                await upgrade(Database(database))
                await new.start()
                there.append(new)
                await asyncio.sleep(chosen_s / 4)
                await new.stop()
                await new.start()
                await loading
                assert await old.stop() == 0
                await settled(valkey.url, [directory / "old", directory / "new"])
                handled = {name: len(each.requests()) for name, each in (("the one before", old), ("this one", new))}
                assert await new.stop() == 0
        rows, sums = await rows_of(database)
        key_of = {row["client_request_id"]: row["key"] for row in rows}
        lines = [Line(f"requests at {name}", count) for name, count in handled.items()]
        return [*lines, *limits(served(log), key_of, rows), *table(Facts(load.got, served(log), [], rows, sums, strict=True))]


def main() -> int:
    """Run. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.side_by_side")
    parser.add_argument("--commit", help="the one beside this")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long there is load")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    try:
        other = chosen(asked.commit)
    except NoneFits as none:
        print(none)
        return 1
    if other.passed_over:
        print(f"passed over: {other.passed_over}")
    print(f"beside this commit: {other.commit[:12]} {other.subject}; seed {asked.seed}, {len(ORGS)} keys, {asked.seconds:.0f} s")
    with tempfile.TemporaryDirectory(prefix="tiergate-side-") as directory:
        lines = uvloop.run(run(other, Path(directory), asked.seconds, asked.seed))
    return show(lines)


if __name__ == "__main__":
    sys.exit(main())
