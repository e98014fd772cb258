"""The admission store stops or dies under running requests: nobody hangs, streams end well, what they hold is let go of later."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.policy.record import Outcome
from tests.fakes.http_server import Call, HttpServer
from tests.fakes.openai import BUSY, DONE, JSON, SSE, USAGE, completion, event
from tests.integration.load.rest import Notes, comes_to_rest
from tests.running import Running, config, running
from tests.valkey import Valkey

STREAMS = 5
RPM = 20
"""Leaks a third of a request in a second: what was spent is still to be seen when the store is back."""

CLOSED = {"on_failure": {"rates": "closed"}}

LONGEST_REFUSAL_S = 0.3

RECOVERY_S = 5.0
"""The longest pause between two tries of a settlement, the reconnection, and some."""


class Upstream:
    """Streams begin at once and end at `proceed`; the busy model refuses then."""

    def __init__(self) -> None:
        self.proceed = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        if b"up-busy" in call.request.body:
            await self.proceed.wait()
            call.reply(429, BUSY, JSON)
        elif b'"stream":true' in call.request.body:
            call.head(200, SSE, chunked=True)
            call.piece(event({"content": "Hel"}))
            await self.proceed.wait()
            call.piece(event({"content": "lo"}) + event({}, "stop") + event({}, choices=[], usage=USAGE) + DONE)
            call.end()
        else:
            call.reply(200, completion(), JSON)


class Scene:
    """A gateway with streams under way; what it notes is in `notes`."""

    def __init__(self, run: Running, upstream: Upstream, notes: Notes) -> None:
        self.run = run
        self.upstream = upstream
        self.notes = notes
        self.streams: list[asyncio.Task[str]] = []
        self.falling_back: asyncio.Task[httpx.Response]

    async def stream(self, begun: Callable[[], object]) -> str:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        async with self.run.client.stream("POST", "/v1/chat/completions", json=body) as response:
            pieces = response.aiter_text()
            first = await anext(pieces)
            begun()
            return first + "".join([piece async for piece in pieces])


@asynccontextmanager
async def under_way(valkey: Valkey, directory: Path, **sections: Any) -> AsyncIterator[Scene]:
    """Run a gateway with streams that have begun, and a request that is about to fall back."""
    upstream = Upstream()
    models: dict[str, Any] = {name: {"deployments": [{"provider": "p", "model": f"up-{name}"}]} for name in ("busy", "m")}
    async with HttpServer(upstream) as server:
        settings = config(
            {"p": server.base_url}, models, plan={"limits": {"rpm": RPM, "concurrency": 50}}, redis=CLOSED, **sections
        )
        async with running(settings, valkey, directory) as run:
            scene = Scene(run, upstream, Notes(run))
            begun = asyncio.Semaphore(0)
            scene.streams = [asyncio.create_task(scene.stream(begun.release)) for _ in range(STREAMS)]
            for _ in range(STREAMS):
                await begun.acquire()
            scene.falling_back = asyncio.create_task(run.chat(model=..., models=["busy", "m"]))
            await server.until(lambda: len(server.requests) == STREAMS + 1)
            yield scene


async def assert_refused_at_once(run: Running) -> None:
    for _ in range(5):
        began_s = time.monotonic()
        refused = await run.chat()
        assert time.monotonic() - began_s < LONGEST_REFUSAL_S
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "limiter_unavailable")
        assert refused.headers["retry-after"] == "1"
        assert (await run.client.get("/health")).status_code == 200


async def test_a_worker_that_cannot_wait_notes_its_requests_and_their_leases_end_by_themselves(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with under_way(valkey, tmp_path, leases={"ttl": "1s", "heartbeat": "300ms"}) as scene:
            valkey.pause()
            scene.upstream.proceed.set()
            await asyncio.gather(*scene.streams, scene.falling_back)
            tasks = scene.run.gateway._corridor.tasks
            assert not await tasks.drain(0.05)
            valkey.resume()
            await comes_to_rest(scene.run, within_s=RECOVERY_S)
            assert [line.settled_ms for line in scene.notes.lines] == [None] * (STREAMS + 1)


def assert_books_add_up(notes: Notes, rows: list[dict[str, Any]]) -> None:
    """Each request that was admitted has one row, and those that were served are billed in full."""
    assert Counter(row["request_id"] for row in rows) == notes.opened()
    served = [row for row in rows if row["outcome"] == Outcome.OK]
    assert len(served) == STREAMS + 1
    for row in served:
        assert (row["input_tokens"], row["output_tokens"], row["estimated"]) == (10, 20, False)
    assert not any(row["input_tokens"] or row["output_tokens"] for row in rows if row not in served)


@pytest.mark.parametrize("way", ["paused", "killed"])
async def test_a_store_that_goes_away(way: str, tmp_path: Path) -> None:
    with Valkey() as valkey:
        gone, back = (valkey.pause, valkey.resume) if way == "paused" else (valkey.stop, valkey.start)
        async with under_way(valkey, tmp_path) as scene:
            run = scene.run
            gone()
            await assert_refused_at_once(run)
            scene.upstream.proceed.set()
            for text in await asyncio.gather(*scene.streams):
                assert text.endswith("data: [DONE]\n\n")
            assert (await scene.falling_back).status_code == 503
            back()
            await comes_to_rest(run, within_s=RECOVERY_S)
            answer = await run.chat()
            assert answer.status_code == 200
            assert int(answer.headers["x-ratelimit-remaining-requests"]) >= RPM - STREAMS - 1
            assert_books_add_up(scene.notes, await run.rows())
