"""`python -m tests.rolling [--streams N] [--rate N]`: gateways behind HAProxy, replaced one after another under load.

Each is `tiergate serve` in processes of its own, all on one Valkey, behind `deploy/haproxy/haproxy.cfg`. How many there are, how
one is replaced and what times it has are the numbers of the production overlay as it renders, none scaled: the next one is
ready before one leaves, which has `preStop` before SIGTERM and, all told, its grace. Prints what became of every request and
stream; exits 1 when one of them failed or was cut, a gateway did not leave in good order and in time, or the ledger does not have
each of them once. Durations are seconds.
"""

import argparse
import asyncio
import socket
import subprocess
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
from tests.deploy.manifests import Leaving, kustomized, leaving, manifests
from tests.fakes.http_server import HttpServer
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import until
from tests.integration.proxies.proxy import Place, Proxy, haproxy
from tests.rolling.load import Load, provider
from tests.valkey import Valkey

NOTICED_S = 2.0
"""What HAProxy takes to hear that a gateway is there."""

STEADY_S = 3.0
"""Load before the first is replaced and after the last."""


class Replica(Served):
    """One gateway at its place."""

    def __init__(self, name: str, place: Place, whole: Mapping[str, Any], directory: Path) -> None:
        self.name = name
        self.place = place
        ports = {"api": {"host": "127.0.0.1", "port": place.api}, "ops": {"host": "127.0.0.1", "port": place.ops}}
        super().__init__(name, {**whole, **ports, "state_dir": str(directory / name)}, directory)

    async def is_ready(self) -> bool:
        """Return whether a balancer would send requests here."""
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get(f"http://127.0.0.1:{self.place.ops}/readyz")).status_code == 200

    async def leave(self, numbers: Leaving) -> int | None:
        """Do with it what is done with a pod that is to go. Return its exit code; None where it had to be killed."""
        assert self._process is not None
        await asyncio.sleep(numbers.pre_stop_s)
        self._process.terminate()
        try:
            return await asyncio.to_thread(self._process.wait, numbers.grace_s - numbers.pre_stop_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


def places(count: int) -> list[Place]:
    """Return free ports, each once."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * count)]
        ports = [listener.getsockname()[1] for listener in listeners]
    return [Place(*pair) for pair in zip(ports[::2], ports[1::2], strict=True)]


class Rollout:
    """As many gateways as there are to be, at places of which the surge is free."""

    def __init__(self, whole: Mapping[str, Any], directory: Path, numbers: Leaving, stack: AsyncExitStack) -> None:
        self.places = places(numbers.replicas + numbers.surge)
        self._whole = whole
        self._directory = directory
        self._numbers = numbers
        self._stack = stack
        self._free = list(self.places)
        self._there: list[Replica] = []
        self._count = 0

    async def begin(self) -> None:
        """Start all, and wait until each is ready."""
        for _ in range(self._numbers.replicas):
            await self._come()

    async def _come(self) -> Replica:
        self._count += 1
        replica = Replica(f"gateway-{self._count}", self._free.pop(), self._whole, self._directory)
        self._there.append(replica)
        await self._stack.enter_async_context(replica)
        await until(replica.is_ready, within_s=30.0)
        return replica

    async def replace(self, load: Load) -> list[tuple[str, ...]]:
        """Let each of them leave, one after another, when one more has come. Return the lines of the table."""
        lines: list[tuple[str, ...]] = []
        for old in list(self._there):
            new = await self._come()
            await asyncio.sleep(NOTICED_S)
            running, began_s = load.running, time.monotonic()
            code = await old.leave(self._numbers)
            lines.append((old.name, new.name, str(running), f"{time.monotonic() - began_s:.1f} s", str(code)))
            self._there.remove(old)
            self._free.append(old.place)
        return lines

    async def end(self) -> list[int | None]:
        """Let all leave. Return their exit codes."""
        return await asyncio.gather(*(replica.leave(self._numbers) for replica in self._there))


async def outcomes(directory: Path) -> Counter[str]:
    """Return how the ledger's rows ended."""
    reader = Reader(f"sqlite:///{directory / 'ledger.db'}")
    try:
        return Counter(str(row["outcome"]) for row in await Reports(reader).rows(Question(live=True)))
    finally:
        await reader.close()


async def roll(directory: Path, numbers: Leaving, *, streams: int, rate: float) -> bool:
    """Replace all under load, and print what came of it. Return whether nothing was lost."""
    async with AsyncExitStack() as stack:
        valkey = stack.enter_context(Valkey())
        upstream = await stack.enter_async_context(HttpServer(provider))
        models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1.0, "output": 2.0}}}
        sections = {"redis": {"url": valkey.url}, "keys_pepper": "a-pepper-that-all-replicas-share"}
        shutdown = {"delay": f"{numbers.delay_s:.0f}s", "drain": f"{numbers.drain_s:.0f}s"}
        whole = {**settings({"p": upstream.base_url}, models, directory, **sections), "shutdown": shutdown}
        rollout = Rollout(whole, directory, numbers, stack)
        await rollout.begin()
        proxy = await stack.enter_async_context(Proxy(haproxy, rollout.places, directory))
        load = Load(proxy.url, streams=streams, rate=rate)
        await asyncio.sleep(NOTICED_S)
        began_s = time.monotonic()
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(STEADY_S)
        lines = await rollout.replace(load)
        await asyncio.sleep(STEADY_S)
        load.stop()
        await asking
        lasted_s = time.monotonic() - began_s
        codes = await rollout.end()
        rows = await outcomes(directory)
    table([("gateway", "replaced by", "streams then", "gone after", "exit code"), *lines])
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
    left_well = {line[-1] for line in lines} == {"0"} and set(codes) == {0}
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
    numbers = leaving(manifests(kustomized("overlays/prod")))
    print(f"as deploy/k8s/overlays/prod renders: {numbers}\n")
    with tempfile.TemporaryDirectory(prefix="tiergate-rolling-") as directory:
        return 0 if uvloop.run(roll(Path(directory), numbers, streams=chosen.streams, rate=chosen.rate)) else 1


if __name__ == "__main__":
    sys.exit(main())
