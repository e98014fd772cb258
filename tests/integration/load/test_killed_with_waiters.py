"""A gateway killed with fifty requests running and fifty waiting: its slots come free, its waiters leave nothing behind."""

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.integration.load.served import Served, settings
from tests.integration.load.witness import PREFIX
from tests.integration.processes.conditions import until, until_gone
from tests.running import HEADERS
from tests.valkey import Valkey

RUNNING = WAITING = 50
OTHERS = 10
TTL_S = 2.0
AT_ONCE_S = 5.0
"""What the other gateway may take beyond the leases: it ends eight of them at each of its ticks, two ticks a second."""

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
SECTIONS: dict[str, Any] = {
    "leases": {"ttl": f"{TTL_S:g}s", "heartbeat": "500ms"},
    "keys_pepper": "a-pepper-that-all-replicas-share",
    "tiers": {"default": {"queue": "60s"}},
    "plan": {"tiers": ["default"]},
}
MODELS = {
    "m": {
        "deployments": [{"provider": "p", "model": "up-m", "max_concurrency": RUNNING}],
        "queue": {"max_waiters": 200, "per_org": 1.0},
    }
}


async def ask(client: httpx.AsyncClient, **fields: str) -> int:
    try:
        return (await client.post(CHAT, json={**BODY, **fields}, headers=HEADERS)).status_code
    except httpx.TransportError:
        return 0


async def outcomes(directory: Path) -> Counter[str]:
    reader = Reader(f"sqlite:///{directory / 'ledger.db'}")
    try:
        return Counter(str(row["outcome"]) for row in await Reports(reader).rows(Question(live=True)))
    finally:
        await reader.close()


async def test_its_slots_go_to_others_and_its_waiters_have_no_row(tmp_path: Path) -> None:
    with Valkey() as valkey:
        redis = open_client(locator(valkey.url), timeout_s=10.0)

        async def waiting() -> int:
            return sum([await redis.zcard(key) for key in await redis.keys(PREFIX + b"line:*")])

        async with HttpServer(Models()) as upstream, AsyncExitStack() as stack:
            whole = settings({"p": upstream.base_url}, MODELS, tmp_path, redis={"url": valkey.url, "timeout": "5s"}, **SECTIONS)
            doomed, other = (Served(name, {**whole, "state_dir": str(tmp_path / name)}, tmp_path) for name in ("doomed", "other"))
            await asyncio.gather(*(stack.enter_async_context(each) for each in (doomed, other)))
            limits = httpx.Limits(max_connections=None)
            here, there = [
                await stack.enter_async_context(
                    httpx.AsyncClient(base_url=each.url, timeout=60, trust_env=False, verify=False, limits=limits)
                )
                for each in (doomed, other)
            ]
            tasks = [asyncio.create_task(ask(here, user="holder")) for _ in range(RUNNING)]
            await upstream.until(lambda: len(upstream.requests) == RUNNING)
            tasks += [asyncio.create_task(ask(here)) for _ in range(WAITING)]
            await until(lambda: reached(waiting, WAITING))
            others = [asyncio.create_task(ask(there)) for _ in range(OTHERS)]
            await until(lambda: reached(waiting, WAITING + OTHERS))
            members = doomed.members()
            killed_s = time.monotonic()
            for pid in doomed.workers():
                os.kill(pid, signal.SIGSTOP)  # so that none of them is told of the others' end
            for pid in members:
                os.kill(pid, signal.SIGKILL)
            assert await asyncio.gather(*others) == [200] * OTHERS
            assert time.monotonic() - killed_s < TTL_S + AT_ONCE_S
            assert {*await asyncio.gather(*tasks)} == {0}
            await until_gone(members)
            await until(lambda: reached(lambda: redis.zcard(PREFIX + b"leases"), 0), within_s=20.0)
            await until(lambda: reached(lambda: redis.xlen(PREFIX + b"ledger"), 0), within_s=20.0)
            assert await waiting() == 0
            assert await outcomes(tmp_path) == {"abandoned": RUNNING, "ok": OTHERS}
            assert await other.stop() == 0
        await redis.aclose()


async def reached(count: Any, wanted: int) -> bool:
    return bool(await count() == wanted)
