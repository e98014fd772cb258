"""A gateway that is killed while it serves without its store: once it runs again, the ledger has all that it answered."""

import asyncio
import os
import signal
from pathlib import Path

import httpx

from gateway.admission.discovery import locator
from gateway.admission.redis_client import open_client
from gateway.policy.record import Outcome
from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.integration.load.served import Served, rows_of, settings
from tests.integration.load.witness import PREFIX
from tests.integration.processes.conditions import until, until_gone
from tests.running import HEADERS
from tests.valkey import Valkey

ANSWERS = 12
MODELS = {"m": {"deployments": [{"provider": "p", "model": "up-m"}], "price": {"input": 1, "output": 1}}}


async def told(valkey: Valkey, state_dir: Path) -> None:
    """Wait until nothing is left to tell, to end and to store."""
    redis = open_client(locator(valkey.url), timeout_s=5.0)

    async def done() -> bool:
        return not (
            [*(state_dir / "spool").glob("*.ndjson")]
            or await redis.zcard(PREFIX + b"leases")
            or await redis.xlen(PREFIX + b"ledger")
        )

    await until(done, within_s=20.0)
    await redis.aclose()


async def test_what_was_served_without_a_store_outlives_its_gateway(tmp_path: Path) -> None:
    with Valkey() as valkey:
        async with HttpServer(Models()) as server:
            redis = {"url": valkey.url}
            leases = {"ttl": "2s", "heartbeat": "500ms"}
            configured = settings(
                {"p": server.base_url}, MODELS, tmp_path, redis=redis, leases=leases, keys_pepper="a-pepper-of-its-own"
            )
            async with (
                Served("gateway", configured, tmp_path) as gateway,
                httpx.AsyncClient(headers=HEADERS, timeout=20) as client,
            ):

                async def ask(own_id: str, **fields: str) -> int:
                    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "service_tier": "default", **fields}
                    url = f"{gateway.url}/v1/chat/completions"
                    return (await client.post(url, json=body, headers={"x-request-id": own_id})).status_code

                assert await ask("before") == 200
                await told(valkey, tmp_path / "state")
                valkey.stop()
                answered = [await ask(f"alone-{number}") for number in range(ANSWERS)]
                assert answered == [200] * ANSWERS
                running = asyncio.create_task(ask("running", user="holder"))
                await server.until(lambda: len(server.requests) == ANSWERS + 2)
                members = gateway.members()
                for pid in members:
                    os.kill(pid, signal.SIGKILL)
                gateway.kill()
                await until_gone(members)
                await asyncio.wait([running])
                valkey.start()
                await gateway.start()
                await told(valkey, tmp_path / "state")
                assert await gateway.stop() == 0
    ends = {row["client_request_id"]: row["outcome"] for row in await rows_of(tmp_path, live=True)}
    alone = {f"alone-{number}": Outcome.OK for number in range(ANSWERS)}
    assert ends == {"before": Outcome.OK, **alone, "running": Outcome.ABANDONED}
