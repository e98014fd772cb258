"""What one worker holds at once: bodies are counted while they come, not only when they begin."""

import asyncio
from pathlib import Path

from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.fakes.wire import Wire, post
from tests.running import HEADERS, config, running
from tests.valkey import Valkey

BODY = b" " * 900_000


async def test_bodies_that_come_together_do_not_pass_the_cap_together(valkey: Valkey, tmp_path: Path) -> None:
    models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
    async with HttpServer(Models()) as server:
        settings = config({"p": server.base_url}, models, limits={"buffered": "1MiB", "body": "1MiB"})
        async with running(settings, valkey, tmp_path) as run, Wire(run.url) as first, Wire(run.url) as second:
            buffered = run.gateway._floor.buffered
            whole = post(BODY, *HEADERS.items())
            await first.send(whole[:-100_000])
            async with asyncio.timeout(5.0):
                while buffered.held_bytes < 800_000:
                    await asyncio.sleep(0.002)
            await second.send(whole[:-100_000])
            refused = await second.answer()
            assert (refused.status, refused.json()["error"]["code"]) == (503, "overloaded")
            assert "retry-after" in refused.headers
            assert buffered.held_bytes < 1_000_000, "what was refused is given back"
            await first.send(whole[-100_000:])
            assert (await first.answer()).status == 400
            await run.settled()
            assert buffered.held_bytes == 0
