"""`python -m tests.rolling [--streams N] [--rate N]`: three gateways behind HAProxy, restarted one after another under load.

Each is `tiergate serve` in processes of its own, all on one Valkey, behind `deploy/haproxy/haproxy.cfg`; each is told to leave by
SIGTERM and started again when it has gone. Prints what became of every request and stream; exits 1 when one of them failed or was
cut, a gateway did not leave in good order, or the ledger does not have each of them once. Durations are seconds.
"""

import argparse
import asyncio
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx
import uvloop

from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.fakes.http_server import HttpServer
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import until
from tests.integration.proxies.proxy import Place, Proxy, haproxy
from tests.rolling.load import Load, provider
from tests.valkey import Valkey

REPLICAS = 3
NOTICED_S = 2.0
"""What HAProxy takes to hear that a gateway is there again."""

STEADY_S = 3.0
"""Load before the first restart and after the last."""


class Replica(Served):
    """One gateway at the same place in each of its lives."""

    def __init__(self, name: str, place: Place, whole: Mapping[str, Any], directory: Path) -> None:
        self.name = name
        self.place = place
        ports = {"api": {"host": "127.0.0.1", "port": place.api}, "ops": {"host": "127.0.0.1", "port": place.ops}}
        super().__init__(name, {**whole, **ports, "state_dir": str(directory / name)}, directory)

    async def is_ready(self) -> bool:
        """Return whether a balancer would send requests here."""
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get(f"http://127.0.0.1:{self.place.ops}/readyz")).status_code == 200

    async def leave(self) -> int:
        """Tell it to leave, and wait until it has. Return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return await asyncio.to_thread(self._process.wait, 60)


def places(count: int) -> list[Place]:
    """Return free ports, each once."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * count)]
        ports = [listener.getsockname()[1] for listener in listeners]
    return [Place(*pair) for pair in zip(ports[::2], ports[1::2], strict=True)]


async def restart(replica: Replica, load: Load) -> tuple[str, ...]:
    """Let a gateway leave and come back. Return its line of the table."""
    running, began_s = load.running, time.monotonic()
    code = await replica.leave()
    left_s = time.monotonic() - began_s
    await replica.start()
    await until(replica.is_ready, within_s=30.0)
    back_s = time.monotonic() - began_s
    await asyncio.sleep(NOTICED_S)
    return replica.name, str(running), f"{left_s:.1f} s", str(code), f"{back_s:.1f} s"


async def outcomes(directory: Path) -> Counter[str]:
    """Return how the ledger's rows ended."""
    reader = Reader(f"sqlite:///{directory / 'ledger.db'}")
    try:
        return Counter(str(row["outcome"]) for row in await Reports(reader).rows(Question(live=True)))
    finally:
        await reader.close()


async def roll(directory: Path, *, streams: int, rate: float) -> bool:
    """Restart all under load, and print what came of it. Return whether nothing was lost."""
    async with AsyncExitStack() as stack:
        valkey = stack.enter_context(Valkey())
        upstream = await stack.enter_async_context(HttpServer(provider))
        models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1.0, "output": 2.0}}}
        sections = {"redis": {"url": valkey.url}, "keys_pepper": "a-pepper-that-all-replicas-share"}
        whole = {**settings({"p": upstream.base_url}, models, directory, **sections), "shutdown": {}}
        replicas = [Replica(f"gateway-{number}", place, whole, directory) for number, place in enumerate(places(REPLICAS), 1)]
        for replica in replicas:
            await stack.enter_async_context(replica)
            await until(replica.is_ready, within_s=30.0)
        proxy = await stack.enter_async_context(Proxy(haproxy, [replica.place for replica in replicas], directory))
        load = Load(proxy.url, streams=streams, rate=rate)
        await asyncio.sleep(NOTICED_S)
        began_s = time.monotonic()
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(STEADY_S)
        lines = [await restart(replica, load) for replica in replicas]
        await asyncio.sleep(STEADY_S)
        load.stop()
        await asking
        lasted_s = time.monotonic() - began_s
        codes = [await replica.leave() for replica in replicas]
        rows = await outcomes(directory)
    table([("gateway", "streams then", "left after", "exit code", "back after"), *lines])
    centiles = quantiles(load.took_s, n=100)
    print(
        f"\n{load.requests} requests ({load.requests / lasted_s:.0f} a second) and {load.begun} streams ({streams} at a time)"
        f" in {lasted_s:.0f} s\nrequests: p50 {1000 * centiles[49]:.0f} ms, p99 {1000 * centiles[98]:.0f} ms,"
        f" longest {1000 * max(load.took_s):.0f} ms\nledger: {dict(rows)}"
    )
    failed = sum(count for what, count in load.failures.items() if what.startswith("request"))
    print(f"failed requests: {failed}, cut streams: {load.failures.total() - failed}")
    for what, count in load.failures.most_common(10):
        print(f"  {count} x {what}")
    left_well = {line[3] for line in lines} == {"0"} and set(codes) == {0}
    return not load.failures and left_well and rows == {"ok": load.requests + load.begun}


def table(lines: Sequence[Sequence[str]]) -> None:
    """Print lines in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def main() -> int:
    """Run. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.rolling")
    parser.add_argument("--streams", type=int, default=100, help="streams at any time")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tiergate-rolling-") as directory:
        return 0 if uvloop.run(roll(Path(directory), streams=chosen.streams, rate=chosen.rate)) else 1


if __name__ == "__main__":
    sys.exit(main())
