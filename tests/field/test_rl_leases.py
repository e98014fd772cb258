"""Cases RL-02 and RL-03: a bucket that lost its expiry, and slots of clients that leave, at whatever moment."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.admission.codec import PLACES
from gateway.policy.charges import Dimension
from tests.fakes.http_server import Call
from tests.fakes.openai import DONE, SSE, USAGE, event
from tests.fakes.wire import Wire, post
from tests.field.metering import COUNTERS, FIRST_PLACE, MINUTE_MS, Metered, figures, key, metered, secret, settings
from tests.integration.admission.state import PREFIX
from tests.valkey import Valkey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
LONGEST_PAUSE_S = 0.02
RANDOM_LEAVERS = 12

KEYS = [key("stuck", limits={"rpm": 1}), key("held", limits={"concurrency": 1})]

PIECES = (
    event({"role": "assistant", "content": ""}),
    event({"content": "one"}),
    event({"content": "two"}),
    event({}, "stop"),
    event({}, choices=[], usage=USAGE),
    DONE,
)
POINTS = range(-1, len(PIECES) + 1)
"""How many pieces were sent when the client leaves; -1 is before the head."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(valkey_server: Valkey, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metered]:
    async with metered(settings(*KEYS), valkey_server, tmp_path_factory.mktemp("leases")) as gate:
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def gate(shared: Metered) -> AsyncIterator[Metered]:
    yield shared
    await shared.rest()


async def test_rl_02_a_bucket_without_an_expiry_heals_by_itself(gate: Metered) -> None:
    redis, name = gate.run.gateway._redis, f"{PREFIX}k:stuck"
    for _ in range(2):
        assert (await gate.ask(key=secret("stuck"), model="m")).status_code == 200
        assert (await gate.ask(key=secret("stuck"), model="m")).status_code == 429
        await gate.run.settled()
        assert await redis.pttl(name) > 0
        await age(gate, name, MINUTE_MS)
        await redis.persist(name)
        assert await redis.pttl(name) == -1
    assert (await gate.ask(key=secret("stuck"), model="m")).status_code == 200
    await gate.run.settled()
    assert await redis.pttl(name) > 0, "the next use sets it again"


async def age(gate: Metered, name: str, by_ms: int) -> None:
    """Move what was posted so far into the past, as if time had gone by."""
    redis = gate.run.gateway._redis
    packed: Any = await redis.get(name)
    numbers = [*struct.unpack(f"<{len(packed) // 8}d", packed)]
    numbers[COUNTERS + PLACES[Dimension.RPM] - FIRST_PLACE + 1] -= by_ms
    await redis.set(name, struct.pack(f"<{len(numbers)}d", *numbers))


async def leave(gate: Metered, point: int, path: str, pause_s: float = 0.0) -> None:
    """Ask for a stream and hang up when the provider has sent so much of it."""
    sent = asyncio.Event()

    async def act(call: Call) -> None:
        if point >= 0:
            call.head(200, SSE, chunked=True)
        for piece in PIECES[: max(0, point)]:
            call.piece(piece.replace(b'"delta":{"content":', b'"text":"x","delta":{"content":'))
        sent.set()
        await call.gone.wait()

    gate.models.acts["m"] = act
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"prompt":"hi"}'
    headers = (("authorization", f"Bearer {secret('held')}"), ("content-type", "application/json"))
    async with Wire(gate.run.url) as wire:
        await wire.send(post(body, *headers, path=path))
        await sent.wait()
        await asyncio.sleep(pause_s)
    await gate.run.settled()


async def assert_free(gate: Metered, path: str) -> None:
    gate.models.forget()
    answer = await gate.ask(key=secret("held"), model="m", path=path)
    assert answer.status_code == 200
    await gate.run.settled()
    assert (await figures(gate.run, "k:held", Dimension.CONCURRENCY))[1] == 0
    assert await gate.run.leases() == 0


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("path", PATHS)
async def test_rl_03_who_leaves_leaves_no_slot_taken(path: str, point: int, gate: Metered) -> None:
    await leave(gate, point, PATHS[path])
    await assert_free(gate, PATHS[path])


async def test_rl_03_nor_at_any_other_moment(gate: Metered) -> None:
    dice = random.Random(3)
    for _ in range(RANDOM_LEAVERS):
        await leave(gate, dice.choice(POINTS), PATHS["chat"], dice.uniform(0, LONGEST_PAUSE_S))
        await assert_free(gate, PATHS["chat"])
