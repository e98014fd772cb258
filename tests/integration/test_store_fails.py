"""A store that is there and answers with errors: requests are refused, and the operator is told."""

from pathlib import Path

import msgspec
import pytest

from tests.fakes.http_server import HttpServer
from tests.fakes.openai import Models
from tests.running import config, running
from tests.valkey import Valkey

LEASES = "tg:v1:{c0}:leases"


async def test_an_error_of_the_stores_own_is_logged_and_shows(
    valkey: Valkey, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    models = {"m": {"deployments": [{"provider": "p", "model": "up-m"}]}}
    async with (
        HttpServer(Models()) as server,
        running(config({"p": server.base_url}, models, redis={"on_failure": {"rates": "closed"}}), valkey, tmp_path) as run,
    ):
        assert (await run.chat()).status_code == 200
        await run.settled()
        assert (run.gateway.status()["degraded"], run.gateway.status()["redis"]) == (False, "ok")
        await run.gateway._redis.delete(LEASES)
        await run.gateway._redis.set(LEASES, "no set")
        for _ in range(5):
            answer = await run.chat()
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "limiter_unavailable")
        status = run.gateway.status()
        assert (status["ready"], status["degraded"], status["redis"]) == (True, True, "failing")
        await run.gateway._redis.delete(LEASES)
    lines = [msgspec.json.decode(line) for line in capfd.readouterr().out.splitlines()]
    told = [line["error"] for line in lines if line["event"] == "admission_script_failed"]
    assert len(told) == 1, "one line for all that follow"
    assert "WRONGTYPE" in told[0]
