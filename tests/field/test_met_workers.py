"""Cases MET-01 to MET-04: several workers are one gateway on its page, whichever of them come and go."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.web.join import Join
from tests.fakes.http_server import HttpServer
from tests.field.counting import Numbers, by_label, name_of, numbers, total
from tests.field.leaving import Holding, Leaving
from tests.integration.processes.conditions import until
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS, INFLIGHT, UP = "tiergate_requests_total", "tiergate_inflight_requests", "tiergate_worker_up"
WORKERS = 2
RECYCLED = 200


class Several(Leaving):
    """A gateway of several workers, and the upstream that they share."""

    def __init__(self, upstream: HttpServer, holding: Holding, valkey: Valkey, directory: Path) -> None:
        super().__init__(upstream, valkey, directory, workers=WORKERS)
        self.holding = holding
        self.directory = directory

    async def page(self) -> str:
        return (await self.client.get(f"{self.ops}/metrics")).text

    async def numbers(self) -> Numbers:
        return numbers(await self.page())

    async def answered(self) -> float:
        return total(await self.numbers(), REQUESTS)

    async def inflight(self) -> dict[str, float]:
        """Return what is under way, by worker."""
        return by_label(await self.numbers(), INFLIGHT, "worker")

    async def all_up(self) -> bool:
        return total(await self.numbers(), UP) == WORKERS

    def files(self) -> set[Path]:
        """Return every file that it has, but for what its database keeps beside itself."""
        return {path for path in self.directory.rglob("*") if not path.name.startswith("ledger.db")}

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """Kill a worker for the length of the block, and wait for its successor; no file and no series is more than before."""
        files, series, before = self.files(), (await self.numbers()).keys(), self.workers()
        os.kill(before[0], signal.SIGKILL)
        yield
        await until(lambda: self._has_another(before))
        await until(self.all_up)
        assert (self.files(), (await self.numbers()).keys()) == (files, series)

    async def _has_another(self, before: list[int]) -> bool:
        return len(self.workers()) == WORKERS and before[0] not in self.workers()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def several(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Several]:
    holding, directory = Holding(), tmp_path_factory.mktemp("several")
    async with HttpServer(holding) as upstream, Several(upstream, holding, valkey_server, directory) as gateway:
        await until(gateway.all_up)
        yield gateway


async def test_met_01_every_scrape_says_the_same(several: Several) -> None:
    before = await several.answered()
    for _ in range(10):
        answers = await asyncio.gather(*(several.ask(user="quick") for _ in range(10)))
        assert {answer.status_code for answer in answers} == {200}
    await until(lambda: has_counted(several, before + 100))
    assert [await several.answered() for _ in range(20)] == [before + 100] * 20
    assert len(by_label(await several.numbers(), REQUESTS, "worker")) == WORKERS


async def has_counted(several: Several, count: float) -> bool:
    """Return whether so many have ended: the last is counted when it is settled, a moment after its answer."""
    return await several.answered() == count


async def test_met_03_no_total_falls_when_a_worker_dies(several: Several) -> None:
    counted = await several.answered()
    await asyncio.gather(*(several.ask(user="quick") for _ in range(10)))
    await until(lambda: has_counted(several, counted + 10))
    before = await several.numbers()
    counters = [series for series in before if "_total{" in series or "_count{" in series or "_bucket{" in series]
    seen = [before]
    async with several.killed():
        seen += [await several.numbers() for _ in range(5)]
    for _ in range(5):
        assert (await several.ask(user="quick")).status_code == 200
        seen.append(await several.numbers())
    for earlier, later in pairwise(seen):
        assert [series for series in counters if later[series] < earlier[series]] == []
    await until(lambda: has_counted(several, total(before, REQUESTS) + 5))


async def test_met_04_the_gauges_of_the_dead_die_with_them(several: Several) -> None:
    streams: list[asyncio.Task[object]] = []
    while not all((under_way := await several.inflight()).values()):
        streams.append(asyncio.create_task(several.ask(stream=True)))
        await several.holding.holds(len(streams))
    assert sum(under_way.values()) == len(streams)
    async with several.killed():
        await until(lambda: is_down(several))
        [(survivor, held)] = (await several.inflight()).items()
        assert held == under_way[survivor]
    assert await several.inflight() == {**dict.fromkeys(under_way, 0), survivor: held}
    several.holding.go_on.set()
    await asyncio.gather(*streams, return_exceptions=True)
    await until(lambda: is_idle(several))


async def is_down(several: Several) -> bool:
    return total(await several.numbers(), UP) < WORKERS


async def is_idle(several: Several) -> bool:
    return not any((await several.inflight()).values())


def started_anew(page: str, started_s: int) -> bytes:
    """Return a page as the next worker in the same place would write it, who had the same to do."""
    series = "tiergate_start_time_seconds"
    lines = (f"{series} {started_s}" if name_of(line.partition(" ")[0]) == series else line for line in page.splitlines())
    return "\n".join([*lines, ""]).encode()


async def test_met_02_a_page_is_as_long_after_two_hundred_workers_as_after_one(several: Several) -> None:
    own = "\n".join(line for line in (await several.page()).splitlines() if 'worker="1"' not in line and UP not in line)
    page, join = own.replace('{worker="0",', "{").replace('{worker="0"}', ""), Join()
    first = numbers(join.join([started_anew(page, 1)]).decode())
    *_, last = (numbers(join.join([started_anew(page, life)]).decode()) for life in range(2, RECYCLED + 1))
    assert last.keys() == first.keys()
    assert total(last, REQUESTS) == RECYCLED * total(first, REQUESTS) > 0
    assert total(last, INFLIGHT) == total(first, INFLIGHT)
