"""`python -m tests.conformance [--only PREFIX ...] [--rows DIR]`: run every row against a real gateway with scripted providers.

One line a row, then totals by topic; exits 1 when a row fails. A row that leaves state behind is the last of its gateway and its
store: the next one gets both fresh.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import uvloop
from redis import Redis

from tests.conformance.cases import Request, Row, Suite
from tests.conformance.checks import Answer, check
from tests.conformance.providers import Providers
from tests.running import Running, running
from tests.valkey import Valkey

DEFAULT_ROWS = Path(__file__).parents[2].parent / "shared" / "cases" / "conformance"
LONGEST_ROW_S = 10.0
QUIET = {"telemetry": {"level": "error"}, "shutdown": {"delay": "0s", "drain": "5s"}}


class Stage:
    """A gateway on the fixtures, renewed as often as a row has to find it untouched."""

    def __init__(self, suite: Suite, providers: Providers, valkey: Valkey) -> None:
        self._suite = suite
        self._providers = providers
        self._valkey = valkey
        self._open = AsyncExitStack()
        self._gateway: Running | None = None
        self._overlay: str | None = None
        self._client = httpx.AsyncHTTPTransport(verify=False)

    async def play(self, row: Row) -> list[str]:
        """Run a row and return what is amiss."""
        gateway = await self._fresh(row.setup.overlay)
        self._providers.stage(self._suite.replies(row))
        try:
            async with asyncio.timeout(LONGEST_ROW_S):
                answer = await self._ask(gateway.url, self._suite.request(row))
                found = [*self._providers.unexpected, *check(row, answer, self._providers.received)]
        except (httpx.HTTPError, TimeoutError) as broken:
            found = [f"no whole answer: {broken!r}"]
        if row.leaves_state:
            await self._stop()
        return found

    async def close(self) -> None:
        """Stop what runs."""
        await self._stop()
        await self._client.aclose()

    async def _stop(self) -> None:
        self._gateway = None
        await self._open.aclose()

    async def _fresh(self, overlay: str | None) -> Running:
        """Return the gateway that runs, or a new one on an empty store."""
        if self._gateway is None or overlay != self._overlay:
            await self._stop()
            with Redis(unix_socket_path=self._valkey.socket) as store:
                store.flushall()
            directory = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="conformance")))
            settings = {**self._suite.config(overlay, self._providers.addresses), **QUIET}
            self._gateway = await self._open.enter_async_context(running(settings, self._valkey, directory))
            self._overlay = overlay
        return self._gateway

    async def _ask(self, url: str, request: Request) -> Answer:
        """Send a request as it stands and return the whole answer. Raises `httpx.HTTPError` for one that breaks off."""
        sent = httpx.Request(
            request.method, url, headers=request.headers, content=request.body, extensions={"target": request.target.encode()}
        )
        response = await self._client.handle_async_request(sent)
        body = await response.aread()
        await response.aclose()
        return Answer(response.status_code, response.headers.multi_items(), body)


async def conform(suite: Suite, only: tuple[str, ...]) -> bool:
    """Run the rows whose ids begin with one of `only`, print how each fared, and return whether all hold."""
    held: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    providers = Providers(suite.file)
    with Valkey() as valkey:
        async with providers.open(suite.providers()):
            stage = Stage(suite, providers, valkey)
            for topic, row in suite.rows():
                if not row.id.startswith(only):
                    continue
                found = await stage.play(row)
                (failed if found else held)[topic] += 1
                print(f"FAIL {row.id}: {'; '.join(found)}" if found else f"PASS {row.id}")
            await stage.close()
    print_totals(held, failed)
    return not failed and bool(held)


def print_totals(held: Counter[str], failed: Counter[str]) -> None:
    """Print how many rows of each topic hold."""
    print(f"\n{'topic':24}{'pass':>6}{'fail':>6}")
    for topic in sorted(held | failed):
        print(f"{topic:24}{held[topic]:>6}{failed[topic]:>6}")
    print(f"{'all':24}{held.total():>6}{failed.total():>6}")


def main() -> int:
    """Run what the command line asks for."""
    options = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    options.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="run the rows whose ids begin so")
    options.add_argument("--rows", type=Path, default=DEFAULT_ROWS, metavar="DIR", help="where the rows are")
    asked = options.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 0 if runner.run(conform(Suite.read(asked.rows), tuple(asked.only))) else 1


if __name__ == "__main__":
    sys.exit(main())
