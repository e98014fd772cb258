"""Four workers on one page, in either format, while workers are killed by their ids."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.fakes.http_server import HttpServer
from tests.field.counting import Numbers, by_label, numbers, total
from tests.field.leaving import Holding, Leaving
from tests.integration.processes.conditions import until
from tests.valkey import Valkey

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

WORKERS = 4
REQUESTS, INFLIGHT, UP = "tiergate_requests_total", "tiergate_inflight_requests", "tiergate_worker_up"
HELD = "tiergate_upstream_inflight_requests"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
EXEMPLAR = re.compile(r" # \{.*$", re.MULTILINE)
COUNTERS = ("_total{", "_count{", "_bucket{", "_sum{")


class Four(Leaving):
    """A gateway of four workers."""

    def __init__(self, upstream: HttpServer, holding: Holding, valkey: Valkey, directory: Path) -> None:
        super().__init__(upstream, valkey, directory, workers=WORKERS)
        self.holding = holding

    async def page(self, accept: str) -> str:
        return (await self.client.get(f"{self.ops}/metrics", headers={"accept": accept})).text

    async def numbers(self, accept: str = OPENMETRICS) -> Numbers:
        return numbers(EXEMPLAR.sub("", await self.page(accept)))

    async def workers_up(self) -> int:
        return round(total(await self.numbers(), UP))

    async def all_up(self) -> bool:
        return await self.workers_up() == WORKERS

    async def kill_worker(self, place: int) -> None:
        """Kill one by its id, and wait for its successor."""
        before = self.workers()
        os.kill(before[place], signal.SIGKILL)
        await until(lambda: self._is_without(before[place]), within_s=30)

    async def _is_without(self, gone: int) -> bool:
        return gone not in self.workers() and await self.all_up()

    async def ask_for(self, count: int) -> None:
        """Ask so often, until all that is counted: each is when it is settled, a moment after its answer."""
        expected = total(await self.numbers(), REQUESTS) + count
        await asyncio.gather(*(self.ask(user="quick") for _ in range(count)))
        await until(lambda: self._has_counted(expected))

    async def _has_counted(self, expected: float) -> bool:
        return total(await self.numbers(), REQUESTS) == expected

    async def is_idle(self) -> bool:
        found = await self.numbers()
        return total(found, INFLIGHT) == total(found, HELD) == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def four(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Four]:
    holding, directory = Holding(), tmp_path_factory.mktemp("four")
    async with HttpServer(holding) as upstream, Four(upstream, holding, valkey_server, directory) as gateway:
        await until(gateway.all_up, within_s=60)
        yield gateway


async def test_what_was_traced_is_told_to_who_asks_for_openmetrics(four: Four) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "user": "quick"}
    answer = await four.client.post(f"{four.url}/v1/chat/completions", json=body, headers=TRACED)
    assert answer.status_code == 200
    page = await four.page(OPENMETRICS)
    families = {each.name: each for each in text_string_to_metric_families(page)}  # type: ignore[no-untyped-call]
    traced = [sample for sample in families["tiergate_request_duration_seconds"].samples if sample.exemplar]
    assert [sample.exemplar.labels for sample in traced if sample.exemplar] == [{"trace_id": TRACE_ID}]
    plain = await four.page("text/plain")
    assert TRACE_ID not in plain
    assert numbers(plain).keys() == numbers(EXEMPLAR.sub("", page)).keys()


async def test_no_counter_falls_and_every_gauge_comes_back_whoever_is_killed(four: Four) -> None:
    streams: list[asyncio.Task[object]] = []
    while not all(by_label(await four.numbers(), INFLIGHT, "worker").values()):
        streams.append(asyncio.create_task(four.ask(stream=True)))
        await four.holding.holds(len(streams))
    found = await four.numbers()
    assert total(found, INFLIGHT) == total(found, HELD) == len(streams)
    seen = [found]
    for place, accept in ((1, OPENMETRICS), (3, "text/plain")):
        await four.kill_worker(place)
        seen.append(await four.numbers(accept))
        await four.ask_for(8)
        seen.append(await four.numbers(accept))
    for earlier, later in pairwise(seen):
        fallen = [each for each in earlier if any(end in each for end in COUNTERS) and later.get(each, 0.0) < earlier[each]]
        assert not fallen
    assert total(seen[-1], REQUESTS) == total(seen[0], REQUESTS) + 16
    assert 0 < total(seen[-1], INFLIGHT) < len(streams), "what the killed had under way is nobody's"
    four.holding.go_on.set()
    await asyncio.gather(*streams, return_exceptions=True)
    await until(four.is_idle, within_s=30)
