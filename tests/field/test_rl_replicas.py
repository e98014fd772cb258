"""Cases RL-01, RL-04, RL-08 and RL-14: several gateways on one store count as one, whatever their clocks say and whoever dies."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from gateway.app import unix_ms
from gateway.policy.charges import Dimension
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import DONE, SSE, Models, answers, event
from tests.field.metering import figures, key, model, prompt_tokens, secret, settings
from tests.running import Running, running
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPLICAS = 4
CLOCKS_MS = (0, -10_000, 3_600_000, -86_400_000)
"""How far each gateway's clock is off."""

ONCE = {"burst_ratio": 10}
"""Ten at once, one a minute: nothing comes back while a test lasts."""

KEYS = [
    *(key(f"{kind}-{way}", limits=limits)
    for way in ("round", "one")
    for kind, limits in (("rpm", {"rpm": 1, **ONCE}), ("tpm", {"tpm": 100, **ONCE}), ("concurrency", {"concurrency": 10}))),
    key("skewed", limits={"rpm": 1, **ONCE}),
    key("many"),
    key("mourned", limits={"concurrency": 5}),
]  # fmt: skip
MODELS = {
    "fresh": model("fresh"),
    "narrow": {
        "deployments": [{"provider": "p", "model": "up-narrow", "max_concurrency": 10}],
        "queue": {"max_waiters": 200, "per_org": 1.0},
    },
}
LEASES = {"ttl": "1s", "heartbeat": "200ms"}


class Fleet:
    """Gateways on one store, and the provider behind them all."""

    def __init__(self, runs: list[Running], server: HttpServer, models: Models) -> None:
        self.runs = runs
        self.server = server
        self.models = models

    async def ask(self, at: int, name: str, **fields: Any) -> httpx.Response:
        body = {"model": "fresh", "messages": [{"role": "user", "content": "hi"}], **fields}
        headers = {"authorization": f"Bearer {secret(name)}"}
        return await self.runs[at].client.post("/v1/chat/completions", json=body, headers=headers)

    async def settled(self) -> None:
        for run in self.runs:
            await run.settled()

    async def held(self, scope: str) -> int:
        """Return how many slots of a scope are taken."""
        return (await figures(self.runs[0], scope, Dimension.CONCURRENCY))[1]

    async def comes_to_hold(self, scope: str, slots: int) -> None:
        async with asyncio.timeout(10.0):
            while await self.held(scope) != slots:
                await asyncio.sleep(0.02)


def whole(server: HttpServer) -> dict[str, Any]:
    found = settings(*KEYS, models=MODELS, leases=LEASES)
    found["providers"] = {name: {**each, "base_url": f"{server.base_url}/v1"} for name, each in found["providers"].items()}
    return found


def places(directory: Path, count: int) -> Sequence[Path]:
    for number in range(count):
        (directory / f"w{number}").mkdir()
    return [directory / f"w{number}" for number in range(count)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    models = Models()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(HttpServer(models))
        runs = [
            await stack.enter_async_context(running(whole(server), valkey_server, place, place.name))
            for place in places(tmp_path_factory.mktemp("fleet"), REPLICAS)
        ]
        yield Fleet(runs, server, models)


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(shared: Fleet) -> AsyncIterator[Fleet]:
    yield shared
    await shared.settled()
    shared.models.forget()
    shared.server.requests.clear()


@pytest.mark.parametrize("kind", ["rpm", "tpm", "concurrency"])
@pytest.mark.parametrize("way", ["round", "one"])
async def test_rl_01_a_limit_is_the_same_over_any_number_of_gateways(way: str, kind: str, fleet: Fleet) -> None:
    go_on = asyncio.Event()

    async def act(call: Call) -> None:
        await go_on.wait()
        await answers()(call)

    fleet.models.acts["fresh"] = act
    asking = [
        asyncio.create_task(
            fleet.ask(at % REPLICAS if way == "round" else 0, f"{kind}-{way}", max_tokens=100 - prompt_tokens("fresh"))
        )
        for at in range(40)
    ]
    async with asyncio.timeout(10.0):
        while sum(task.done() for task in asking) + len(fleet.models.asked) < 40:
            await asyncio.sleep(0.002)
    go_on.set()
    answered = await asyncio.gather(*asking)
    assert Counter(answer.status_code for answer in answered) == {200: 10, 429: 30}
    assert {answer.json()["error"]["code"] for answer in answered if answer.status_code == 429} == {"rate_limit_exceeded"}
    await fleet.settled()
    assert [await run.leases() for run in fleet.runs] == [0] * REPLICAS


async def test_rl_08_a_gateways_own_clock_decides_nothing(fleet: Fleet) -> None:
    floors = [run.gateway._floor for run in fleet.runs]
    right = [floor.clocks for floor in floors]
    try:
        for floor, off_ms in zip(floors, CLOCKS_MS, strict=True):
            floor.clocks = replace(floor.clocks, unix_ms=lambda off_ms=off_ms: unix_ms() + off_ms)
        answered = [await fleet.ask(at % REPLICAS, "skewed") for at in range(20)]
    finally:
        for floor, clocks in zip(floors, right, strict=True):
            floor.clocks = clocks
    assert [answer.status_code for answer in answered] == [200] * 10 + [429] * 10
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answered[:10]] == [f"{n}" for n in range(9, -1, -1)]
    assert all(50 <= int(answer.headers["retry-after"]) <= 60 for answer in answered[10:])
    resets_s = [minutes(answer.headers["x-ratelimit-reset-requests"]) for answer in answered[10:]]
    assert max(resets_s) - min(resets_s) <= 10, "time passes, and that is all"
    assert 590 <= max(resets_s) <= 600


def minutes(duration: str) -> int:
    """Return the seconds of a duration such as `9m59s`."""
    whole, _, rest = duration.removesuffix("s").partition("m")
    return 60 * int(whole) + int(rest)


async def test_rl_14_a_deployments_ceiling_is_never_passed(fleet: Fleet) -> None:
    running_now, peak, full = 0, 0, asyncio.Event()

    async def act(call: Call) -> None:
        nonlocal running_now, peak
        running_now += 1
        peak = max(peak, running_now)
        if running_now == 10:
            full.set()
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "x"}))
        await full.wait()
        running_now -= 1
        call.piece(event({}, "stop") + DONE)
        call.end()

    fleet.models.acts["narrow"] = act
    answered = await asyncio.gather(*(fleet.ask(at % REPLICAS, "many", model="narrow", stream=True) for at in range(100)))
    assert Counter(answer.status_code for answer in answered) == {200: 100}
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answered)
    assert peak == 10
    await fleet.settled()
    await fleet.comes_to_hold("d:narrow/p/up-narrow", 0)


async def test_rl_04_what_a_dead_gateway_held_comes_back_under_traffic(
    fleet: Fleet, valkey_server: Valkey, tmp_path: Path
) -> None:
    finish = asyncio.Event()

    async def act(call: Call) -> None:
        if not msgspec.json.decode(call.request.body).get("stream"):
            await answers()(call)
            return
        call.head(200, SSE, chunked=True)
        call.piece(event({"content": "x"}))
        await finish.wait()
        call.piece(event({}, "stop") + DONE)
        call.end()

    fleet.models.acts["fresh"] = act
    scope = "k:mourned"
    async with running(whole(fleet.server), valkey_server, tmp_path, "mortal") as mortal:
        with_mortal = Fleet([*fleet.runs, mortal], fleet.server, fleet.models)
        asking = [asyncio.create_task(with_mortal.ask(REPLICAS, "mourned", stream=True)) for _ in range(3)]
        living = asyncio.create_task(fleet.ask(0, "mourned", stream=True))
        await fleet.comes_to_hold(scope, 4)
        # A process that is killed renews nothing more.
        await mortal.gateway._leases.stop()
        statuses: Counter[int] = Counter()
        async with asyncio.timeout(10.0):
            while await fleet.held(scope) != 1:
                statuses[(await fleet.ask(1, "mourned")).status_code] += 1
        assert statuses[200] >= 5, "traffic never stopped"
        assert not living.done(), "whoever lives renews what he holds, however long"
        finish.set()
        assert {answer.status_code for answer in await asyncio.gather(living, *asking)} == {200}
        await with_mortal.settled()
    await fleet.comes_to_hold(scope, 0)
    assert (await fleet.ask(2, "mourned")).status_code == 200
