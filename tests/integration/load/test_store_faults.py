"""The store is killed, stopped, emptied, made read-only or full under steady load, and comes back.

Every request is answered in its own words and hardly later; what runs on counts again at once, no rate gets more than one
burst too many, and the log hears of changes alone.
"""

import asyncio
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.admission.codec import PLACES
from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.policy.charges import Dimension
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, JSON, SSE, USAGE, completion, event
from tests.integration.admission.state import PREFIX
from tests.integration.load.served import Served, rows_of, settings
from tests.integration.processes.conditions import LONGEST_START_S, until
from tests.running import HEADERS, SECRET
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_S = 0.02
CALM_S, FAULT_S, AFTER_S = 2.0, 3.0, 3.0
STREAMS = 5
RPM = 30
FIRST_FIGURE = 7
"""Where the figures of a scope begin, counted as `PLACES` does."""

FAULTS = ("read_only", "killed", "paused", "flushed", "out_of_memory")
"""That a store refuses is told once in ten seconds: the two that do so stand apart."""

BACK_S = 4.0
"""A reconnection, a tick, a heartbeat and the longest pause between two tries of a settlement."""

WITHIN_S = 0.15
"""How much a request may be late at most: a call's own timeout, and some."""

NOTICED_S = 0.05
LATE_AT_MOST = 15
"""How many may be late at all: those of the tenth of a second that it takes to see that the store is away, and as many again."""

LATER_S = 0.01
"""How much later an answer is in the middle while the store is left alone."""

CHANGES = ("admission_alone", "admission_shared_again")

LAST_S = 1.0
"""What a store that loses all may take with it of the ledger: what was written so shortly before."""


class Upstream:
    """Answers at once; streams begin at once and end at `proceed`."""

    def __init__(self) -> None:
        self.proceed = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        if b'"stream":true' not in call.request.body:
            call.reply(200, completion(), JSON)
            return
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "Hel"}))
        await self.proceed.wait()
        call.piece(event({"content": "lo"}) + event({}, "stop") + event({}, choices=[], usage=USAGE) + DONE)
        call.end()


class Answer(msgspec.Struct, frozen=True):
    """What became of one request of the load."""

    bounded: bool
    began_s: float
    took_s: float
    control_s: float
    """How long a request took that began at the same time and asks nothing of the store."""
    status: int
    code: str | None
    id: str


class Store:
    """The store, and what may happen to it: each fault lasts until the second call of its method."""

    def __init__(self, valkey: Valkey, redis: Redis) -> None:
        self._valkey = valkey
        self.redis = redis

    async def killed(self, *, over: bool) -> None:
        await asyncio.to_thread(self._valkey.start if over else self._valkey.stop)

    async def paused(self, *, over: bool) -> None:
        self._valkey.resume() if over else self._valkey.pause()

    async def flushed(self, *, over: bool) -> None:
        if not over:
            await self.redis.flushall()

    async def read_only(self, *, over: bool) -> None:
        await self.redis.replicaof("NO" if over else "127.0.0.1", "ONE" if over else "1")

    async def out_of_memory(self, *, over: bool) -> None:
        await self.redis.config_set("maxmemory", "0" if over else "1")


def bounded_by(fault: str) -> str:
    """Return the key of those that are bounded while this fault is on: none has asked before."""
    return f"sk-test-secret-bounded-{fault}"


class Load:
    """Requests at a steady pace, whatever becomes of those before, from `start` to `stop`; two of five are bounded by a rate."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self._client = client
        self._name = name
        self._asked: list[asyncio.Task[Answer]] = []
        self._pace: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._pace = asyncio.create_task(self._keep_asking())

    async def stop(self) -> list[Answer]:
        assert self._pace is not None
        self._pace.cancel()
        await asyncio.wait([self._pace])
        return await asyncio.gather(*self._asked)

    async def _keep_asking(self) -> None:
        began_s = time.monotonic()
        while True:
            number = len(self._asked)
            self._asked.append(asyncio.create_task(self._ask(f"{self._name}-{number}", bounded=number % 5 in (0, 2))))
            await asyncio.sleep(began_s + (number + 1) * EVERY_S - time.monotonic())

    async def _ask(self, own_id: str, *, bounded: bool) -> Answer:
        headers = {"authorization": f"Bearer {bounded_by(self._name) if bounded else SECRET}", "x-request-id": own_id}
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "service_tier": "default"}
        control = asyncio.create_task(self._control())
        began_s = time.monotonic()
        response = await self._client.post("/v1/chat/completions", json=body, headers=headers)
        took_s = time.monotonic() - began_s
        code = None if response.status_code == 200 else response.json()["error"]["code"]
        return Answer(bounded, began_s, took_s, await control, response.status_code, code, own_id)

    async def _control(self) -> float:
        began_s = time.monotonic()
        assert (await self._client.get("/health")).status_code == 200
        return time.monotonic() - began_s


async def stream(client: httpx.AsyncClient, begun: Callable[[], object]) -> str:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    async with client.stream("POST", "/v1/chat/completions", json=body, headers=HEADERS) as response:
        pieces = response.aiter_text()
        first = await anext(pieces)
        begun()
        return first + "".join([piece async for piece in pieces])


async def begin_streams(client: httpx.AsyncClient) -> list["asyncio.Task[str]"]:
    begun = asyncio.Semaphore(0)
    streams = [asyncio.create_task(stream(client, begun.release)) for _ in range(STREAMS)]
    for _ in range(STREAMS):
        await begun.acquire()
    return streams


class Held(msgspec.Struct, frozen=True):
    """What the store knows of: live leases, units held by scope and dimension, events that are on their way to the ledger."""

    leases: int
    units: Mapping[tuple[str, Dimension], int]
    events: int


async def held(redis: Redis) -> Held:
    units: dict[tuple[str, Dimension], int] = {}
    for kind in ("k", "m", "o", "d"):
        keys: list[Any] = await redis.keys(f"{PREFIX}{kind}:*")
        for key in keys:
            text: Any = await redis.get(key)
            figures = struct.unpack(f"<{len(text) // 8}d", text)
            found = {dimension: int(figures[at - FIRST_FIGURE + 2]) for dimension, at in PLACES.items()}
            units |= {(key.decode().removeprefix(PREFIX), dimension): n for dimension, n in found.items() if n}
    return Held(await redis.zcard(f"{PREFIX}leases"), units, await redis.xlen(f"{PREFIX}ledger"))


async def comes_to_hold(redis: Redis, running: int) -> None:
    """Wait until the store knows of what runs, and of nothing else."""
    wanted = Held(running, {("d:m/p/up-m", Dimension.CONCURRENCY): running} if running else {}, 0)

    give_up_s = time.monotonic() + BACK_S
    while (found := await held(redis)) != wanted:
        assert time.monotonic() < give_up_s, found
        await asyncio.sleep(0.05)


def configured(upstream: str, valkey: Valkey, directory: Path) -> dict[str, Any]:
    models = {"m": {"deployments": [{"provider": "p", "model": "up-m", "max_concurrency": 200}]}}
    leases = {"ttl": "10s", "heartbeat": "1s"}
    found = settings(
        {"p": upstream}, models, directory, redis={"url": valkey.url}, leases=leases, keys_pepper="a-pepper-of-its-own"
    )
    found["plans"]["bounded"] = {"tiers": ["default"], "models": ["*"], "limits": {"rpm": RPM}}
    found["keys"] += [{"name": fault, "org": "acme", "plan": "bounded", "secret": bounded_by(fault)} for fault in FAULTS]
    return found


async def answers_at_all(client: httpx.AsyncClient) -> bool:
    return (await client.get("/health")).status_code == 200


class Place(msgspec.Struct, frozen=True):
    """One gateway, what stands around it, and its client."""

    upstream: Upstream
    store: Store
    gateway: Served
    client: httpx.AsyncClient
    directory: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """Run a gateway that all faults befall, one after the other."""
    upstream, directory = Upstream(), tmp_path_factory.mktemp("faults")
    with Valkey() as valkey:
        async with (
            HttpServer(upstream) as server,
            Served("gateway", configured(server.base_url, valkey, directory), directory) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60, limits=httpx.Limits(), trust_env=False, verify=False) as client,
            open_client(locator(valkey.url), timeout_s=5.0) as redis,
        ):
            await until(lambda: answers_at_all(client), within_s=LONGEST_START_S)
            yield Place(upstream, Store(valkey, redis), gateway, client, directory)
            assert await gateway.stop() == 0


def assert_hardly_later(answers: Sequence[Answer], fault_s: float) -> None:
    """The machine does much else: what it slows down is seen on the controls, and on all that was asked before the fault.

    What a call to the store takes by itself is measured in `tests/integration/admission/test_failover.py`.
    """
    calm = [each for each in answers if each.began_s < fault_s - NOTICED_S]
    disturbed = [each for each in answers if fault_s <= each.began_s < fault_s + FAULT_S + BACK_S]
    assert len(disturbed) > 2 * LATE_AT_MOST
    slower = max(1.0, median(each.control_s for each in disturbed) / median(each.control_s for each in calm))
    usual_s = median(each.took_s for each in calm) * slower
    assert median(each.took_s for each in disturbed) <= usual_s + LATER_S
    for by_s, most in ((NOTICED_S, LATE_AT_MOST), (WITHIN_S, 1)):
        late = sum(each.took_s > usual_s + by_s for each in disturbed)
        of_itself = sum(each.control_s > by_s / 2 for each in disturbed)
        of_itself += sum(each.took_s > usual_s + by_s for each in calm) * len(disturbed) // len(calm)
        assert late <= most + 3 * of_itself, (by_s, usual_s, sorted(each.took_s for each in disturbed)[-40:])


def assert_one_burst_too_many_at_most(answers: Sequence[Answer]) -> None:
    bounded = [each for each in answers if each.bounded]
    lasted_s = bounded[-1].began_s - bounded[0].began_s + WITHIN_S
    served = sum(each.status == 200 for each in bounded)
    assert RPM <= served <= 2 * RPM + RPM * lasted_s / 60 + 1
    assert len(bounded) > 1.5 * served, "the limit was there to be passed"


def assert_rows(answers: Sequence[Answer], rows: Sequence[Mapping[str, Any]], lost: tuple[float, float]) -> None:
    """One row for each request that was served, of which a store that was emptied may have taken those of `lost` with it."""
    served = {each.id: each for each in answers if each.status == 200}
    asked = {each.id for each in answers}
    found = Counter(row["client_request_id"] for row in rows if row["client_request_id"] in asked)
    assert set(found.values()) == {1}
    assert found.keys() <= served.keys()
    for request_id in served.keys() - found.keys():
        assert lost[0] < served[request_id].began_s < lost[1]


def assert_changes_alone_are_logged(lines: Sequence[Mapping[str, Any]], fault: str) -> None:
    """One line when the store is left alone, one when it is not, one of what it answered. A slow machine may add a change."""
    events = [line["event"] for line in lines if line["event"] != "request"]
    changes = [each for each in events if each in CHANGES]
    assert changes == [*CHANGES] * (len(changes) // 2)
    assert changes or fault == "flushed"
    assert len(changes) <= 3 * len(CHANGES)
    assert events.count("admission_script_failed") == (fault in ("read_only", "out_of_memory"))
    assert max(Counter(events).values(), default=0) <= 3, events


async def under_load(place: Place, fault: str) -> tuple[list[Answer], float, float]:
    """Let a fault happen under load, and pass. Return the answers, and when it began to happen and when it had."""
    befall: Callable[..., Awaitable[None]] = getattr(place.store, fault)
    load = Load(place.client, fault)
    load.start()
    await asyncio.sleep(CALM_S)
    fault_s = time.monotonic()
    await befall(over=False)
    happened_s = time.monotonic()
    await asyncio.sleep(FAULT_S)
    await befall(over=True)
    await asyncio.sleep(AFTER_S)
    return await load.stop(), fault_s, happened_s


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_store_is_hardly_felt_and_leaves_nothing_behind(fault: str, place: Place) -> None:
    streams = await begin_streams(place.client)
    lines_before = len(place.gateway.lines())
    answers, fault_s, happened_s = await under_load(place, fault)
    await comes_to_hold(place.store.redis, STREAMS)
    lines = place.gateway.lines()[lines_before:]
    place.upstream.proceed.set()
    assert all(text.endswith("data: [DONE]\n\n") for text in await asyncio.gather(*streams))
    await comes_to_hold(place.store.redis, 0)
    place.upstream.proceed.clear()
    assert {each.status for each in answers} <= {200, 429, 503}
    assert {each.code for each in answers if not each.bounded} == {None}
    assert_hardly_later(answers, fault_s)
    assert_one_burst_too_many_at_most(answers)
    lost = (fault_s - LAST_S, happened_s if fault in ("killed", "flushed") else fault_s - LAST_S)
    assert_rows(answers, await rows_of(place.directory, live=True), lost)
    assert_changes_alone_are_logged(lines, fault)
