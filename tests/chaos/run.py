"""One chaos run: a gateway under load, parts of which are killed again and again, and its ledger once all has settled."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gateway.admission.client import cell_prefix, ledger_key
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.stores.engine import Database
from gateway.stores.versions import upgrade
from tests.chaos.books import FACTOR, PRICE_NANO_USD, Facts, Line, rows_of, table
from tests.chaos.kills import Killer, order
from tests.chaos.load import MODELS, ORGS, Load
from tests.chaos.upstream import served
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import until
from tests.postgres import Postgres

WORKERS = 2
SETTLED_S = 60.0


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is run: so many requests, each kind of kill so often, in which mode, on which database."""

    requests: int
    kills: int
    seed: int
    strict: bool
    postgres: bool


@asynccontextmanager
async def upstream(log: Path) -> AsyncIterator[str]:
    """Run the provider. The value is its URL."""
    launch = ("-m", "gateway.embedded.launch", str(os.getpid()), sys.executable)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *launch, "-m", "tests.chaos.upstream", str(log), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()


def configured(url: str, directory: Path, terms: Terms, database: str) -> dict[str, Any]:
    """Return the gateway's configuration: six orgs, four models, tiers with prices of their own, leases that end soon."""
    price = {kind: nano_usd / 1000 for kind, nano_usd in PRICE_NANO_USD.items()}
    models = {name: {"deployments": [{"provider": "p", "model": f"up-{name}"}], "price": price} for name in MODELS}
    sections = {
        "workers": WORKERS,
        "leases": {"ttl": "3s", "heartbeat": "1s"},
        "tiers": {tier: {"price": factor, "queue": "0s" if tier == "over-limit" else "2s"} for tier, factor in FACTOR.items()},
        "ledger": {"durability": "strict" if terms.strict else "standard"},
        "breaker": {"failures": 1_000_000, "ratio": 1.0},
    }
    whole = settings({"p": url}, models, directory, **sections)
    whole["orgs"] = {org: {"plan": "all", "limits": {"rpm": 1_000_000}} for org in ORGS}
    whole["keys"] = [{"name": org, "org": org, "secret": secret} for org, secret in ORGS.items()]
    whole["database"] = {"url": database, "single_host": True}
    return whole


async def chaos(terms: Terms, directory: Path) -> list[Line]:
    """Run it. Return the reconciliation."""
    with ExitStack() as stack:
        database = f"sqlite:///{directory / 'ledger.db'}"
        if terms.postgres:
            database = stack.enter_context(Postgres()).create()
            await upgrade(Database(database))
        log = directory / "upstream.log"
        async with (
            upstream(log) as url,
            Served("gateway", configured(url, directory, terms, database), directory) as gateway,
        ):
            load, kills = await _under_load(gateway, terms, directory / "state")
            await settled(f"unix://{(directory / 'state' / 'valkey.lock').read_text()}", [directory / "state"])
            await gateway.stop()
        rows, sums = await rows_of(database)
        facts = Facts(load.got, served(log), kills.done, rows, sums, terms.strict)
        return table(facts)


async def _under_load(gateway: Served, terms: Terms, state_dir: Path) -> tuple[Load, Killer]:
    random = Random(terms.seed)
    load = Load(lambda: gateway.url, range(terms.requests), terms.seed)
    killer = Killer(gateway, state_dir, WORKERS, random)
    loading = asyncio.create_task(load.run())
    planned = order(terms.kills, random)
    for number, kind in enumerate(planned, start=1):
        goal = terms.requests * number // (len(planned) + 1)
        while len(load.got) < goal and not loading.done():
            await asyncio.sleep(0.01)
        await killer.kill(kind)
    await loading
    await killer.bury()
    return load, killer


async def settled(redis_url: str, state_dirs: Sequence[Path]) -> None:
    """Wait until no lease is left, no spool has anything to tell and the stream is empty."""
    redis = open_client(locator(redis_url), timeout_s=5.0)

    async def done() -> bool:
        waiting = [path for each in state_dirs for path in (each / "spool").glob("*") if has_lines(path)]
        return not waiting and not await redis.zcard(f"{cell_prefix('tg')}leases") and not await redis.xlen(ledger_key())

    await until(done, within_s=SETTLED_S)
    await redis.aclose()


def has_lines(path: Path) -> bool:
    """Return whether there is anything in a file; one that is gone by now was told whole."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def show(lines: Sequence[Line]) -> int:
    """Print a table. Return the exit code that it comes to."""
    for line in lines:
        mark = "WRONG" if line.is_bad else "" if line.allowed else "ok"
        print(f"  {line.count:8d}  {line.what:75s}  {mark} {' '.join(line.some)}".rstrip())
    return int(any(line.is_bad for line in lines))
