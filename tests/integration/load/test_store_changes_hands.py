"""A gateway whose store is a cluster, or behind sentinels: it serves and writes its rows before a failover and after."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from gateway.admission.client import cell_prefix, ledger_key
from gateway.stores.database import Reader
from gateway.stores.reports import Question, Reports
from tests.clusters import SLOT, Cluster
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.integration.load.served import Served, settings
from tests.integration.processes.conditions import LONGEST_START_S, until
from tests.nodes import Node
from tests.running import HEADERS
from tests.sentinels import Watched

MODELS = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}


async def ask(gateway: Served) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(headers=HEADERS, timeout=20, trust_env=False, verify=False) as client:
        return (await client.post(f"{gateway.url}/v1/chat/completions", json=body)).status_code


async def ended_in(store: Node) -> int:
    """Return how many requests a server has seen the end of."""
    return len(await store.ask("KEYS", cell_prefix("tg", "c0") + "done:*"))


async def outcomes(directory: Path) -> list[str]:
    reader = Reader(f"sqlite:///{directory / 'ledger.db'}")
    try:
        return [row["outcome"] for row in await Reports(reader).rows(Question())]
    finally:
        await reader.close()


async def serves_on(
    url: str, primary: Callable[[], Awaitable[Node]], fail_over: Callable[[], Awaitable[Node]], directory: Path
) -> None:
    """Run a gateway on a store, ask it before and after a failover, and see that each request has its row."""

    async def written(rows: int) -> None:
        async def so() -> bool:
            return await outcomes(directory) == ["ok"] * rows and await (await primary()).ask("XLEN", ledger_key()) == 0

        await until(so, within_s=LONGEST_START_S)

    async with HttpServer(Models()) as upstream:
        sections = {"redis": {"url": url}, "keys_pepper": "0123456789abcdef"}
        async with Served("gateway", settings({"p": upstream.base_url}, MODELS, directory, **sections), directory) as gateway:
            assert await ask(gateway) == 200
            await written(1)
            new = await fail_over()
            before, asked = await ended_in(new), 0

            async def is_used() -> bool:
                nonlocal asked
                asked += 1
                assert await ask(gateway) == 200
                return await ended_in(new) > before

            await until(is_used)
            await written(1 + asked)
            assert await gateway.stop() == 0


async def test_a_cluster(tmp_path: Path) -> None:
    async with Cluster() as cluster:
        await serves_on(cluster.url, lambda: cluster.owner_of(SLOT), cluster.fail_over, tmp_path)


async def test_sentinels(tmp_path: Path) -> None:
    async with Watched(sentinels=3) as watched:
        await serves_on(watched.url, watched.primary, lambda: watched.fail_over(coordinated=False), tmp_path)
